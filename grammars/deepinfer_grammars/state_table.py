"""States of a grammar for one alphabet: interned expressions, their transitions and distances.

A state is an int; the transition table has a row per state and a column per byte class, and rows
are filled on demand. Knows nothing about tokens. Not thread-safe: callers hold the grammar's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .byte_classes import byte_classes
from .byte_step import byte_step
from .derivative import Moves, moves
from .distance import UNREACHABLE, Distance
from .errors import ConstraintTooLarge
from .grammar import Grammar, too_deep
from .limits import Limits
from .node import ALL_BYTES, Kind, Node

DEAD = 0
UNKNOWN = -1
FAR = 2**31 - 1


class StateTable:
    """The lazily built automaton of a grammar over bytes.

    Args:
        grammar: A compiled grammar.
        alphabet: 256-bit mask of the bytes that may be used.
        limits: Most states and bytes before giving up.

    Attributes:
        distance: Fewest bytes to the end of a match, for expressions.
        transitions: int32 [capacity, classes]; 0 where no byte of the class may follow, -1 where
            that is not known yet.
        fewest: int32 [capacity]; fewest bytes to the end of a match, for states.
        accepting: uint8 [capacity]; 1 where the text so far is a match.
        class_of: uint8 [256] from byte to class.
        representative: A byte of each class.
        nodes: The expression of each state; state 0 is dead.
        log: States in the order in which transitions of theirs were found; only ever grows.
    """

    def __init__(self, grammar: Grammar, alphabet: int, limits: Limits) -> None:
        self._grammar = grammar
        self._alphabet = alphabet
        self._limits = limits
        self.distance = (
            grammar.distance if alphabet == ALL_BYTES else Distance(grammar.pool, alphabet)
        )
        class_of, self.representative = byte_classes(grammar.pool, alphabet)
        self.class_of: NDArray[np.uint8] = class_of.astype(np.uint8)
        self._class_at = self.class_of.tobytes()  # a bytes object is indexed fastest
        self._column: dict[int, int | NDArray[np.intp]] = {}
        classes = len(self.representative)
        self.transitions: NDArray[np.int32] = np.full((64, classes), UNKNOWN, np.int32)
        self.fewest: NDArray[np.int32] = np.full(64, FAR, np.int32)
        self.accepting: NDArray[np.uint8] = np.zeros(64, np.uint8)
        self.transitions[DEAD] = DEAD
        self._row = np.zeros(classes, np.int32)
        self._expanded: set[int] = {DEAD}
        self.nodes: list[Node] = [grammar.pool.never]
        self.log: list[int] = []
        self._state_of: dict[Node, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nbytes(self) -> int:
        """Bytes held by the tables."""
        return self.transitions.nbytes + self.fewest.nbytes + self.accepting.nbytes

    def intern(self, node: Node) -> int:
        """The state of an expression; `DEAD` if no match can be reached from it.

        Raises:
            ConstraintTooLarge: There are too many states.
        """
        state = self._state_of.get(node)
        if state is not None:
            return state
        try:
            distance = self.distance(node)
        except ConstraintTooLarge:
            distance = UNREACHABLE  # a way on that cannot be shown to end is not offered
        if distance >= UNREACHABLE:
            self._state_of[node] = DEAD
            return DEAD
        state = len(self.nodes)
        if state >= self._limits.max_states:
            raise ConstraintTooLarge(
                f"the constraint needs more than {self._limits.max_states} states",
                hint="Bound the lengths of strings and arrays, or simplify the constraint",
            )
        if state >= len(self.transitions):
            self._grow()
        self.fewest[state] = min(distance, FAR)
        self.accepting[state] = bool(node.nullable)
        self.nodes.append(node)  # last: readers without the lock go by the number of nodes
        self._state_of[node] = state
        return state

    def _grow(self) -> None:
        size, classes = 2 * len(self.transitions), self.transitions.shape[1]
        if 2 * self.nbytes > self._limits.max_bytes:
            raise ConstraintTooLarge(
                f"the tables of the constraint need more than {self._limits.max_bytes} bytes",
                hint="Bound the lengths of strings and arrays, or simplify the constraint",
            )
        transitions = np.full((size, classes), UNKNOWN, np.int32)
        transitions[: len(self.transitions)] = self.transitions
        fewest = np.full(size, FAR, np.int32)
        fewest[: len(self.fewest)] = self.fewest
        accepting = np.zeros(size, np.uint8)
        accepting[: len(self.accepting)] = self.accepting
        self.transitions, self.fewest, self.accepting = transitions, fewest, accepting

    def expand(self, states: Iterable[int]) -> None:
        """Fill the transition rows of the states.

        Raises:
            ConstraintTooLarge: There are too many states, or an expression is nested too deeply.
        """
        for state in states:
            if state in self._expanded:
                continue
            pairs = self._following(self.nodes[state])
            # Readers without the lock must never see a row that is half done.
            row = self._row
            row.fill(DEAD)
            for column, after in pairs:
                row[column] = after
            self.transitions[state] = row
            self.log.append(state)
            self._expanded.add(state)

    def _following(self, node: Node) -> list[tuple[int | NDArray[np.intp], int]]:
        following = self._plain_choice(node)
        if following is None:
            try:
                following = moves(self._grammar.pool, node)
            except RecursionError:
                raise too_deep(self._grammar.kind) from None
        pairs = []
        for mask, target in following:
            usable = mask & self._alphabet
            if usable:
                after = self.intern(target)
                if after != DEAD:
                    pairs.append((self._columns(usable), after))
        return pairs

    def _plain_choice(self, node: Node) -> Moves | None:
        """The derivative of a choice by its next byte, as in a list of words; None for others."""
        if node.moves is not None:
            return node.moves
        covered = 0
        following = []
        for part in node.parts if node.kind is Kind.ALT else (node,):
            head, tail = part, self._grammar.pool.epsilon
            if part.kind is Kind.SEQ:
                head, tail = part.head, part.tail
            if head.kind is Kind.EPSILON:
                continue
            if head.kind is not Kind.BYTES or head.mask & covered:
                return None
            covered |= head.mask
            following.append((head.mask, tail))
        return tuple(following)

    def _columns(self, mask: int) -> int | NDArray[np.intp]:
        """The classes within a mask; a plain int if there is one, which indexes faster."""
        columns = self._column.get(mask)
        if columns is None:
            found = [c for c, byte in enumerate(self.representative) if mask >> byte & 1]
            columns = found[0] if len(found) == 1 else np.array(found, np.intp)
            self._column[mask] = columns
        return columns

    def after(self, state: int, data: bytes) -> int:
        """The state after some bytes, `DEAD`, or `UNKNOWN` if a state on the way is not expanded.

        Needs no lock.
        """
        item, class_at = self.transitions.item, self._class_at
        for byte in data:
            state = item(state, class_at[byte])
            if state <= DEAD:
                break
        return state

    def walk(self, state: int, data: bytes) -> int:
        """The state after some bytes, or `DEAD`; finds out what is not known on the way."""
        for byte in data:
            after = self.transitions.item(state, self._class_at[byte])
            state = self._step(state, byte) if after == UNKNOWN else after
            if state == DEAD:
                break
        return state

    def _step(self, state: int, byte: int) -> int:
        """Find one transition, which costs less than all of them."""
        if not self.distance.composes:
            self.expand((state,))
            return self.transitions.item(state, self._class_at[byte])
        usable = self._alphabet >> byte & 1
        after = self.intern(byte_step(self._grammar.pool, self.nodes[state], byte)) if usable else 0
        self.transitions[state, self._class_at[byte]] = after
        self.log.append(state)
        return after

    def nearest(self, state: int) -> tuple[int, int]:
        """The next byte of the shortest completion and the state behind it."""
        self.expand((state,))
        row = self.transitions[state]
        distances = np.where(row > DEAD, self.fewest[row], FAR)
        nearest = int(distances.argmin())
        return int(self.representative[nearest]), int(row[nearest])
