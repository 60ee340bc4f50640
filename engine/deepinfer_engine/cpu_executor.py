"""The Llama forward pass and the reference sampler behind the engine's `Executor` protocol."""

from __future__ import annotations

from collections.abc import Sequence as Many

import numpy as np
from deepinfer_kernels.cpu import set_threads

from .executor import Choice, choose
from .llama import LlamaCache, LlamaModel, Rows
from .scheduler import Entry
from .sequence import Sequence


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

    @property
    def depth(self) -> int:
        """Steps are over when they have been launched."""
        return 0

    def collect(self, step: list[Choice]) -> list[Choice]:
        """What the launch has found."""
        return step

    def release(self, sequence: Sequence) -> None:
        """Nothing is kept for a sequence."""

    def launch(self, entries: Many[Entry]) -> list[Choice]:
        """Forward pass over all rows, then one draw per sampling entry."""
        logits = self._model.forward(step_rows(entries, self._block_tokens), self._cache)
        sampling = [entry.sequence for entry in entries if entry.samples]
        return [
            choose(sequence, row, self._eos_ids)
            for sequence, row in zip(sampling, logits, strict=True)
        ]


def step_rows(entries: Many[Entry], block_tokens: int) -> Rows:
    """The rows of a step, with id -1 for tokens that are still being drawn.

    `block_tokens` is the size of a cache block.
    """
    counts = [entry.count for entry in entries]
    ids: list[int] = []
    for entry in entries:
        known = entry.sequence.tokens[entry.start : entry.start + entry.count]
        ids += known + [-1] * (entry.count - len(known))
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
