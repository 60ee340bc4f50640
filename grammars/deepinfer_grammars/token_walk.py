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
from .errors import ConstraintTooLarge
from .expr import Pool
from .first_bytes import FirstBytes
from .gathered import Gathered
from .limits import Limits
from .lookahead import Lookahead, is_narrow
from .node import Kind, Node
from .repeat_index import RepeatIndex, repeat_index
from .row_cache import cache_of
from .state_table import DEAD, StateTable
from .token_row import TokenRow
from .trie_walk import farthest, follow, set_bits
from .vocabulary import Vocabulary
from .vocabulary_walk import NOTHING, ROOT, Part, VocabularyWalk
from .word_list import words_of

Int32 = NDArray[np.int32]

_MOST_BRANCHES = 256
_MOST_PARTS = 64
_FEW_BYTES = 4
_FEW_EXITS = 8
_LONGEST_STEP = 16  # bytes of a literal to look at before asking whether any token is as long


class TokenWalk:
    """Makes masks of states, and keeps those of expressions that look alike.

    Args:
        pool: The grammar's expressions.
        table: The grammar's states.
        vocabulary: The vocabulary.
        limits: Most bytes of masks.

    Attributes:
        rows: Masks by expression, as far as a token can see it.
        nbytes: Bytes held by them.
    """

    def __init__(
        self, pool: Pool, table: StateTable, vocabulary: Vocabulary, limits: Limits
    ) -> None:
        self._pool = pool
        self._table = table
        self._vocabulary = vocabulary
        self._cache = cache_of(vocabulary)
        self._digests = Digests(pool)
        self._first = FirstBytes(pool)
        self._lookahead = Lookahead(pool, table.distance, vocabulary.longest)
        self.rows: dict[Node, TokenRow] = {}
        self._limits = limits
        self.nbytes = 0
        self._parts: dict[tuple[Node, int], Part | None] = {}
        self._sequences: dict[tuple[Node, Node], Node] = {}
        self._literals: dict[Node, Gathered | None] = {}
        self._making: set[Node] = set()
        self._indexes: dict[Node, RepeatIndex | None] = {}
        self._walk = VocabularyWalk(table, vocabulary)

    def row(self, state: int) -> tuple[TokenRow, int]:
        """The mask of a state, and the distance (bytes) to add to the row's farthest."""
        return self._row(self._table.nodes[state])

    def tokens(self, state: int) -> tuple[Int32, Int32]:
        """All tokens that fit after `state`, and the state behind each; int32 [n] both."""
        return self._walk.tokens([ROOT], state)

    # -- along the structure ------------------------------------------------------------------

    def _row(self, node: Node) -> tuple[TokenRow, int]:
        """The mask of an expression, and the distance to add to the row's farthest."""
        key, extra = self._lookahead(node)
        row = self.rows.get(key)
        if row is None:
            self._making.add(key)
            try:
                row = self.rows[key] = self._made(key)
            finally:
                self._making.discard(key)
            self.nbytes += row.nbytes
            if self.nbytes > self._limits.max_bytes:
                raise ConstraintTooLarge(
                    f"the masks of the constraint need more than {self._limits.max_bytes} bytes",
                    hint="Bound the lengths of strings and arrays, or simplify the constraint",
                )
        return row, extra

    def _is_open(self, node: Node) -> bool:
        """Whether the row of an expression is just being made, and cannot be a part of others."""
        return self._lookahead(node)[0] in self._making

    def _made(self, key: Node) -> TokenRow:
        head = key.head if key.kind is Kind.SEQ else key
        row = None
        if self._table.distance.composes:
            if head.kind is Kind.REPEAT:
                row = self._repeat_row(key)
            elif head.kind is Kind.AND:
                row = self._excluding_row(key) or self._uncounted_row(key)
            row = row or self._union_row(key)
        if row is None:
            # Only a walk takes longer than the digest.
            digest = self._digests(key)
            row = self._cache.rows.get(digest)[1] if digest else None
            if row is None:
                row = self._walked_row(key)
                if digest:
                    self._cache.rows.keep(digest, row)
        return row

    def _union_row(self, key: Node) -> TokenRow | None:
        """The row of a choice from its branches; None if it does not fall apart."""
        gathered = self._gathered([(key, ROOT)])
        if gathered is None:
            return None
        end = bool(key.nullable)
        tokens = np.concatenate(gathered.tokens) if gathered.tokens else NOTHING
        return TokenRow.union(self._vocabulary, gathered.rows, tokens, gathered.farthest, end=end)

    def _gathered(self, stack: list[tuple[Node, int]]) -> Gathered | None:
        """The tokens of branches: expressions, and the trie nodes from which they have to match."""
        pool, distance = self._pool, self._table.distance
        found = Gathered([], [], 0)
        seen = set(stack)
        while stack:
            node, at = stack.pop()
            if distance(node) >= UNREACHABLE or node.kind is Kind.EPSILON:
                continue
            if len(seen) > _MOST_BRANCHES:
                return None
            head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, pool.epsilon)
            following: list[tuple[Node, int]] = []
            if is_narrow(head):
                if at == ROOT:
                    literal = self._literal(node)
                    if literal is None:
                        return None
                    found.add(literal)
                else:
                    following = self._along(node, at, found)
            elif tail.kind is not Kind.EPSILON and (part := self._part(head, at)) is not None:
                following = self._through(head, tail, at, part, found)
            elif head.kind is Kind.ALT and len(head.parts) <= _MOST_PARTS:
                following = [(self._joined(part, tail), at) for part in head.parts]
            elif head.kind is Kind.REF:
                following = [(self._joined(pool.body(head), tail), at)]
            elif head.kind is Kind.REPEAT and self._unfolds(head):
                following = [(self._unfolded(head, tail), at)]
                if head.low == 0:
                    following.append((tail, at))
            elif at != ROOT:
                found.walked(*self._walk.tokens([at], self._table.intern(node)), self._table)
            elif self._is_open(node):
                return None
            else:
                row, extra = self._row(node)
                found.rows.append(row)
                found.farthest = max(found.farthest, row.farthest + extra)
            for branch in following:
                if branch not in seen:
                    seen.add(branch)
                    stack.append(branch)
        return found

    def _joined(self, head: Node, tail: Node) -> Node:
        """The sequence of two expressions; kept, because long ones take a while to write."""
        joined = self._sequences.get((head, tail))
        if joined is None:
            joined = self._sequences[head, tail] = self._pool.seq(head, tail)
        return joined

    def _literal(self, node: Node) -> Gathered | None:
        """The tokens of a branch with a literal beginning; it comes back in many choices."""
        if node not in self._literals:
            found = Gathered([], [], 0)
            rest = self._gathered(self._along(node, ROOT, found))
            if rest is not None:
                found.add(rest)
                found = Gathered([np.concatenate(found.tokens)], [], found.farthest)
            self._literals[node] = found if rest is not None else None
        return self._literals[node]

    def _through(
        self, head: Node, tail: Node, at: int, part: Part, found: Gathered
    ) -> list[tuple[Node, int]]:
        """Take in a beginning, and what follows it; the branches that are left to follow."""
        found.tokens.append(part.tokens)
        found.farthest = max(found.farthest, part.farthest + self._table.distance(tail))
        exits = part.exits.tolist()
        if head.nullable:
            exits.append(at)
        if len(exits) <= _FEW_EXITS:
            return [(tail, node) for node in exits]
        after = self._table.intern(tail)
        if after != DEAD:
            found.walked(*self._walk.tokens(exits, after), self._table)
        return []

    def _part(self, head: Node, at: int) -> Part | None:
        """What of the trie a beginning covers by itself; the same whatever follows it.

        None for repeats, which are complete in too many places, and for choices that fall apart.
        """
        if head.kind is Kind.REPEAT or (head.kind is Kind.ALT and len(head.parts) <= _MOST_PARTS):
            return None
        if (head, at) not in self._parts:
            # The rule of a value comes back in many places; other beginnings do not.
            digest = self._digests(head) if head.kind is Kind.REF or at == ROOT else None
            name = digest + at.to_bytes(4, "little") if digest else b""
            known, part = self._cache.parts.get(name) if digest else (False, None)
            if not known:
                part = self._walk.part(head, at)
                if digest:
                    self._cache.parts.keep(name, part)
            self._parts[head, at] = part
        return self._parts[head, at]

    def _unfolded(self, repeat: Node, tail: Node) -> Node:
        """At least one item of a repeat."""
        high = repeat.high - 1 if repeat.high > 0 else repeat.high
        rest = self._pool.repeat(repeat.head, max(repeat.low - 1, 0), high)
        return self._pool.seq(repeat.head, rest, tail)

    def _unfolds(self, repeat: Node) -> bool:
        """Whether the items of a repeat are few ways on, and not characters."""
        item = repeat.head
        return item.kind is not Kind.BYTES and self._first(item).bit_count() <= _FEW_BYTES

    def _along(self, node: Node, at: int, found: Gathered) -> list[tuple[Node, int]]:
        """Take in the tokens within a literal beginning; what follows it, and where."""
        trie, pool = self._vocabulary.preorder, self._pool
        found.farthest = max(found.farthest, self._table.distance(node) - 1)
        text = bytearray()
        head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, pool.epsilon)
        while head.kind is Kind.BYTES and not head.mask & (head.mask - 1):
            text.append(head.mask.bit_length() - 1)
            node = tail
            if len(text) == _LONGEST_STEP:
                break
            head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, pool.epsilon)
        steps = [(text, node)]
        if not text:
            usable = head.mask & self._vocabulary.alphabet
            steps = [(bytearray((b,)), tail) for b in range(256) if usable >> b & 1]
        following = []
        for step, rest in steps:
            tokens = np.empty(len(step), np.int32)
            count, end = follow(trie, at, np.frombuffer(step, np.uint8), tokens)
            found.tokens.append(tokens[:count])
            if end >= 0:
                following.append((rest, end))
        return following

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
            tokens, behind = self._walk.entering(nodes, state)
            set_bits(words, tokens, vocabulary.twins)
            most = max(most, farthest(behind, table.fewest))
        if key.nullable:
            words |= vocabulary.eos_words
        return TokenRow(vocabulary, most, words=words)

    def _index(self, item: Node) -> RepeatIndex | None:
        if item not in self._indexes:
            digest = self._digests(item)
            known, index = self._cache.indexes.get(digest) if digest else (False, None)
            if not known:
                index = repeat_index(self._pool, self._table, self._vocabulary, item)
                if digest:
                    self._cache.indexes.keep(digest, index)
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
        minus = [NOTHING]
        scratch = np.empty(max(map(len, words), default=0), np.int32)
        for word in words:
            _, node = follow(trie, ROOT, np.frombuffer(word, np.uint8), scratch)
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
        return row.beside(far, NOTHING, np.concatenate(minus))

    def _uncounted_row(self, key: Node) -> TokenRow | None:
        """The mask of an intersection with counters that are still far from their ends.

        Without the counters it is the same in many states. It is theirs too if they leave room for
        the longest token in it and the way from there to the end of the intersection.
        """
        pool, distance = self._pool, self._table.distance
        both, tail = (key.head, key.tail) if key.kind is Kind.SEQ else (key, pool.epsilon)
        counted = [
            p for p in both.parts if p.kind is Kind.REPEAT and p.high > 0 and distance(p.head)
        ]
        if not counted:
            return None
        others = [part for part in both.parts if part not in counted]
        free = pool.all_of([*others, *[pool.repeat(p.head, p.low) for p in counted]])
        node = pool.seq(free, tail)
        if self._is_open(node):
            return None
        row, extra = self._row(node)
        far = row.farthest + extra
        needed = row.longest + max(0, far - distance(tail))
        if min(part.high for part in counted) < needed:
            return None
        return row.beside(far, NOTHING, NOTHING) if extra else row

    def _walked_row(self, key: Node) -> TokenRow:
        """The mask of an expression from a walk of the whole trie, or of where it is special."""
        state, vocabulary, nodes = self._table.intern(key), self._vocabulary, self._table.nodes
        end = bool(key.nullable)
        other = self._walk.similar(state)
        if other == DEAD or self._is_open(nodes[other]):
            tokens, behind = self.tokens(state)
            return TokenRow.of_tokens(vocabulary, tokens, behind, self._table.fewest, end=end)
        row, extra = self.row(other)
        plus, minus, far = self._walk.difference(state, other)
        other_end = bool(nodes[other].nullable)
        if end and not other_end:
            plus = vocabulary.with_eos(plus)
        elif other_end and not end:
            minus = vocabulary.with_eos(minus)
        return row.beside(max(far, row.farthest + extra), plus, minus)
