"""Penalties and bias: what a sequence has seen so far changes its logits.

Every step is one correctly rounded float32 operation, division included.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .sampler_types import SamplerParams


class TokenCounts:
    """Ids seen in the prompt and the histogram of the output of one sequence.

    Built by replay: feeding the same ids in any grouping gives the same counts.
    """

    __slots__ = ("_counts", "_ids", "_rows")

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._rows: dict[int, int] = {}
        self._ids: NDArray[np.int64] = np.empty(64, dtype=np.int64)
        self._counts: NDArray[np.int64] = np.zeros(64, dtype=np.int64)

    def _row(self, token: int) -> int:
        row = self._rows.get(token)
        if row is None:
            row = len(self._rows)
            if row == len(self._ids):
                self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._rows[token] = row
            self._ids[row] = token
            self._counts[row] = 0
        return row

    def add_prompt(self, ids: Iterable[int]) -> None:
        """Mark ids as seen; they do not count as output."""
        for token in ids:
            self._row(int(token))

    def add_output(self, token: int) -> None:
        """Count one produced token."""
        row = self._row(int(token))
        self._counts[row] += 1

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Seen ids (distinct, in order of first sight) and their output counts, both int64."""
        used = len(self._rows)
        return self._ids[:used], self._counts[:used]


def penalise(
    logits: NDArray[np.float32], counts: NDArray[np.int64], params: SamplerParams
) -> NDArray[np.float32]:
    """Repetition, frequency and presence penalties on the logits of seen tokens.

    `x > 0 ? x / rho : x * rho`, then `x -= f * count + q * (count > 0)`.

    Args:
        logits: float32 [n], of tokens seen in prompt or output.
        counts: int64 [n], occurrences in the output.
        params: the penalties.

    Returns:
        float32 [n], new.
    """
    x: NDArray[np.float32] = logits
    if params.repetition_penalty != 1.0:
        rho = np.float32(params.repetition_penalty)
        x = np.where(x > 0, x / rho, x * rho)
    if params.frequency_penalty != 0.0 or params.presence_penalty != 0.0:
        frequency = counts.astype(np.float32) * np.float32(params.frequency_penalty)
        presence = (counts > 0).astype(np.float32) * np.float32(params.presence_penalty)
        x = np.subtract(x, frequency + presence, dtype=np.float32)
    return x
