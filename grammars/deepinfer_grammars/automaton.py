"""Token automata: interned derivatives as states, and token masks from a walk of the vocabulary.

A state is an int; outside this module there is only state -> byte class -> state. States that
cannot be told apart within the longest token share their mask. States are built on demand and
never removed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .disk_cache import DiskCache
from .distance import UNREACHABLE
from .errors import EmptyConstraint
from .grammar import Grammar
from .limits import Limits, current_limits
from .state_table import DEAD, UNKNOWN, StateTable
from .stored_rows import read_row, write_row
from .token_distance import TokenDistance
from .token_row import TokenRow
from .token_walk import TokenWalk
from .vocabulary import Vocabulary
from .vocabulary_walk import NOTHING

_NARROWED_KEPT = 256


@dataclass(frozen=True, slots=True)
class AutomatonStats:
    """Sizes of a token automaton: counts of states, masks and byte classes, and bytes held."""

    states: int
    rows: int
    classes: int
    table_bytes: int


class Found(NamedTuple):
    """What became known of an automaton's transitions.

    Attributes:
        states: int64 [n], ascending.
        edges: int32 [n, classes], their transitions by byte class: 0 dead, -1 unknown.
        fewest: int32 [states], fewest bytes that complete the text from every state so far, 0 where
            it is complete; entry 0, the dead state, means nothing.
        mark: Where to go on from.
    """

    states: NDArray[np.int64]
    edges: NDArray[np.int32]
    fewest: NDArray[np.int32]
    mark: int


class TokenAutomaton:
    """The token-level automaton of one grammar for one vocabulary.

    Thread-safe, deterministic and free of visible side effects: tables grow behind the methods.

    Args:
        grammar: A compiled grammar.
        vocabulary: The tokenizer's vocabulary.
        limits: Most states and bytes; those of the context if left out.
        cache: Where masks are kept on disk; nowhere if left out.

    Attributes:
        table: The byte automaton behind it, with its transitions; guarded by the grammar's lock.

    Raises:
        EmptyConstraint: No text of the grammar can be written with this vocabulary.
        ConstraintTooLarge: A limit was reached.
    """

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: Vocabulary,
        *,
        limits: Limits | None = None,
        cache: DiskCache | None = None,
    ) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self._lock = grammar.lock
        self._cache = cache
        limits = limits or current_limits()
        with self._lock:
            self.table = StateTable(grammar, vocabulary.alphabet, limits)
            if self.table.distance(grammar.root) >= UNREACHABLE:
                raise EmptyConstraint(
                    "no text of this constraint can be written with this vocabulary",
                    hint="The vocabulary lacks single bytes that the constraint needs",
                )
            self.start = self.table.intern(grammar.root)
            self._walk = TokenWalk(grammar.pool, self.table, vocabulary, limits)
            self._row_of: dict[int, tuple[TokenRow, int]] = {}
            self._tokens_left = TokenDistance(vocabulary, self.table)
            self._narrowed: OrderedDict[tuple[int, int], tuple[NDArray[np.uint32], bool]] = (
                OrderedDict()
            )

    # -- the engine's protocol ----------------------------------------------------------------

    def mask(self, state: int, budget: int) -> NDArray[np.uint32]:
        """Tokens that may come next.

        Args:
            state: A live state.
            budget: Text tokens that may still be emitted, this one included.

        Returns:
            uint32 [ceil(vocab_size / 32)], read-only, id i in bit i % 32 of word i // 32: tokens
            after which at most `budget - 1` further tokens complete the text, and the end-of-text
            ids exactly if `state` is accepting.
        """
        row, farthest = self._row_of.get(state) or self._row(state)
        if budget > farthest:
            return row.words
        return self._narrow(state, budget)[0]

    def narrowed(self, state: int, budget: int) -> bool:
        """Whether `budget` removes tokens from the mask of `state`."""
        _, farthest = self._row_of.get(state) or self._row(state)
        return budget <= farthest and self._narrow(state, budget)[1]

    def wide_mask(self, state: int) -> tuple[NDArray[np.uint32], int]:
        """The mask without a budget, and the least budget at which `mask` is the same."""
        row, farthest = self._row_of.get(state) or self._row(state)
        return row.words, farthest + 1

    @property
    def byte_class(self) -> NDArray[np.uint8]:
        """uint8 [256], the column of `Found.edges` for each byte."""
        return self.table.class_of

    @property
    def mark(self) -> int:
        """Grows whenever transitions become known."""
        return len(self.table.log)

    def found_since(self, mark: int) -> Found:
        """States whose transitions became known since `mark`, 0 for all; needs no lock."""
        table = self.table
        # In this order: what is in the log is in the arrays that are looked at after it.
        now = len(table.log)
        states = np.unique(np.array(table.log[mark:now], np.int64))
        edges = table.transitions[states]
        return Found(states, edges, table.fewest[: len(table.nodes)], now)

    def advance(self, state: int, token: int) -> int:
        """The state after `token`.

        Raises:
            ValueError: The token is not allowed in `state`.
        """
        data = self.vocabulary.tokens[token] if 0 <= token < self.vocab_size else None
        after = DEAD if data is None else self.walk(state, data)
        if after == DEAD:
            raise ValueError(f"token {token} ({data!r}) is not allowed in state {state}")
        return after

    def walk(self, state: int, data: bytes) -> int:
        """The state after the bytes `data`, or `DEAD`."""
        after = self.table.after(state, data)
        if after == UNKNOWN:
            with self._lock:
                after = self.table.walk(state, data)
        return after

    def accepting(self, state: int) -> bool:
        """Whether the text so far is complete."""
        return bool(self.table.nodes[state].nullable)

    def complete(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow it."""
        if not self.accepting(state):
            return False
        with self._lock:
            self.table.expand((state,))
        return not bool((self.table.transitions[state] > DEAD).any())

    def fewest_tokens(self, state: int) -> int:
        """A number of tokens that suffices to complete the text from `state`."""
        with self._lock:
            return self._tokens_left(state)

    def stats(self) -> AutomatonStats:
        """Sizes of the tables now."""
        with self._lock:
            return AutomatonStats(
                states=len(self.table),
                rows=len(self._walk.rows),
                classes=len(self.table.representative),
                table_bytes=self.table.nbytes + self._walk.nbytes,
            )

    # -- masks --------------------------------------------------------------------------------

    def _row(self, state: int) -> tuple[TokenRow, int]:
        """The row of a state, and the largest distance behind its tokens."""
        with self._lock:
            stored = self._stored_start() if state == self.start else None
            if stored is None:
                row, extra = self._walk.row(state)
                stored = (row, row.farthest + extra)
                self._store_start(state, *stored)
            self._row_of[state] = stored
            return stored

    def _stored_start(self) -> tuple[TokenRow, int] | None:
        """The first mask, which waits for the most states, from the cache."""
        name = self._start_name()
        data = self._cache.read(name) if self._cache is not None and name else None
        if data is None:
            return None
        row = read_row(self.vocabulary, data)
        return row, row.farthest

    def _store_start(self, state: int, row: TokenRow, farthest: int) -> None:
        name = self._start_name()
        if self._cache is not None and name and state == self.start:
            self._cache.write(name, write_row(row.beside(farthest, NOTHING, NOTHING)))

    def _start_name(self) -> bytes | None:
        name = self.grammar.stored_as
        return None if name is None else b"start " + self.vocabulary.digest.encode() + name

    def _narrow(self, state: int, budget: int) -> tuple[NDArray[np.uint32], bool]:
        """The mask that keeps only tokens from which the remaining budget suffices."""
        with self._lock:
            known = self._narrowed.get((state, budget))
            if known is not None:
                return known
            tokens, ends = self._walk.tokens(state)
            keep = self.table.fewest[ends] <= budget - 1
            for end in np.unique(ends[~keep]):
                if self._tokens_left(int(end)) <= budget - 1:
                    keep |= ends == end
            row = TokenRow.of_tokens(
                self.vocabulary, tokens[keep], ends[keep], self.table.fewest,
                end=self.accepting(state),
            )  # fmt: skip
            result = (row.words, not bool(keep.all()))
            self._narrowed[state, budget] = result
            if len(self._narrowed) > _NARROWED_KEPT:
                self._narrowed.popitem(last=False)
            return result
