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
from .growing import growing
from .node import Kind, Node
from .state_table import DEAD, StateTable
from .trie_walk import set_bits, walk_items
from .vocabulary import Vocabulary

_MOST_STATES = 64


class RepeatIndex:
    """What a vocabulary holds of texts that repeat one kind of item.

    Args:
        vocabulary: The vocabulary.
        inside: int32 [n, 2]; (token, items that it needs room for) of the tokens inside.
        outside: int32 [n, 2]; (trie node, complete items) of the nodes one byte past items.
        first: 256-bit mask of the bytes with which an item begins.
        longest_rest: Most bytes that a begun item may still need.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        inside: NDArray[np.int32],
        outside: NDArray[np.int32],
        first: int,
        longest_rest: int,
    ) -> None:
        self.first = first
        self.longest_rest = longest_rest
        self._vocabulary = vocabulary
        self._inside = inside
        self._words: dict[int, NDArray[np.uint32]] = {}
        byte = vocabulary.preorder.byte[outside[:, 0]]
        order = np.argsort(byte, kind="stable")
        outside, byte = outside[order], byte[order]
        starts = np.flatnonzero(np.diff(byte, prepend=-1))
        self._outside = {
            int(byte[start]): part
            for start, part in zip(starts, np.split(outside, starts[1:]), strict=True)
        }
        self._most = int(outside[:, 1].max(initial=0))

    def fields(self) -> tuple[bytes, bytes, int, int]:
        """What `of_fields` makes the same index of."""
        outside = np.concatenate([*self._outside.values(), np.zeros((0, 2), np.int32)])
        return (
            self._inside.astype("<i4").tobytes(),
            outside.astype("<i4").tobytes(),
            self.first,
            self.longest_rest,
        )

    @classmethod
    def of_fields(
        cls, vocabulary: Vocabulary, inside: bytes, outside: bytes, first: int, longest_rest: int
    ) -> RepeatIndex:
        """The index whose fields these are."""
        pairs = [
            np.frombuffer(data, "<i4").astype(np.int32).reshape(-1, 2) for data in (inside, outside)
        ]
        return cls(vocabulary, pairs[0], pairs[1], first, longest_rest)

    @property
    def nbytes(self) -> int:
        """Bytes held, with a few masks."""
        outside = sum(part.nbytes for part in self._outside.values())
        return self._inside.nbytes + outside + 4 * 4 * self._vocabulary.words

    def inside(self, high: int) -> NDArray[np.uint32]:
        """Packed mask of the tokens that stay within `high` items (-1: any number)."""
        words = self._words.get(high)
        if words is None:
            tokens, needs = self._inside[:, 0], self._inside[:, 1]
            words = np.zeros(self._vocabulary.words, np.uint32)
            fitting = np.ascontiguousarray(tokens if high < 0 else tokens[needs <= high])
            set_bits(words, fitting, self._vocabulary.twins)
            self._words[high] = words
        return words

    def leaving(self, bytes_: int, low: int, high: int) -> NDArray[np.int32]:
        """Trie nodes (preorder) one of `bytes_` (a 256-bit mask) past `low` to `high` items."""
        parts = []
        for byte, part in self._outside.items():
            if bytes_ >> byte & 1:
                counts = part[:, 1]
                if low > 0 or 0 <= high < self._most:
                    fits = counts >= low
                    if high >= 0:
                        fits &= counts <= high
                    part = part[fits]
                parts.append(part[:, 0])
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def repeat_index(
    pool: Pool, table: StateTable, vocabulary: Vocabulary, item: Node
) -> RepeatIndex | None:
    """The index of an item's repeats; None if items are ambiguous or have too many states."""
    if not is_prefix_code(pool, item):
        return None
    again = table.intern(pool.repeat(item, 0))
    if again == DEAD:
        return None
    inner = {again: 0}
    for state in growing(inner):
        table.expand((state,))
        following = table.transitions[state]
        inner.update(dict.fromkeys(following[following > DEAD].tolist(), 0))
    nodes = len(vocabulary.preorder.byte)
    inside, outside = np.empty((nodes, 2), np.int32), np.empty((nodes, 2), np.int32)
    inner_count, outer_count = walk_items(
        vocabulary.preorder, table.transitions, table.class_of, again, inside, outside
    )
    first = sum(mask for mask, _ in moves(pool, item))
    rest = int(table.fewest[list(inner)].max())
    return RepeatIndex(
        vocabulary, inside[:inner_count].copy(), outside[:outer_count].copy(), first, rest
    )


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
