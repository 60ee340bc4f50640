"""Walks of a vocabulary through the states of a grammar, expanding states on the way.

Not thread-safe: callers hold the grammar's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .node import Node
from .state_table import DEAD, StateTable
from .trie_walk import farthest, walk, walk_beside
from .vocabulary import Vocabulary

Int32 = NDArray[np.int32]

NOTHING: Int32 = np.zeros(0, np.int32)
ROOT = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What an expression covers of a trie.

    Attributes:
        tokens: int32 [n]; tokens that lie within a match.
        exits: int32 [m]; trie nodes behind a whole match.
        farthest: Largest distance (bytes) to the end of the match behind one of the tokens.
    """

    tokens: Int32
    exits: Int32
    farthest: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.tokens.nbytes + self.exits.nbytes


class VocabularyWalk:
    """Walks of one vocabulary through the states of one grammar.

    Args:
        table: The grammar's states.
        vocabulary: The vocabulary.
    """

    def __init__(self, table: StateTable, vocabulary: Vocabulary) -> None:
        self._table = table
        self._vocabulary = vocabulary
        self._stacks = np.zeros((2, vocabulary.longest + 1), np.int32)
        self._tokens_by_class = np.bincount(
            table.class_of, vocabulary.tokens_by_byte, len(table.representative)
        )

    def tokens(self, nodes: Int32 | Sequence[int], state: int) -> tuple[Int32, Int32]:
        """Tokens below (not at) trie nodes that were all reached in `state`.

        Args:
            nodes: Trie nodes (preorder).
            state: The state.

        Returns:
            int32 [n] tokens, some maybe several times, and int32 [n] states behind them.
        """
        at = np.asarray(nodes, np.int32)
        trie = self._vocabulary.preorder
        work = np.stack((at + 1, trie.end[at], np.full(len(at), state, np.int32)), axis=1)
        counts = self._vocabulary.tokens_before
        if int((counts[work[:, 1]] - counts[work[:, 0]]).sum()) <= counts[-1]:
            tokens, ends, _ = self._walk(work)
            return tokens, ends
        found = [self._walk(work[i : i + 1]) for i in range(len(work))]
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def entering(self, nodes: Int32, state: int) -> tuple[Int32, Int32]:
        """Tokens at and below trie nodes, none below another, whose parents were in `state`."""
        ends = self._vocabulary.preorder.end[nodes]
        work = np.stack((nodes, ends, np.full(len(nodes), state, np.int32)), axis=1)
        tokens, behind, _ = self._walk(work)
        return tokens, behind

    def part(self, node: Node, at: int) -> Part | None:
        """What an expression covers below a trie node; None if it is complete in many places."""
        state = self._table.intern(node)
        work = np.array([[at + 1, self._vocabulary.preorder.end[at], state]], np.int32)
        room = self._vocabulary.scratch().exits
        tokens, ends, left = self._walk(work, room)
        if left < 0:
            return None
        return Part(tokens, room[:left].copy(), farthest(ends, self._table.fewest))

    def _walk(self, work: Int32, exits: Int32 = NOTHING) -> tuple[Int32, Int32, int]:
        """Tokens within ranges of the trie, the states behind them, and the number of exits.

        Args:
            work: int32 [n, 3]; first node, end, state before it.
            exits: int32 [m]; takes the nodes where a match is complete. If there are more, their
                number is -1 and nothing else counts.
        """
        table, trie, scratch = self._table, self._vocabulary.preorder, self._vocabulary.scratch()
        found = left = 0
        while len(work):
            found_now, left_now, waiting = walk(
                trie, table.transitions, table.class_of, work, scratch.pending, self._stacks[0],
                scratch.tokens, scratch.ends, found, table.accepting, exits, left,
            )  # fmt: skip
            if left_now < 0:
                return NOTHING, NOTHING, -1
            full = waiting < 0
            aside = scratch.pending if full else scratch.pending[:waiting]
            table.expand(dict.fromkeys(aside[:, 2].tolist()))
            if not full:  # else the same places again, with more states known
                found, left, work = found_now, left_now, aside.copy()
        return scratch.tokens[:found].copy(), scratch.ends[:found].copy(), left

    def similar(self, state: int) -> int:
        """A state that most tokens lead to at once and then stay in, or `DEAD`."""
        likely = self._most_likely(state)
        if likely in (DEAD, state) or self._most_likely(likely) != likely:
            return DEAD
        return likely

    def _most_likely(self, state: int) -> int:
        """Where the bytes lead with which most tokens begin; `DEAD` if few fit."""
        table = self._table
        table.expand((state,))
        tokens = np.bincount(table.transitions[state], self._tokens_by_class)
        tokens[DEAD] = 0
        best = int(tokens.argmax())
        return best if tokens[best] > self._vocabulary.size // 8 else DEAD

    def difference(self, state: int, other: int) -> tuple[Int32, Int32, int]:
        """What fits after one state and not after another, by walking where they differ only.

        Returns:
            int32 tokens that fit after `state` only, int32 tokens that fit after `other` only, and
            the largest distance (bytes) behind a token of `state` where they differ.
        """
        table, scratch = self._table, self._vocabulary.scratch()
        trie = self._vocabulary.preorder
        work = np.array([[1, len(trie.byte), state, other]], np.int32)
        found = lost = far = 0
        while len(work):
            found_now, lost_now, far, waiting = walk_beside(
                trie, table.transitions, table.class_of, work, scratch.pairs, self._stacks,
                table.fewest, scratch.tokens, scratch.minus, found, lost, far,
            )  # fmt: skip
            full = waiting < 0
            aside = scratch.pairs if full else scratch.pairs[:waiting]
            table.expand(dict.fromkeys(aside[:, 2:].ravel().tolist()))
            if not full:
                found, lost, work = found_now, lost_now, aside.copy()
        return scratch.tokens[:found].copy(), scratch.minus[:lost].copy(), far
