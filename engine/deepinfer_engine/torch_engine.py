"""Engines whose steps run on a torch device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .config import EngineConfig
from .engine import Engine
from .errors import EngineError
from .torch_executor import TorchExecutor
from .torch_llama import TorchLlama

if TYPE_CHECKING:
    from .model import LoadedModel


def open_torch_engine(
    model: LoadedModel, config: EngineConfig, *, num_blocks: int, device: str = "cuda"
) -> Engine:
    """An engine whose steps run on a torch device.

    Args:
        model: A loaded model.
        config: Sizes and limits.
        num_blocks: Cache blocks.
        device: ``"cuda"``; ``"cpu"`` needs Triton's interpreter and is meant for tests.

    Raises:
        EngineError: ``invalid``, if torch sees no CUDA device; ``memory``.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise EngineError(
            "invalid",
            f"torch sees no device {device!r}",
            hint="Install a CUDA build of torch on a machine with a GPU, or use "
            "Engine(model, config), which runs on the CPU",
        )
    length = min(config.max_len or model.max_len, num_blocks * config.block_tokens)
    place = torch.device(device)
    llama = TorchLlama(model.config, model.weights, length, num_blocks, config.block_tokens, place)
    executor = TorchExecutor(llama, config, model.token_table)
    return Engine.over(executor, model.token_table, config, num_blocks=num_blocks, max_len=length)
