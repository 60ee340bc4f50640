"""Tokens that lie inside a repeat of items, by how many items they take.

Where no item is the beginning of another (characters are like that), a text has one reading as
items, and whether a token fits into `item{low,high}` depends on the number of items it completes
alone. One walk of the vocabulary then serves every state of every counted repeat of these items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .derivative import moves
from .expr import Pool
from .node import Kind, Node
from .vocabulary import Vocabulary

Level = tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]

_MOST_STATES = 500


class RepeatIndex:
    """What a vocabulary holds of texts that repeat one kind of item.

    Args:
        vocabulary: The vocabulary.
        first: 256-bit mask of the bytes with which an item begins; 0 marks an unusable index.
        longest_rest: Most bytes that a begun item may still need.
    """

    def __init__(self, vocabulary: Vocabulary, first: int, longest_rest: int) -> None:
        self.first = first
        self.usable = first != 0
        self.longest_rest = longest_rest
        self._vocabulary = vocabulary
        self._needs: list[NDArray[np.int32]] = []  # items that each inner node needs room for
        self._inner: list[NDArray[np.int32]] = []
        self._outer: list[NDArray[np.int32]] = []  # nodes just outside, after a complete item
        self._outer_counts: list[NDArray[np.int32]] = []
        self._counts = np.zeros(1, np.int32)  # of the live nodes of the level before: the root
        self._complete = np.ones(1, bool)
        self._words: dict[int, NDArray[np.uint32]] = {}
        self._built: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None

    def add(
        self,
        parent: NDArray[np.intp],
        children: NDArray[np.int32],
        complete: NDArray[np.bool_],
        live: NDArray[np.bool_],
    ) -> None:
        """Take in one level of the walk.

        Args:
            parent: Index of each child's parent among the live nodes of the level before.
            children: Trie nodes.
            complete: Whether an item ends exactly there.
            live: Whether the node is inside the repeat.
        """
        counts = self._counts[parent]
        leaves = ~live & self._complete[parent]
        self._outer.append(children[leaves])
        self._outer_counts.append(counts[leaves])
        self._counts = (counts + complete)[live]
        self._complete = complete[live]
        self._inner.append(children[live])
        self._needs.append(self._counts + ~self._complete)

    def inside(self, high: int) -> NDArray[np.uint32]:
        """Packed mask of the tokens that stay within `high` items (-1: any number)."""
        words = self._words.get(high)
        if words is None:
            tokens, needs = self._tokens()
            words = self._vocabulary.pack(tokens if high < 0 else tokens[needs <= high])
            self._words[high] = words
        return words

    def leaving(self, low: int, high: int) -> NDArray[np.int32]:
        """Trie nodes one byte past `low` to `high` complete items."""
        nodes, counts = np.concatenate(self._outer), np.concatenate(self._outer_counts)
        fits = counts >= low
        if high >= 0:
            fits &= counts <= high
        return nodes[fits]

    def _tokens(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        if self._built is None:
            tokens = self._vocabulary.token_at[np.concatenate(self._inner)]
            is_token = tokens >= 0
            self._built = tokens[is_token], np.concatenate(self._needs)[is_token]
        return self._built


def is_prefix_code(pool: Pool, item: Node) -> bool:
    """Whether no text of `item` is the beginning of another (and the empty text is none)."""
    seen = {item}
    stack = [item]
    while stack:
        node = stack.pop()
        if node.kind is Kind.EPSILON:
            continue
        if node.nullable or len(seen) > _MOST_STATES:
            return False
        for _, target in moves(pool, node):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return True


def longest_rest(pool: Pool, item: Node) -> int:
    """Most bytes of a text of `item`; a large number if there is no limit."""
    frontier, steps = {item}, 0
    while frontier and steps < _MOST_STATES:
        frontier = {target for node in frontier for _, target in moves(pool, node)}
        steps += 1
    return steps
