"""Token automata of running requests as device tables of fixed size.

Transitions reach the device as the host finds them, masks when a row needs them or, for all states
that are known, in one launch of the mask builder. What is not there is a miss of the sampler, which
`serve` answers. Requests with the same constraint share everything; what nobody uses any more stays
until its room is needed. Changes are gathered and written by `flush`, in stream order, so steps
that were enqueued before see the tables as they were.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from numpy.typing import NDArray

from .constraint import ByteConstraint, TokenConstraint
from .device_copy import upload
from .device_masks import PAGE, DeviceMasks, Entry
from .errors import EngineError
from .regions import Regions
from .table_writes import TableWrites

OPAQUE = 1
"""State of all constraints without bytes: no mask of its own, no transitions."""

_STATE_BYTES = 20
_EDGES_SHARE, _STATES_SHARE = 0.2, 0.05
_AUTOMATA = 1024


@dataclass(frozen=True, slots=True)
class AutomataStats:
    """Counters of automata on the device.

    Attributes:
        misses: Rows that found no mask or no transition.
        stalls: Those of them that got no token, so that their step came again.
        rows_built: Masks made by the device.
        rows_uploaded: Masks made by the host.
        rows_used: Masks held now.
        states: States held now.
        bytes_held: Bytes of all tables, used or not.
    """

    misses: int = 0
    stalls: int = 0
    rows_built: int = 0
    rows_uploaded: int = 0
    rows_used: int = 0
    states: int = 0
    bytes_held: int = 0


class DeviceAutomata:
    """The tables, who uses them, and what is still to be written.

    Args:
        token_bytes: Bytes of text tokens by id, None for others.
        eos_ids: Ids that end the text.
        device: Where the tables are.
        slots: Rows of a step; each has a mask of its own for the end of its budget.
        max_bytes: Most bytes of the tables.

    Attributes:
        tables: What the kernels read; the same tensors for the whole time.

    Raises:
        EngineError: ``memory``, if `max_bytes` cannot hold two masks per slot.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        eos_ids: Sequence[int],
        device: torch.device,
        *,
        slots: int,
        max_bytes: int,
    ) -> None:
        size = len(token_bytes)
        words = -(-size // 32)
        states = max(2 * PAGE, int(max_bytes * _STATES_SHARE) // _STATE_BYTES // PAGE * PAGE)
        edges = int(max_bytes * _EDGES_SHARE) // 4
        rows = int(max_bytes * (1 - _EDGES_SHARE - _STATES_SHARE)) // (4 * words)
        if rows < 2 * slots:
            least = int(2 * slots * 4 * words / (1 - _EDGES_SHARE - _STATES_SHARE)) + 4 * words
            raise EngineError(
                "memory",
                f"automata_bytes={max_bytes} holds {rows} masks of {4 * words} bytes; {slots} "
                f"sequences need {2 * slots}",
                hint=f"Use automata_bytes={least} or more, or fewer sequences at a time",
            )
        texts = [b"" if i in eos_ids else data or b"" for i, data in enumerate(token_bytes)]
        start = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        ends = np.zeros(words * 32, np.uint8)
        ends[list(eos_ids)] = 1

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.tables = AutomatonTables(
            byte_class=zeros(_AUTOMATA, 256, dtype=torch.uint8),
            state_automaton=zeros(states),
            state_edges=zeros(states) - 1,
            edges=zeros(edges),
            state_fewest=zeros(states),
            state_row=zeros(states) - 1,
            state_enough=zeros(states),
            rows=zeros(rows, words),
            token_start=upload(start, device),
            token_bytes=upload(np.frombuffer(b"".join(texts), np.uint8).copy(), device),
            eos=upload(np.packbits(ends, bitorder="little").view(np.int32), device),
        )
        self._writes = TableWrites(self.tables, device)
        self._states = Regions(PAGE, states - PAGE)  # the first page holds dead and opaque
        self._edges = Regions(0, edges)
        self._indices = list(range(_AUTOMATA - 1, -1, -1))
        self._masks = DeviceMasks(self.tables, self._writes, slots)
        self._local: NDArray[np.int32] = np.zeros(states, np.int32)  # by global state
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._misses = self._stalls = 0

    # -- who uses what -------------------------------------------------------------------------

    def acquire(self, constraint: TokenConstraint) -> None:
        """A sequence uses a constraint from now on."""
        if id(constraint) in self._entries or isinstance(constraint, ByteConstraint):
            self._entry(cast("ByteConstraint", constraint)).users += 1

    def release(self, constraint: TokenConstraint) -> None:
        """A sequence has ended; its constraint stays until its room is needed."""
        entry = self._entries.get(id(constraint))
        if entry is not None:
            entry.users -= 1
            self._entries.move_to_end(id(constraint))

    def stats(self) -> AutomataStats:
        """Counters since the start, and what is held now."""
        return AutomataStats(
            misses=self._misses,
            stalls=self._stalls,
            rows_built=self._masks.built,
            rows_uploaded=self._masks.uploaded,
            rows_used=len(self._masks),
            states=PAGE * sum(len(entry.pages) for entry in self._entries.values()),
            bytes_held=self.tables.nbytes,
        )

    def count(self, *, misses: int = 0, stalls: int = 0) -> None:
        """Add to the counters."""
        self._misses += misses
        self._stalls += stalls

    def place(self, constraint: TokenConstraint, state: int) -> int:
        """The global id of a state, which has its transitions there as far as they are known."""
        entry = self._entries.get(id(constraint))
        if entry is None:
            return OPAQUE
        self._sync(entry)
        return int(entry.ids(np.array([state]))[0])

    def host_state(self, device_state: int) -> int | None:
        """The constraint's number of a state that the sampler reached; None if it has none."""
        if device_state < PAGE:
            return None
        self._masks.touch(device_state)
        return int(self._local[device_state])

    def serve(
        self, constraint: TokenConstraint, state: int, budget: int, slot: int
    ) -> tuple[int, int, bool]:
        """Make the mask that a row needs next available.

        Args:
            constraint: An acquired constraint.
            state: Its state.
            budget: Text tokens that may still be drawn.
            slot: The row's slot, which has a mask of its own.

        Returns:
            The global state; the row of a mask that holds for exactly this state and budget, or
            -1 if the state's own does; whether the budget removes tokens.
        """
        device_state = self.place(constraint, state)
        entry = self._entries.get(id(constraint))
        if entry is not None:
            words, enough = entry.constraint.wide_mask(state)
            self._sync(entry)
            if budget >= enough:
                if state not in entry.rows:
                    self._masks.put(entry, state, words, enough)
                return device_state, -1, False
        mask = constraint.mask(state, budget)
        self._masks.put_own(slot, mask)
        return device_state, slot, constraint.narrowed(state, budget)

    # -- keeping up with the host ---------------------------------------------------------------

    def refresh(self) -> None:
        """Take over what was found out meanwhile, and let the device make masks of it."""
        self._masks.take_builds()
        for entry in list(self._entries.values()):
            if entry.users == 0:
                continue
            if self._sync(entry):
                continue  # more is being found; masks come when it has settled
            # Some of them will be incomplete, and asked for again when a quarter more is known.
            if entry.todo and 4 * entry.mark > 5 * entry.asked:
                entry.queue, entry.asked = sorted(entry.todo), entry.mark
            if entry.queue and not self._masks.building:
                self._masks.build(entry)

    def flush(self) -> None:
        """Enqueue all writes."""
        self._writes.flush()

    def _entry(self, constraint: ByteConstraint) -> Entry:
        entry = self._entries.get(id(constraint))
        if entry is None:
            if not self._indices and not self._evict_idle():
                raise EngineError(
                    "memory",
                    f"more than {_AUTOMATA} different constraints run at the same time",
                    hint="Run fewer at a time",
                )
            index = self._indices.pop()
            self._writes.put_classes(index, constraint.byte_class)
            entry = Entry(constraint, index, int(constraint.byte_class.max()) + 1)
            self._entries[id(constraint)] = entry
        return entry

    def _sync(self, entry: Entry) -> bool:
        """Write what is known of an automaton and was not written; whether there was anything."""
        mark = entry.constraint.mark
        if mark == entry.mark and entry.known:
            return False
        found = entry.constraint.found_since(entry.mark)
        count = len(found.fewest)
        while len(entry.pages) * PAGE < count:
            self._add_page(entry)
        fresh = np.arange(max(entry.known, 1), count)
        self._writes.put("state_fewest", entry.ids(fresh), found.fewest[fresh])
        entry.known = count
        if len(found.states):
            at = np.array(entry.edges, np.int64)[found.states // PAGE]
            at += found.states % PAGE * entry.classes
            places = at[:, None] + np.arange(entry.classes)
            self._writes.put("edges", places, entry.ids(found.edges.astype(np.int64)))
            entry.todo.update(s for s in found.states.tolist() if s not in entry.rows)
        entry.mark = found.mark
        return True

    def _add_page(self, entry: Entry) -> None:
        """Give an automaton room for more states.

        Raises:
            EngineError: ``memory``, if there is none left.
        """
        size = PAGE * entry.classes
        states = self._states.take(PAGE)
        edges = self._edges.take(size) if states is not None else None
        while states is None or edges is None:
            if states is not None:
                self._states.give(states, PAGE)
            if not self._evict_idle():
                raise EngineError(
                    "memory",
                    f"the automata of running constraints need more than {self.tables.nbytes} "
                    "bytes on the device",
                    hint="Raise automata_bytes, bound the lengths of strings and arrays, or run "
                    "fewer different constraints at a time",
                )
            states = self._states.take(PAGE)
            edges = self._edges.take(size) if states is not None else None
        entry.pages.append(states)
        entry.edges.append(edges)
        ids = np.arange(states, states + PAGE)
        self._local[ids] = np.arange(PAGE) + PAGE * (len(entry.pages) - 1)
        self._writes.put("state_automaton", ids, np.full(PAGE, entry.index))
        self._writes.put("state_edges", ids, edges + np.arange(PAGE) * entry.classes)
        self._writes.put("state_row", ids, np.full(PAGE, -1))
        self._writes.put("edges", np.arange(edges, edges + size), np.full(size, -1))

    def _evict_idle(self) -> bool:
        """Forget the automaton that was not used for the longest time; False if all are in use."""
        key = next((k for k, entry in self._entries.items() if entry.users == 0), None)
        if key is None:
            return False
        entry = self._entries.pop(key)
        self._masks.forget(entry)
        for first, edges in zip(entry.pages, entry.edges, strict=True):
            self._states.give(first, PAGE)
            self._edges.give(edges, PAGE * entry.classes)
        self._indices.append(entry.index)
        return True
