"""A loaded model: weights, tokenizer and what belongs to them; and the way to load one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import EngineConfig
from .cpu_executor import CpuExecutor
from .errors import EngineError
from .llama import LlamaCache, LlamaConfig, LlamaModel, LlamaWeights
from .loop import TokenTable
from .tokenizer import Tokenizer

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """Everything an engine needs; engines may share it.

    Attributes:
        name: For people.
        digest: Identifies weights, sizes and tokenizer.
        architecture: ``"llama"``.
        config: Sizes.
        weights: Tiled weights.
        tokenizer: The tokenizer.
        chat_template: Jinja text, or None.
        special_tokens: ``bos_token`` and the like, for the template.
    """

    name: str
    digest: str
    architecture: str
    config: LlamaConfig
    weights: LlamaWeights
    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: Mapping[str, str]

    @property
    def max_len(self) -> int:
        """Longest sequence the model was made for."""
        return self.config.max_len

    @property
    def token_table(self) -> TokenTable:
        """What the engine loop knows of the tokenizer."""
        return TokenTable(self.tokenizer.token_bytes, self.tokenizer.eos_ids)

    def executor(self, config: EngineConfig) -> tuple[CpuExecutor, int, int]:
        """An executor with a cache of its own, the number of its blocks, and the longest sequence.

        Raises:
            EngineError: The cache cannot be allocated.
        """
        length = config.max_len if config.max_len is not None else self.max_len
        per_block = LlamaCache.bytes_per_block(self.config, config.block_tokens)
        num_blocks = config.num_blocks
        if num_blocks is None:
            wanted = -(-length // config.block_tokens) * config.max_slots
            num_blocks = max(1, min(wanted, config.cache_bytes // per_block))
        capacity = num_blocks * config.block_tokens
        if config.max_len is not None and capacity < config.max_len:
            raise EngineError(
                "memory",
                f"a sequence of max_len={config.max_len} tokens does not fit into the cache of "
                f"{num_blocks} blocks of {config.block_tokens} tokens",
                hint=f"Use max_len={capacity} or less, or raise num_blocks or cache_bytes",
            )
        length = min(length, capacity)
        try:
            cache = LlamaCache(self.config, num_blocks, config.block_tokens)
        except MemoryError:
            raise EngineError(
                "memory",
                f"the cache of {num_blocks} blocks needs {num_blocks * per_block >> 20} MiB",
                hint="Use a smaller max_len or max_slots",
            ) from None
        executor = CpuExecutor(
            LlamaModel(self.config, self.weights, length),
            cache,
            config.block_tokens,
            self.tokenizer.eos_ids,
            config.threads,
        )
        return executor, num_blocks, length


def load_model(
    path: Path | str, *, device: str = "cpu", progress: Progress | None = None
) -> LoadedModel:
    """Load a model.

    Args:
        path: A ``.gguf`` file, or a folder with config.json, safetensors and tokenizer.json.
        device: ``"cpu"``.
        progress: Called with (label, bytes done, bytes in all).

    Raises:
        EngineError: The files are missing, damaged or of an unsupported kind; the message names
            the file and the tensor.
    """
    from .gguf_file import load_gguf
    from .hf_folder import load_folder

    path = Path(path)
    if device != "cpu":
        raise EngineError("invalid", f"device {device!r} is not supported", hint='Use "cpu"')
    if not os.access(path, os.R_OK):
        raise EngineError("model", f"{path} does not exist or cannot be read", hint="Check it")
    report: Progress = progress if progress is not None else _silent
    try:
        model = load_folder(path, report) if path.is_dir() else load_gguf(path, report)
    except EngineError:
        raise
    except MemoryError:
        raise EngineError(
            "memory", f"the weights of {path.name} do not fit into memory", hint="Use a smaller one"
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError) as error:
        raise EngineError(
            "model", f"{path.name} holds something unexpected: {error!r}", hint="Fetch it again"
        ) from error
    _check_ids(path, model.tokenizer)
    return model


def _check_ids(path: Path, tokenizer: Tokenizer) -> None:
    """Refuse end- and begin-of-text ids that are no token ids."""
    named: list[Any] = [*tokenizer.eos_ids]
    named += [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    for i in named:
        if not isinstance(i, int) or not 0 <= i < tokenizer.vocab_size:
            raise EngineError(
                "model",
                f"{path.name} begins or ends texts with the token {i!r}, which is not one of its "
                f"{tokenizer.vocab_size} tokens",
                hint="Fetch the model again",
            )


def _silent(label: str, done: int, total: int) -> None:
    """No progress."""
