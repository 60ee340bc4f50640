"""The masks of a grammar's states.

A mask is put together along the structure of the state's expression: the mask of a choice is the
union of its parts' masks, and a literal follows a path of the vocabulary's trie. What is left is
found by walks of the trie through the states of the automaton. Parts come back, in other states
and other grammars, and so do their masks.
Not thread-safe: callers hold the grammar's lock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .digest import Digests
from .distance import UNREACHABLE
from .expr import Pool
from .first_bytes import FirstBytes
from .lookahead import is_narrow, shorten
from .node import Kind, Node
from .repeat_index import RepeatIndex, repeat_index
from .row_cache import cache_of
from .state_table import DEAD, StateTable
from .token_row import TokenRow
from .trie_walk import farthest, follow, set_bits, walk, walk_beside
from .vocabulary import Vocabulary
from .word_list import words_of

Int32 = NDArray[np.int32]

_MOST_BRANCHES = 256
_MOST_PARTS = 64
_FEW_BYTES = 4
_ROOT = 0


class TokenWalk:
    """Makes masks of states, and keeps those of expressions that look alike.

    Args:
        pool: The grammar's expressions.
        table: The grammar's states.
        vocabulary: The vocabulary.

    Attributes:
        rows: Masks by expression, as far as a token can see it.
    """

    def __init__(self, pool: Pool, table: StateTable, vocabulary: Vocabulary) -> None:
        self._pool = pool
        self._table = table
        self._vocabulary = vocabulary
        self._cache = cache_of(vocabulary)
        self._digests = Digests(pool)
        self._first = FirstBytes(pool)
        self.rows: dict[Node, TokenRow] = {}
        self._making: set[Node] = set()
        self._indexes: dict[Node, RepeatIndex | None] = {}
        self._stacks = np.zeros((2, vocabulary.longest + 1), np.int32)
        self._tokens_by_class = np.bincount(
            table.class_of, vocabulary.tokens_by_byte, len(table.representative)
        )

    @property
    def nbytes(self) -> int:
        """Bytes held by masks."""
        return sum(row.nbytes for row in self.rows.values())

    def row(self, state: int) -> tuple[TokenRow, int]:
        """The mask of a state, and the distance (bytes) to add to the row's farthest."""
        return self._row(self._table.nodes[state])

    def tokens(self, state: int) -> tuple[Int32, Int32]:
        """All tokens that fit after `state`, and the state behind each; int32 [n] both."""
        return self._walk(self._below(_ROOT, state))

    # -- along the structure ------------------------------------------------------------------

    def _row(self, node: Node) -> tuple[TokenRow, int]:
        """The mask of an expression, and the distance to add to the row's farthest."""
        key, extra = self._seen(node)
        row = self.rows.get(key)
        if row is None:
            # What few tokens fit into is found faster than its digest is made.
            digest = None if is_narrow(key) else self._digests(key)
            row = self._cache.row(digest) if digest else None
            if row is None:
                self._making.add(key)
                try:
                    row = self._made(key)
                finally:
                    self._making.discard(key)
                if digest:
                    self._cache.keep(digest, row)
            self.rows[key] = row
        return row, extra

    def _seen(self, node: Node) -> tuple[Node, int]:
        """What a token can see of an expression, and the distance of the rest."""
        return shorten(self._pool, self._table.distance, node, self._vocabulary.longest)

    def _is_open(self, node: Node) -> bool:
        """Whether the row of an expression is just being made, and cannot be a part of others."""
        return self._seen(node)[0] in self._making

    def _made(self, key: Node) -> TokenRow:
        if self._table.distance.composes:
            row = self._wide_row(key) or self._union_row(key)
            if row is not None:
                return row
        return self._walked_row(key)

    def _wide_row(self, key: Node) -> TokenRow | None:
        """The row of what repeats characters, without a walk of the whole trie."""
        head = key.head if key.kind is Kind.SEQ else key
        if head.kind is Kind.REPEAT:
            return self._repeat_row(key)
        return self._excluding_row(key) if head.kind is Kind.AND else None

    def _union_row(self, key: Node) -> TokenRow | None:
        """The row of a choice from its branches; None if they do not fall apart.

        Works on pairs of an expression and the trie node from which it has to be matched.
        """
        pool, distance = self._pool, self._table.distance
        found: list[Int32] = []
        bases: list[TokenRow] = []
        far = 0
        stack = [(key, _ROOT)]
        seen = set(stack)
        while stack:
            node, at = stack.pop()
            least = distance(node)
            if least >= UNREACHABLE or node.kind is Kind.EPSILON:
                continue
            if len(seen) > _MOST_BRANCHES:
                return None
            head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, pool.epsilon)
            following: list[tuple[Node, int]] = []
            if is_narrow(head):
                tokens, following = self._along(node, at)
                found.append(tokens)
                far = max(far, least - 1)
            elif head.kind is Kind.ALT and len(head.parts) <= _MOST_PARTS:
                following = [(pool.seq(part, tail), at) for part in head.parts]
            elif head.kind is Kind.REF:
                following = [(pool.seq(pool.body(head), tail), at)]
            elif head.kind is Kind.REPEAT and self._unfolds(head):
                following = [(self._unfolded(head, tail), at)]
                if head.low == 0:
                    following.append((tail, at))
            elif at == _ROOT and self._is_open(node):
                return None
            elif at == _ROOT:
                row, extra = self._row(node)
                bases.append(row)
                far = max(far, row.farthest + extra)
            else:
                tokens, ends = self._walk(self._below(at, self._table.intern(node)))
                found.append(tokens)
                far = max(far, farthest(ends, self._table.fewest))
            for branch in following:
                if branch not in seen:
                    seen.add(branch)
                    stack.append(branch)
        tokens = np.concatenate(found) if found else np.zeros(0, np.int32)
        return TokenRow.union(self._vocabulary, bases, tokens, far, end=bool(key.nullable))

    def _unfolded(self, repeat: Node, tail: Node) -> Node:
        """At least one item of a repeat."""
        high = repeat.high - 1 if repeat.high > 0 else repeat.high
        rest = self._pool.repeat(repeat.head, max(repeat.low - 1, 0), high)
        return self._pool.seq(repeat.head, rest, tail)

    def _unfolds(self, repeat: Node) -> bool:
        """Whether the items of a repeat are few ways on, and not characters."""
        item = repeat.head
        return item.kind is not Kind.BYTES and self._first(item).bit_count() <= _FEW_BYTES

    def _along(self, node: Node, at: int) -> tuple[Int32, list[tuple[Node, int]]]:
        """Tokens that end within a literal beginning, and what follows it, and where."""
        trie, pool = self._vocabulary.preorder, self._pool
        text = bytearray()
        while True:
            head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, pool.epsilon)
            if head.kind is not Kind.BYTES or head.mask & (head.mask - 1):
                break
            text.append(head.mask.bit_length() - 1)
            node = tail
        if text:
            tokens = np.empty(len(text), np.int32)
            count, end = follow(trie, at, np.frombuffer(text, np.uint8), tokens)
            return tokens[:count], [(node, end)] if end >= 0 else []
        found = []
        following = []
        for byte in range(256):
            if head.mask & self._vocabulary.alphabet & (1 << byte):
                tokens = np.empty(1, np.int32)
                count, end = follow(trie, at, np.array([byte], np.uint8), tokens)
                found.append(tokens[:count])
                if end >= 0:
                    following.append((tail, end))
        return np.concatenate(found) if found else np.zeros(0, np.int32), following

    def _repeat_row(self, key: Node) -> TokenRow | None:
        """The mask of a counted repeat of items and what follows it.

        Tokens inside the repeat are looked up by their number of items; only tokens that leave it
        are walked. None if the items or what follows do not allow that.
        """
        pool, table, vocabulary = self._pool, self._table, self._vocabulary
        repeat, tail = (key.head, key.tail) if key.kind is Kind.SEQ else (key, pool.epsilon)
        if self._unfolds(repeat):
            return None
        index = self._index(repeat.head)
        first = self._first(tail)
        if index is None or first & index.first:
            return None
        words = index.inside(repeat.high).copy()
        most = table.distance(key) + index.longest_rest
        state = table.intern(tail)
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

    def _index(self, item: Node) -> RepeatIndex | None:
        if item not in self._indexes:
            digest = self._digests(item)
            known, index = self._cache.index(digest) if digest else (False, None)
            if not known:
                index = repeat_index(self._pool, self._table, self._vocabulary, item)
                if digest:
                    self._cache.keep_index(digest, index)
            self._indexes[item] = index
        return self._indexes[item]

    def _excluding_row(self, key: Node) -> TokenRow | None:
        """The mask of any number of items but some texts, such as the names of other properties.

        Every beginning of such a text may still go on to something else, so only tokens that hold
        a whole one, and what comes after it, do not fit.
        """
        pool, table, trie = self._pool, self._table, self._vocabulary.preorder
        both, tail = (key.head, key.tail) if key.kind is Kind.SEQ else (key, pool.epsilon)
        repeats = [part for part in both.parts if part.kind is Kind.REPEAT and part.high == -1]
        excluded = [part.head for part in both.parts if part.kind is Kind.NOT]
        if len(repeats) != 1 or len(excluded) != len(both.parts) - 1 or tail.nullable:
            return None
        index = self._index(repeats[0].head)
        words = words_of(pool.alt(excluded))
        if index is None or words is None or self._first(tail) & index.first:
            return None
        again = table.intern(pool.repeat(repeats[0].head, 0))
        first = self._first(tail)
        minus = [np.zeros(0, np.int32)]
        scratch = np.empty(max(map(len, words), default=0), np.int32)
        for word in words:
            _, node = follow(trie, _ROOT, np.frombuffer(word, np.uint8), scratch)
            if node < 0 or table.walk(again, word) != again:
                continue  # no token goes that far, or that is no sequence of whole items
            child = node + 1
            while child < trie.end[node]:
                if first >> int(trie.byte[child]) & 1:
                    below = trie.token[child : trie.end[child]]
                    minus.append(below[below >= 0])
                child = int(trie.end[child])
        row, extra = self._row(pool.seq(repeats[0], tail))
        # To get away from the excluded texts takes an item for each of them at most.
        far = row.farthest + extra + (len(words) + 1) * table.distance(repeats[0].head)
        return row.beside(far, np.zeros(0, np.int32), np.concatenate(minus))

    # -- walks --------------------------------------------------------------------------------

    def _walked_row(self, key: Node) -> TokenRow:
        state = self._table.intern(key)
        end = bool(key.nullable)
        base = self._similar(state)
        if base != DEAD:
            return self._row_beside(state, base, end=end)
        tokens, behind = self.tokens(state)
        return TokenRow.of_tokens(self._vocabulary, tokens, behind, self._table.fewest, end=end)

    def _similar(self, state: int) -> int:
        """A state that most tokens lead to at once and then stay in, or `DEAD`."""
        likely = self._most_likely(state)
        if likely in (DEAD, state) or self._most_likely(likely) != likely:
            return DEAD
        return DEAD if self._is_open(self._table.nodes[likely]) else likely

    def _most_likely(self, state: int) -> int:
        """Where the bytes lead with which most tokens begin; `DEAD` if few fit."""
        table = self._table
        table.expand((state,))
        tokens = np.bincount(table.transitions[state], self._tokens_by_class)
        tokens[DEAD] = 0
        best = int(tokens.argmax())
        return best if tokens[best] > self._vocabulary.size // 8 else DEAD

    def _row_beside(self, state: int, other: int, *, end: bool) -> TokenRow:
        """The row of a state from that of another, by walking where they differ only."""
        table, vocabulary, scratch = self._table, self._vocabulary, self._vocabulary.scratch()
        row, extra = self.row(other)
        work = np.array([[1, len(vocabulary.preorder.byte), state, other]], np.int32)
        found = lost = 0
        far = row.farthest + extra
        while len(work):
            found_now, lost_now, far, waiting = walk_beside(
                vocabulary.preorder, table.transitions, table.class_of, work, scratch.pairs,
                self._stacks, table.fewest, scratch.tokens, scratch.minus, found, lost, far,
            )  # fmt: skip
            full = waiting < 0
            aside = scratch.pairs if full else scratch.pairs[:waiting]
            table.expand(dict.fromkeys(aside[:, 2:].ravel().tolist()))
            if not full:
                found, lost, work = found_now, lost_now, aside.copy()
        plus, minus = scratch.tokens[:found].copy(), scratch.minus[:lost].copy()
        other_end = bool(table.nodes[other].nullable)
        if end and not other_end:
            plus = vocabulary.with_eos(plus)
        elif other_end and not end:
            minus = vocabulary.with_eos(minus)
        return row.beside(far, plus, minus)

    def _below(self, node: int, state: int) -> Int32:
        """The work of walking everything below a trie node that was reached in a state."""
        return np.array([[node + 1, self._vocabulary.preorder.end[node], state]], np.int32)

    def _walk(self, work: Int32) -> tuple[Int32, Int32]:
        """Tokens within ranges of the trie: int32 [n, 3] of first node, end, state before it."""
        table, trie, scratch = self._table, self._vocabulary.preorder, self._vocabulary.scratch()
        found = 0
        while len(work):
            found_now, waiting = walk(
                trie, table.transitions, table.class_of, work, scratch.pending, self._stacks[0],
                scratch.tokens, scratch.ends, found,
            )  # fmt: skip
            full = waiting < 0
            aside = scratch.pending if full else scratch.pending[:waiting]
            table.expand(dict.fromkeys(aside[:, 2].tolist()))
            if not full:  # else the same places again, with more states known
                found, work = found_now, aside.copy()
        return scratch.tokens[:found].copy(), scratch.ends[:found].copy()
