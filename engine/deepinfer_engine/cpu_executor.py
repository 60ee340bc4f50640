"""The Llama forward pass and the reference sampler behind the engine's `Executor` protocol."""

from __future__ import annotations

from collections.abc import Sequence as Many

import numpy as np
from deepinfer_kernels.cpu import set_threads

from .executor import Choice, choose
from .llama import LlamaCache, LlamaModel, Rows
from .scheduler import Entry


class CpuExecutor:
    """The Llama forward pass and the reference sampler.

    Args:
        model: The forward pass.
        cache: Keys and values.
        block_tokens: Tokens per cache block.
        eos_ids: Ids that end the text.
        threads: Processor threads, None for all.
    """

    def __init__(
        self,
        model: LlamaModel,
        cache: LlamaCache,
        block_tokens: int,
        eos_ids: tuple[int, ...],
        threads: int | None,
    ) -> None:
        self._model = model
        self._cache = cache
        self._block_tokens = block_tokens
        self._eos_ids = eos_ids
        self._threads = threads

    def start(self) -> None:
        """Set the number of threads, which holds for the calling thread."""
        if self._threads is not None:
            set_threads(self._threads)

    def step(self, entries: Many[Entry]) -> list[Choice]:
        """Forward pass over all rows, then one draw per sampling entry."""
        logits = self._model.forward(step_rows(entries, self._block_tokens), self._cache)
        sampling = [entry.sequence for entry in entries if entry.samples]
        return [
            choose(sequence, row, self._eos_ids)
            for sequence, row in zip(sampling, logits, strict=True)
        ]


def step_rows(entries: Many[Entry], block_tokens: int) -> Rows:
    """The rows of a step; `block_tokens` is the size of a cache block."""
    counts = [entry.count for entry in entries]
    ids = [
        token
        for entry in entries
        for token in entry.sequence.tokens[entry.start : entry.start + entry.count]
    ]
    positions = np.concatenate(
        [np.arange(e.start, e.start + e.count, dtype=np.int64) for e in entries]
    )
    sequences = np.repeat(np.arange(len(entries), dtype=np.int64), counts)
    tables = np.zeros((len(entries), max(len(e.sequence.blocks) for e in entries)), np.int64)
    for row, entry in zip(tables, entries, strict=True):
        row[: len(entry.sequence.blocks)] = entry.sequence.blocks
    block = positions // block_tokens
    slots = tables[sequences, block] * block_tokens + positions % block_tokens
    ends = np.cumsum(counts, dtype=np.int64) - 1
    wanted = ends[[entry.samples for entry in entries]]
    return Rows(np.array(ids, np.int64), positions, slots, sequences, tables, wanted)
