"""The masks of a grammar's states: walks of the vocabulary, shortened where states look alike.

Not thread-safe: callers hold the grammar's lock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .derivative import moves
from .expr import Pool
from .lookahead import shorten
from .node import Kind, Node
from .repeat_index import RepeatIndex, repeat_index
from .state_table import DEAD, StateTable
from .token_row import TokenRow
from .trie_walk import farthest, set_bits, walk
from .vocabulary import Vocabulary

Int32 = NDArray[np.int32]


class TokenWalk:
    """Makes masks of states, and keeps those of states that look alike.

    Args:
        pool: The grammar's expressions.
        table: The grammar's states.
        vocabulary: The vocabulary.
    """

    def __init__(self, pool: Pool, table: StateTable, vocabulary: Vocabulary) -> None:
        self._pool = pool
        self._table = table
        self._vocabulary = vocabulary
        self.rows: dict[Node, TokenRow] = {}
        self._indexes: dict[Node, RepeatIndex | None] = {}
        self._stack = np.zeros(vocabulary.longest + 1, np.int32)
        self._whole = np.array([[1, len(vocabulary.preorder.byte), 0]], np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes held by masks."""
        return sum(row.nbytes for row in self.rows.values())

    def row(self, state: int) -> tuple[TokenRow, int]:
        """The mask of a state, and the distance (bytes) to add to the row's farthest."""
        node = self._table.nodes[state]
        key, extra = shorten(self._pool, self._table.distance, node, self._vocabulary.longest)
        row = self.rows.get(key)
        if row is None:
            row = self._repeat_row(key)
            if row is None:
                row = self._walked_row(state if key is node else self._table.intern(key))
            self.rows[key] = row
        return row, extra

    def tokens(self, state: int) -> tuple[Int32, Int32]:
        """All tokens that fit after `state`, and the state behind each; int32 [n] both."""
        work = self._whole.copy()
        work[0, 2] = state
        return self._walk(work)

    def _walked_row(self, state: int) -> TokenRow:
        tokens, ends = self.tokens(state)
        end = bool(self._table.nodes[state].nullable)
        return TokenRow.of_tokens(self._vocabulary, tokens, ends, self._table.fewest, end=end)

    def _walk(self, work: Int32) -> tuple[Int32, Int32]:
        """Tokens within ranges of the trie: int32 [n, 3] of first node, end, state before it."""
        table, trie = self._table, self._vocabulary.preorder
        scratch = self._vocabulary.scratch()
        tokens, ends = scratch.tokens, scratch.ends
        found = 0
        while len(work):
            found_now, waiting = walk(
                trie, table.transitions, table.class_of, work, scratch.pending, self._stack,
                tokens, ends, found,
            )  # fmt: skip
            full = waiting < 0
            aside = scratch.pending if full else scratch.pending[:waiting]
            table.expand(dict.fromkeys(aside[:, 2].tolist()))
            if not full:  # else the same places again, with more states known
                found, work = found_now, aside.copy()
        return tokens[:found].copy(), ends[:found].copy()

    def _repeat_row(self, key: Node) -> TokenRow | None:
        """The mask of a counted repeat of items and what follows it, without a wide walk.

        Tokens inside the repeat are looked up by their number of items; only tokens that leave it
        are walked. None if the items or what follows do not allow that.
        """
        repeat, tail = (key.head, key.tail) if key.kind is Kind.SEQ else (key, None)
        table, vocabulary, pool = self._table, self._vocabulary, self._pool
        if repeat.kind is not Kind.REPEAT or not table.distance.composes:
            return None
        if repeat.head not in self._indexes:
            self._indexes[repeat.head] = repeat_index(pool, table, vocabulary, repeat.head)
        index = self._indexes[repeat.head]
        if index is None:
            return None
        after = pool.epsilon if tail is None else tail
        first = sum(mask for mask, _ in moves(pool, after))
        if first & index.first:
            return None
        words = index.inside(repeat.high).copy()
        most = table.distance(key) + index.longest_rest
        state = table.intern(after)
        nodes = index.leaving(first, repeat.low, repeat.high)
        if state != DEAD and len(nodes):
            ends = vocabulary.preorder.end[nodes]
            tokens, behind = self._walk(
                np.stack((nodes, ends, np.full(len(nodes), state, np.int32)), axis=1)
            )
            set_bits(words, tokens, vocabulary.twins)
            most = max(most, farthest(behind, table.fewest))
        if key.nullable:
            words |= vocabulary.eos_words
        return TokenRow(vocabulary, most, words=words)
