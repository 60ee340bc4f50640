"""Scattered writes to device tables, gathered on the host and enqueued together."""

from __future__ import annotations

import numpy as np
import torch
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from numpy.typing import NDArray

from .device_copy import upload

Integers = NDArray[np.int32] | NDArray[np.int64]


class TableWrites:
    """Writes that wait for `flush`; of several to one place the last one counts.

    Args:
        tables: What is written to.
        device: Where it is.
    """

    def __init__(self, tables: AutomatonTables, device: torch.device) -> None:
        self._tables, self._device = tables, device
        self._parts: dict[str, list[tuple[Integers, Integers]]] = {}
        self._rows: dict[int, NDArray[np.uint32]] = {}
        self._classes: dict[int, NDArray[np.uint8]] = {}

    def put(self, name: str, places: Integers, values: Integers) -> None:
        """Write int32 values to places of a flat table; arrays of one shape."""
        if places.size:
            self._parts.setdefault(name, []).append((places.ravel(), values.ravel()))

    def put_row(self, row: int, words: NDArray[np.uint32]) -> None:
        """Write a mask; the array must not change before `flush`."""
        self._rows[row] = words

    def put_classes(self, index: int, classes: NDArray[np.uint8]) -> None:
        """Write the byte classes of an automaton, uint8 [256]."""
        self._classes[index] = classes

    def flush(self) -> None:
        """Enqueue everything on the current stream."""
        for name, parts in self._parts.items():
            places = np.concatenate([p for p, _ in parts]).astype(np.int64)
            values = np.concatenate([v for _, v in parts])
            last = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
            both = np.stack([places[last], values[last]])
            at, new = upload(both, self._device)
            getattr(self._tables, name)[at] = new.int()
        for table, new_rows in (
            (self._tables.rows, self._rows),
            (self._tables.byte_class, self._classes),
        ):
            if new_rows:
                rows = np.stack(list(new_rows.values()))
                if rows.dtype == np.uint32:
                    rows = rows.view(np.int32)
                at = upload(np.array(list(new_rows), np.int64), self._device)
                table[at] = upload(rows, self._device)
        self._parts, self._rows, self._classes = {}, {}, {}
