"""Sampling parameters of running sequences, kept on the device and moved on there by tokens."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from deepinfer_kernels.gpu.sampler_rows import (
    BANNED_LENGTH,
    BANNED_START,
    BIAS_LENGTH,
    BIAS_START,
    COLUMNS,
    LEFT,
    OVERRIDE_LEFT,
    OVERRIDE_ROW,
    OVERRIDE_STATE,
    PENALTY_SLOT,
    SAMPLE,
    STATE,
    RowParams,
    write_params,
)
from deepinfer_kernels.sampling import SamplerParams
from numpy.typing import NDArray

from .device_copy import upload
from .sequence import Sequence

Bias = tuple[tuple[int, float], ...]
Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Pools:
    """Lists of all slots; `starts` has (bias start, length, banned start, length) by slot."""

    starts: dict[int, tuple[int, int, int, int]]
    bias_ids: torch.Tensor
    bias_values: torch.Tensor
    banned_ids: torch.Tensor


class DeviceRows:
    """A parameter row per slot, the lists they refer to, and the last token of each.

    Args:
        slots: Rows of the largest step.
        vocab_size: V.
        device: Where they are.

    Attributes:
        table: int32 [slots, 32].
        last: int32 [slots], the token that was drawn last.
    """

    def __init__(self, slots: int, vocab_size: int, device: torch.device) -> None:
        self._slots, self._size, self._device = slots, vocab_size, device
        self.table = torch.zeros((slots, COLUMNS), dtype=torch.int32, device=device)
        self.last = torch.zeros(slots, dtype=torch.int32, device=device)
        self._nothing = torch.zeros((1, 1), dtype=torch.int32, device=device)
        self._counts, self._seen = self._nothing, self._nothing
        self._rows: dict[int, NDArray[np.int32]] = {}
        self._lists: dict[int, tuple[Bias, Ids]] = {}
        self._pools: _Pools | None = None

    def write(
        self,
        slot: int,
        sequence: Sequence,
        params: SamplerParams,
        *,
        state: int,
        override: int,
        banned: Ids,
    ) -> None:
        """Set the row of a slot to what comes next for a sequence; `flush` enqueues it.

        Args:
            slot: The row.
            sequence: Says the position, the budget and what was counted.
            params: How to draw.
            state: Global state of the automaton, -1 for none.
            override: Row of the mask for exactly this state and budget, -1 for none.
            banned: All ids that may not come.
        """
        row = np.zeros(COLUMNS, np.int32)
        longs = row.view(np.int64)
        longs[0] = len(sequence.tokens)
        longs[1] = np.uint64(params.seed).view(np.int64)
        row[SAMPLE] = np.uint32(params.sample).view(np.int32)
        row[STATE], row[LEFT] = state, min(sequence.budget, 0x7FFFFFFF)
        row[OVERRIDE_STATE] = state if override >= 0 else -1
        row[OVERRIDE_LEFT], row[OVERRIDE_ROW] = row[LEFT], override
        row[PENALTY_SLOT] = -1 if sequence.counts is None else slot
        write_params(row, row.view(np.float32), params)
        lists = (params.logit_bias, banned)
        if self._lists.get(slot) != lists:
            self._lists[slot] = lists
            self._pools = None
        self._rows[slot] = row
        if sequence.counts is not None:
            self._count(slot, sequence)

    def write_banned(self, slot: int, banned: Ids) -> None:
        """Change only which ids may not come; `flush` enqueues it."""
        bias, before = self._lists.get(slot, ((), ()))
        if before != banned:
            self._lists[slot] = (bias, banned)
            self._pools = None

    def forget(self, slot: int) -> None:
        """Drop the lists of a slot that is free."""
        self._lists.pop(slot, None)

    def flush(self) -> None:
        """Enqueue what was written."""
        fresh = self._pools is None
        self._pools = self._pools or self._make_pools()
        starts = self._pools.starts
        if self._rows:
            for slot, row in self._rows.items():
                row[[BIAS_START, BIAS_LENGTH, BANNED_START, BANNED_LENGTH]] = starts[slot]
            at = np.array(list(self._rows), np.int64)
            rows = np.stack(list(self._rows.values()))
            self.table[self._put(at)] = self._put(rows)
            self._rows = {}
        if fresh and starts:  # the lists of all slots have moved
            places = np.array([[slot, *places] for slot, places in starts.items()], np.int32)
            both = self._put(places)
            self.table[both[:, 0].long(), BIAS_START : BANNED_LENGTH + 1] = both[:, 1:]

    def params(self, slots: torch.Tensor) -> RowParams:
        """The rows of some slots, int32 [B], as they are now."""
        return self._params(self.table[slots.long()])

    def all_params(self) -> RowParams:
        """The rows of all slots, to be modified."""
        return self._params(self.table)

    @property
    def penalised(self) -> bool:
        """Whether some slot has had a penalty so far."""
        return self._counts is not self._nothing

    @property
    def listed(self) -> bool:
        """Whether some slot has a bias or banned ids."""
        return any(bias or banned for bias, banned in self._lists.values())

    def _params(self, table: torch.Tensor) -> RowParams:
        pools = self._pools
        assert pools is not None, "flush comes first"
        return RowParams(
            table, self._counts, self._seen, pools.bias_ids, pools.bias_values, pools.banned_ids
        )

    def _make_pools(self) -> _Pools:
        bias_at, bias = _pooled([bias for bias, _ in self._lists.values()])
        banned_at, banned = _pooled([banned for _, banned in self._lists.values()])
        return _Pools(
            starts={
                slot: (bias_at[bias], len(bias), banned_at[banned], len(banned))
                for slot, (bias, banned) in self._lists.items()
            },
            bias_ids=self._put(np.array([t for t, _ in bias] or [0], np.int32)),
            bias_values=self._put(np.array([v for _, v in bias] or [0], np.float32)),
            banned_ids=self._put(np.array(banned or [0], np.int32)),
        )

    def _put(self, values: NDArray[Any]) -> torch.Tensor:
        return upload(values, self._device)

    def _count(self, slot: int, sequence: Sequence) -> None:
        """Write what a sequence has seen and said into the tables for penalties."""
        counts = sequence.counts
        if counts is None:
            return
        words = -(-self._size // 32)
        if not self.penalised:
            shape = (self._slots, self._size)
            self._counts = torch.zeros(shape, dtype=torch.int32, device=self._device)
            self._seen = torch.zeros((self._slots, words), dtype=torch.int32, device=self._device)
        ids, times = counts.arrays()
        dense = np.zeros(self._size, np.int32)
        dense[ids] = times
        bits = np.zeros(words * 32, np.uint8)
        bits[ids] = 1
        seen = np.packbits(bits, bitorder="little").view(np.int32)
        self._counts[slot] = self._put(dense)
        self._seen[slot] = self._put(seen)


T = TypeVar("T")


def _pooled(lists: Many[tuple[T, ...]]) -> tuple[dict[tuple[T, ...], int], list[T]]:
    """Different lists one after the other, and where each begins."""
    starts: dict[tuple[T, ...], int] = {}
    pool: list[T] = []
    for one in lists:
        if one not in starts:
            starts[one] = len(pool)
            pool.extend(one)
    return starts, pool
