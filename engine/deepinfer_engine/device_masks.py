"""Masks of automata on a device, made by the host or by the device and shared.

A mask that has to make room is the one not used for the longest time. What a state lost is a miss
of the sampler, as if its mask had never been there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from deepinfer_kernels.gpu.mask_builder import build_rows
from numpy.typing import NDArray

from .constraint import ByteConstraint
from .device_copy import upload
from .table_writes import TableWrites

PAGE = 64
"""States that are given room at once."""
_BUILT_AT_ONCE = 1024
_NEVER = np.iinfo(np.int64).max  # of a row that holds nothing


@dataclass(eq=False, slots=True)
class Row:
    """A mask on the device, and the states of its automaton that share it."""

    index: int
    owner: Entry
    states: list[int]
    words: NDArray[np.uint32] | None = None


@dataclass(eq=False, slots=True)
class Entry:
    """An automaton on the device.

    Attributes:
        pages: Global id of the first state of each page.
        edges: Offset of each page's transitions.
        known: States whose fewest bytes are written.
        mark: How far its transitions are written.
        rows: Masks by state.
        todo: States with transitions and without a mask.
        asked: `mark` when the device was last asked for the masks of all of these.
        queue: Those that it will be asked for next.
    """

    constraint: ByteConstraint
    index: int
    classes: int
    users: int = 0
    pages: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    known: int = 0
    mark: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    todo: set[int] = field(default_factory=set)
    asked: int = 0
    queue: list[int] = field(default_factory=list)

    def ids(self, states: NDArray[np.int64]) -> NDArray[np.int32]:
        """Global ids; dead stays 0, unknown -1."""
        pages = np.array(self.pages, np.int64)
        found = pages[np.maximum(states, 0) // PAGE] + states % PAGE
        return np.where(states > 0, found, states).astype(np.int32)


@dataclass(eq=False, slots=True)
class Build:
    """Masks that the device is making."""

    entry: Entry
    states: list[int]
    slots: list[int]
    incomplete: torch.Tensor
    done: torch.cuda.Event | None


class DeviceMasks:
    """The rows of the tables, and who has which.

    Args:
        tables: What the kernels read.
        writes: Where changes of the host go.
        slots: The first rows, which are not shared out here.

    Attributes:
        built: Masks made by the device.
        uploaded: Masks made by the host.
    """

    def __init__(self, tables: AutomatonTables, writes: TableWrites, slots: int) -> None:
        rows, states = len(tables.rows), len(tables.state_row)
        self.built = self.uploaded = 0
        self._tables, self._writes, self._slots = tables, writes, slots
        self._free = list(range(rows - 1, slots - 1, -1))
        self._rows: dict[int, Row] = {}
        self._by_words: dict[int, Row] = {}
        self._row_of: NDArray[np.int32] = np.full(states, -1, np.int32)  # by global state
        self._used: NDArray[np.int64] = np.full(rows, _NEVER, np.int64)  # when, by row
        self._clock = 0
        self._builds: list[Build] = []

    def __len__(self) -> int:
        return len(self._rows)

    def touch(self, device_state: int) -> None:
        """A sequence has come to a state: its mask is of use."""
        row = self._row_of[device_state]
        if row >= 0:
            self._use(row)

    def _use(self, index: int) -> None:
        self._clock += 1
        self._used[index] = self._clock

    def put(self, entry: Entry, state: int, words: NDArray[np.uint32], enough: int) -> None:
        """Write the mask of a state, or share that of another state with the same one."""
        device_state = int(entry.ids(np.array([state]))[0])
        row = self._by_words.get(id(words))
        if row is None or row.owner is not entry:
            row = Row(self._take(), entry, [], words)
            self._rows[row.index] = self._by_words[id(words)] = row
            self._writes.put_row(row.index, words)
            self.uploaded += 1
        self._adopt(row, state, device_state)
        self._writes.put("state_row", np.array([device_state]), np.array([row.index]))
        self._writes.put("state_enough", np.array([device_state]), np.array([enough]))

    def put_own(self, slot: int, words: NDArray[np.uint32]) -> None:
        """Write the mask that belongs to a slot."""
        self._writes.put_row(slot, words)
        self.uploaded += 1

    def forget(self, entry: Entry) -> None:
        """Give up all masks of an automaton, also those that are being made."""
        for row in {row.index: row for row in entry.rows.values()}.values():
            self._forget(row)
        for build in self._builds:
            if build.entry is entry:
                self._free += build.slots  # the next use of these rows is enqueued after it
        self._builds = [build for build in self._builds if build.entry is not entry]

    def _adopt(self, row: Row, state: int, device_state: int) -> None:
        row.states.append(state)
        row.owner.rows[state] = row
        row.owner.todo.discard(state)
        self._row_of[device_state] = row.index
        self._use(row.index)

    def _take(self) -> int:
        """A free row, or that of the mask not used for the longest time."""
        if not self._free:
            self._forget(self._rows[int(self._used.argmin())])
        return self._free.pop()

    def _forget(self, row: Row) -> None:
        del self._rows[row.index]
        if row.words is not None:
            self._by_words.pop(id(row.words), None)
        for state in row.states:
            del row.owner.rows[state]
        row.owner.todo.update(row.states)
        states = row.owner.ids(np.array(row.states))
        self._row_of[states] = -1
        self._writes.put("state_row", states, np.full(len(states), -1))
        self._used[row.index] = _NEVER
        self._free.append(row.index)

    # -- masks made by the device -----------------------------------------------------------------

    @property
    def building(self) -> bool:
        """Whether the device is making masks."""
        return bool(self._builds)

    def build(self, entry: Entry) -> None:
        """Ask the device for masks of queued states, as many as there is free room for."""
        room = max(min(len(self._free) - self._slots, _BUILT_AT_ONCE), 0)
        states = [state for state in entry.queue[:room] if state in entry.todo]
        del entry.queue[:room]
        if not states:
            return
        slots = [self._free.pop() for _ in states]
        self._writes.flush()
        device = self._tables.rows.device
        both = np.stack([entry.ids(np.array(states)), np.array(slots, np.int32)])
        incomplete = build_rows(self._tables, *upload(both, device))
        done = None
        if device.type == "cuda":
            there = torch.empty(len(states), dtype=torch.int32, pin_memory=True)
            there.copy_(incomplete, non_blocking=True)
            incomplete, done = there, torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record()
        self._builds.append(Build(entry, states, slots, incomplete, done))

    def take_builds(self) -> None:
        """Note the masks that the device has finished."""
        waiting = []
        for build in self._builds:
            if build.done is not None and not build.done.query():  # type: ignore[no-untyped-call]
                waiting.append(build)
                continue
            device_states = build.entry.ids(np.array(build.states)).tolist()
            parts = zip(
                build.states, device_states, build.slots, build.incomplete.tolist(), strict=True
            )
            for state, device_state, slot, missing in parts:
                if missing or state in build.entry.rows:  # the host was faster
                    self._free.append(slot)
                    continue
                row = self._rows[slot] = Row(slot, build.entry, [])
                self._adopt(row, state, device_state)
                self.built += 1
        self._builds = waiting
