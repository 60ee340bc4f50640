"""An executor on a torch device with the fused sampler: logits and masks never come back.

The mask of a constrained row is made on the host from the sequence's state and budget and uploaded
as an override row; the engine loop advances the state from the drawn token. Automata that live on
the device would take the place of `_masks`, `_tables` and the override columns. Tested on the CPU
in Triton's interpreter; no session uses it yet.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import TYPE_CHECKING

import numpy as np
import torch
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from deepinfer_kernels.gpu.sampler import (
    SampleOutput,
    SamplerPlan,
    SamplerWorkspace,
    pack_rows,
    sample,
)
from deepinfer_kernels.gpu.sampler_rows import LEFT, OVERRIDE_LEFT, OVERRIDE_ROW, OVERRIDE_STATE
from deepinfer_kernels.sampling import Drawn, Status

from .config import EngineConfig
from .cpu_executor import step_rows
from .engine import Engine
from .errors import EngineError
from .executor import Choice, refusal, sampling_error
from .scheduler import Entry
from .sequence import Sequence
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
        EngineError: ``invalid``, if torch sees no CUDA device.
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
    executor = TorchExecutor(llama, config, model.tokenizer.eos_ids)
    return Engine.over(executor, model.token_table, config, num_blocks=num_blocks, max_len=length)


class TorchExecutor:
    """The forward pass and the fused sampler on one device.

    Args:
        model: The forward pass and its cache.
        config: Sizes and limits.
        eos_ids: Ids that end the text.
    """

    def __init__(self, model: TorchLlama, config: EngineConfig, eos_ids: tuple[int, ...]) -> None:
        self._model, self._config, self._eos_ids = model, config, eos_ids
        self._size = model.config.vocab_size
        self._workspace = SamplerWorkspace(config.max_slots, self._size, model.device)

    def start(self) -> None:
        """Nothing to prepare on the thread."""

    def step(self, entries: Many[Entry]) -> list[Choice]:
        """Forward pass over all rows, then one sampler call for all sampling entries."""
        try:
            return self._step(entries)
        except torch.OutOfMemoryError as error:  # the loop tries again with fewer rows
            raise MemoryError(str(error)) from None

    def _step(self, entries: Many[Entry]) -> list[Choice]:
        logits = self._model.forward(step_rows(entries, self._config.block_tokens))
        sequences = [entry.sequence for entry in entries if entry.samples]
        choices: list[Choice | None] = [None] * len(sequences)
        masks, narrowed = self._masks(sequences, choices)
        held = [
            (*self._eos_ids, *s.request.stop_ids) if s.output_length < s.request.min_tokens else ()
            for s in sequences
        ]
        live = [i for i, choice in enumerate(choices) if choice is None]
        drawn = self._draw(logits, sequences, live, masks, held)
        again = [i for i in live if drawn[i].status is Status.EMPTY and held[i]]
        if again:  # nothing else is left to say
            drawn |= self._draw(logits, sequences, again, masks, [()] * len(sequences))
        for i in live:
            try:
                refused = refusal(sequences[i], drawn[i], narrowed[i])
                choices[i] = refused or Choice(drawn[i], narrowed[i])
            except Exception as error:
                choices[i] = Choice(None, error=sampling_error(error, sequences[i]))
        return [choice for choice in choices if choice is not None]

    def _masks(
        self, sequences: Many[Sequence], choices: list[Choice | None]
    ) -> tuple[dict[int, np.ndarray], list[bool]]:
        """Packed masks by row, and whether each is narrowed; failures become choices."""
        masks: dict[int, np.ndarray] = {}
        narrowed = [False] * len(sequences)
        for i, one in enumerate(sequences):
            constraint = one.request.constraint
            if constraint is None:
                continue
            try:
                masks[i] = constraint.mask(one.state, one.budget)
                narrowed[i] = constraint.narrowed(one.state, one.budget)
            except Exception as error:
                choices[i] = Choice(None, error=sampling_error(error, one))
        return masks, narrowed

    def _draw(
        self,
        logits: torch.Tensor,
        sequences: Many[Sequence],
        chosen: list[int],
        masks: dict[int, np.ndarray],
        held: Many[tuple[int, ...]],
    ) -> dict[int, Drawn]:
        """Results of the rows `chosen`, read back in one copy."""
        if not chosen:
            return {}
        device, words = self._model.device, -(-self._size // 32)
        some = [sequences[i] for i in chosen]
        counted = [one.counts for one in some if one.counts is not None]
        slots = np.cumsum([one.counts is not None for one in some]) - 1
        counts = np.zeros((max(len(counted), 1), self._size), np.int32)
        bits = np.zeros((len(counts), words * 32), np.uint8)
        for row, one in enumerate(counted):
            ids, times = one.arrays()
            counts[row, ids], bits[row, ids] = times, 1
        seen = np.packbits(bits, axis=1, bitorder="little").view(np.int32)
        masked = [row for row, i in enumerate(chosen) if i in masks]
        params = [one.params for one in some]
        rows = pack_rows(
            params,
            [len(one.tokens) for one in some],
            device=device,
            states=[1 if i in masks else -1 for i in chosen],
            left=[one.budget for one in some],
            slots=[
                -1 if one.counts is None else int(s) for one, s in zip(some, slots, strict=True)
            ],
            counts=torch.from_numpy(counts).to(device),
            seen=torch.from_numpy(seen).to(device),
            banned_now=[held[i] for i in chosen],
        )
        tables = None
        if masked:
            at = torch.tensor(masked, device=device)
            rows.table[at, OVERRIDE_STATE] = 1
            rows.table[at, OVERRIDE_LEFT] = rows.table[at, LEFT]
            rows.table[at, OVERRIDE_ROW] = torch.arange(
                len(masked), dtype=torch.int32, device=device
            )
            tables = self._tables(np.stack([masks[chosen[row]] for row in masked]))
        plan = SamplerPlan(
            penalties=bool(counted),
            modulo31=any(p.draw == "modulo31" for p in params),
            logprobs=any(p.logprobs is not None for p in params),
        )
        out = SampleOutput.allocate(len(chosen), device)
        picked = logits
        if len(chosen) != len(logits):
            picked = logits[torch.tensor(chosen, device=device)]
        sample(picked, rows, tables, out, self._workspace, plan)
        whole = (
            torch.cat(
                [
                    torch.stack(
                        [out.token, out.status, out.rank, out.logprob.view(torch.int32)], 1
                    ),
                    out.top_ids,
                    out.top_logprobs.view(torch.int32),
                ],
                1,
            )
            .cpu()
            .numpy()
        )
        return {
            i: _drawn(row, one.params.logprobs)
            for i, row, one in zip(chosen, whole, some, strict=True)
        }

    def _tables(self, masks: np.ndarray) -> AutomatonTables:
        """One state whose mask is always overridden; tokens without bytes keep the state."""

        def of(values: object, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.as_tensor(values, dtype=dtype, device=self._model.device)

        return AutomatonTables(
            byte_class=of([[0] * 256], torch.uint8),
            state_automaton=of([0, 0]),
            state_edges=of([-1, -1]),
            edges=of([0]),
            state_fewest=of([1, 1]),
            state_row=of([-1, -1]),
            state_enough=of([0, 0]),
            rows=of(np.ascontiguousarray(masks).view(np.int32)),
            token_start=of([0] * (self._size + 1)),
            token_bytes=of([0], torch.uint8),
            eos=of([0]),
        )


def _drawn(row: np.ndarray, wanted: int | None) -> Drawn:
    token, status = int(row[0]), Status(int(row[1]))
    if wanted is None or status is not Status.OK:
        return Drawn(token, status)
    values = np.ascontiguousarray(row).view(np.float32)
    top = tuple((int(i), float(v)) for i, v in zip(row[4:24], values[24:44], strict=True) if i >= 0)
    return Drawn(token, status, float(values[3]), int(row[2]), top)
