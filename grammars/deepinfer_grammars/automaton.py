"""Token automata: interned derivatives as states, and token masks from a walk of the vocabulary.

A state is an int; outside this module there is only state -> byte class -> state. Masks come from a
level-synchronous walk of the vocabulary trie, one NumPy operation per level. States that cannot be
told apart within the longest token share their mask. States are built on demand and never removed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .byte_classes import byte_classes
from .derivative import moves
from .distance import UNREACHABLE, Distance
from .errors import ConstraintTooLarge, EmptyConstraint
from .grammar import Grammar, too_deep
from .lookahead import shorten
from .node import Kind, Node
from .repeat_index import Level, RepeatIndex, is_prefix_code, longest_rest
from .token_distance import TokenDistance
from .vocabulary import Vocabulary

DEAD = 0
_UNKNOWN = -1
_FAR = np.int32(2**31 - 1)
_NARROWED_KEPT = 256


@dataclass(frozen=True, slots=True)
class AutomatonStats:
    """Sizes of a token automaton: counts of states, masks and byte classes, and bytes held."""

    states: int
    rows: int
    classes: int
    table_bytes: int


@dataclass(frozen=True, slots=True)
class _Row:
    words: NDArray[np.uint32]
    farthest: int  # largest distance (bytes) of any state behind an allowed token


class TokenAutomaton:
    """The token-level automaton of one grammar for one vocabulary.

    Thread-safe, deterministic and free of visible side effects: tables grow behind the methods.

    Args:
        grammar: A compiled grammar.
        vocabulary: The tokenizer's vocabulary.
        max_states: Most states to intern before giving up.

    Raises:
        EmptyConstraint: No text of the grammar can be written with this vocabulary.
        ConstraintTooLarge: `max_states` was reached.
    """

    def __init__(
        self, grammar: Grammar, vocabulary: Vocabulary, *, max_states: int = 1_000_000
    ) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self._lock = grammar.lock
        self._max_states = max_states
        with self._lock:
            self._distance = Distance(grammar.pool, vocabulary.alphabet)
            self._class_of, self._representative = byte_classes(grammar.pool, vocabulary.alphabet)
            classes = len(self._representative)
            self._classes_of_mask: dict[int, NDArray[np.intp]] = {}
            self._node_class = self._class_of[vocabulary.node_byte]
            self._table = np.full((64, classes), _UNKNOWN, np.int32)
            self._fewest = np.full(64, _FAR, np.int32)
            self._expanded = np.zeros(64, bool)
            self._nodes: list[Node] = [grammar.pool.never]
            self._state_of: dict[Node, int] = {}
            self._table[DEAD] = DEAD
            self._expanded[DEAD] = True
            self._rows: dict[Node, _Row] = {}
            self._row_of: dict[int, tuple[_Row, int]] = {}
            self._indexes: dict[Node, RepeatIndex] = {}
            self._next: dict[int, tuple[int, int]] = {}
            self._tokens_left = TokenDistance(
                vocabulary, self._step, lambda state: int(self._fewest[state])
            )
            self._narrowed: OrderedDict[tuple[int, int], tuple[NDArray[np.uint32], bool]] = (
                OrderedDict()
            )
            if self._distance(grammar.root) >= UNREACHABLE:
                raise EmptyConstraint(
                    "no text of this constraint can be written with this vocabulary",
                    hint="The vocabulary lacks single bytes that the constraint needs",
                )
            self.start = self._intern(grammar.root)

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
        row, extra = self._row(state)
        if budget - 1 >= row.farthest + extra:
            return row.words
        return self._narrow(state, budget)[0]

    def narrowed(self, state: int, budget: int) -> bool:
        """Whether `budget` removes tokens from the mask of `state`."""
        row, extra = self._row(state)
        return budget - 1 < row.farthest + extra and self._narrow(state, budget)[1]

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
        for byte in data:
            after = int(self._table[state, self._class_of[byte]])
            if after == _UNKNOWN:
                with self._lock:
                    self._expand(state)
                after = int(self._table[state, self._class_of[byte]])
            state = after
            if state == DEAD:
                break
        return state

    def accepting(self, state: int) -> bool:
        """Whether the text so far is complete."""
        return bool(self._nodes[state].nullable)

    def complete(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow it."""
        if not self.accepting(state):
            return False
        with self._lock:
            self._expand(state)
        return not bool((self._table[state] > DEAD).any())

    def fewest_tokens(self, state: int) -> int:
        """A number of tokens that suffices to complete the text from `state`."""
        with self._lock:
            return self._tokens_left(state)

    def stats(self) -> AutomatonStats:
        """Sizes of the tables now."""
        held = self._table.nbytes + self._fewest.nbytes + self._expanded.nbytes
        held += sum(row.words.nbytes for row in self._rows.values())
        return AutomatonStats(len(self._nodes), len(self._rows), len(self._representative), held)

    # -- states -------------------------------------------------------------------------------

    def _intern(self, node: Node) -> int:
        state = self._state_of.get(node)
        if state is not None:
            return state
        try:
            distance = self._distance(node)
        except ConstraintTooLarge:
            distance = UNREACHABLE  # a way on that cannot be shown to end is not offered
        if distance >= UNREACHABLE:
            self._state_of[node] = DEAD
            return DEAD
        state = len(self._nodes)
        if state >= self._max_states:
            raise ConstraintTooLarge(
                f"the constraint needs more than {self._max_states} states",
                hint="Bound the lengths of strings and arrays, or simplify the constraint",
            )
        if state >= len(self._table):
            self._grow()
        self._nodes.append(node)
        self._state_of[node] = state
        self._fewest[state] = min(distance, int(_FAR))
        return state

    def _grow(self) -> None:
        size = 2 * len(self._table)
        table = np.full((size, self._table.shape[1]), _UNKNOWN, np.int32)
        table[: len(self._table)] = self._table
        fewest = np.full(size, _FAR, np.int32)
        fewest[: len(self._fewest)] = self._fewest
        expanded = np.zeros(size, bool)
        expanded[: len(self._expanded)] = self._expanded
        self._table, self._fewest, self._expanded = table, fewest, expanded

    def _expand(self, state: int) -> None:
        """Fill the transition row of `state`. Call with the lock held."""
        if self._expanded[state]:
            return
        pairs = []
        try:
            following = moves(self.grammar.pool, self._nodes[state])
        except RecursionError:
            raise too_deep(self.grammar.kind) from None
        for mask, target in following:
            usable = mask & self.vocabulary.alphabet
            if usable:
                after = self._intern(target)
                if after != DEAD:
                    pairs.append((self._classes(usable), after))
        row = np.zeros(self._table.shape[1], np.int32)
        for classes, after in pairs:
            row[classes] = after
        self._table[state] = row
        self._expanded[state] = True

    def _classes(self, mask: int) -> NDArray[np.intp]:
        classes = self._classes_of_mask.get(mask)
        if classes is None:
            found = [c for c, byte in enumerate(self._representative) if mask >> byte & 1]
            classes = np.array(found, np.intp)
            self._classes_of_mask[mask] = classes
        return classes

    # -- masks --------------------------------------------------------------------------------

    def _row(self, state: int) -> tuple[_Row, int]:
        known = self._row_of.get(state)
        if known is not None:
            return known
        with self._lock:
            key, extra = shorten(
                self.grammar.pool, self._distance, self._nodes[state], self.vocabulary.longest
            )
            row = self._rows.get(key)
            if row is None:
                row = self._repeat_row(key) or self._walked_row(state, key)
                self._rows[key] = row
            self._row_of[state] = (row, extra)
            return row, extra

    def _walked_row(self, state: int, key: Node) -> _Row:
        representative = state if key is self._nodes[state] else self._intern(key)
        tokens, ends = self._walk_vocabulary(representative)
        farthest = int(self._fewest[ends].max()) if len(ends) else 0
        return _Row(self._words(state, tokens), farthest)

    def _words(self, state: int, tokens: NDArray[np.int32]) -> NDArray[np.uint32]:
        words = self.vocabulary.pack(tokens)
        if self.accepting(state):
            words |= self.vocabulary.eos_words
        words.setflags(write=False)
        return words

    def _narrow(self, state: int, budget: int) -> tuple[NDArray[np.uint32], bool]:
        """The mask that keeps only tokens from which the remaining budget suffices."""
        with self._lock:
            known = self._narrowed.get((state, budget))
            if known is not None:
                return known
            tokens, ends = self._walk_vocabulary(state)
            keep = self._fewest[ends] <= budget - 1
            for end in np.unique(ends[~keep]):
                if self._tokens_left(int(end)) <= budget - 1:
                    keep |= ends == end
            result = (self._words(state, tokens[keep]), not bool(keep.all()))
            self._narrowed[state, budget] = result
            if len(self._narrowed) > _NARROWED_KEPT:
                self._narrowed.popitem(last=False)
            return result

    def _walk_vocabulary(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """All tokens that fit after `state`, and the state behind each."""
        return self._tokens_below(np.zeros(1, np.int32), np.full(1, state, np.int32))

    def _tokens_below(
        self, nodes: NDArray[np.int32], states: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tokens below (not at) live trie nodes that were reached in `states`."""
        found = [
            (children[live], after[live])
            for _, children, after, live in self._levels(nodes, states)
        ]
        if not found:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        tokens = self.vocabulary.token_at[np.concatenate([nodes for nodes, _ in found])]
        is_token = tokens >= 0
        return tokens[is_token], np.concatenate([after for _, after in found])[is_token]

    def _levels(self, nodes: NDArray[np.int32], states: NDArray[np.int32]) -> Iterator[Level]:
        """Walk down the trie level by level, expanding states on the way."""
        trie = self.vocabulary
        while len(nodes):
            counts = trie.child_count[nodes]
            inner = np.flatnonzero(counts)
            nodes, states, counts = nodes[inner], states[inner], counts[inner]
            if not len(nodes):
                return
            unknown = ~self._expanded[states]
            if unknown.any():
                for missing in np.unique(states[unknown]):
                    self._expand(int(missing))
            ends = np.cumsum(counts)
            children = np.arange(ends[-1], dtype=np.int32)
            children += np.repeat(
                trie.child_start[nodes] - (ends - counts).astype(np.int32), counts
            )
            after = self._table[np.repeat(states, counts), self._node_class[children]]
            live = after > DEAD
            yield np.repeat(inner, counts), children, after, live
            nodes, states = children[live], after[live]

    def _repeat_row(self, key: Node) -> _Row | None:
        """The mask of a counted repeat of items and what follows it, without a wide walk.

        Tokens inside the repeat are looked up by their number of items; only tokens that leave it
        are walked. None if the items or what follows do not allow that.
        """
        repeat, tail = (key.head, key.tail) if key.kind is Kind.SEQ else (key, None)
        if repeat.kind is not Kind.REPEAT or not self._distance.composes:
            return None
        index = self._indexes.get(repeat.head)
        if index is None:
            index = self._indexes[repeat.head] = self._index(repeat.head)
        pool = self.grammar.pool
        after = pool.epsilon if tail is None else tail
        first = sum(mask for mask, _ in moves(pool, after))
        if not index.usable or first & index.first:
            return None
        words = index.inside(repeat.high).copy()
        farthest = self._distance(key) + index.longest_rest
        leaving = index.leaving(repeat.low, repeat.high)
        state = self._intern(after)
        if state != DEAD and len(leaving):
            self._expand(state)
            states = self._table[state, self._node_class[leaving]]
            live = states > DEAD
            nodes, states = leaving[live], states[live]
            tokens, ends = self._tokens_below(nodes, states)
            at = self.vocabulary.token_at[nodes]
            tokens = np.concatenate((at[at >= 0], tokens))
            ends = np.concatenate((states[at >= 0], ends))
            words |= self.vocabulary.pack(tokens)
            if len(ends):
                farthest = max(farthest, int(self._fewest[ends].max()))
        if key.nullable:
            words |= self.vocabulary.eos_words
        words.setflags(write=False)
        return _Row(words, farthest)

    def _index(self, item: Node) -> RepeatIndex:
        """What the vocabulary holds of texts that repeat `item`."""
        pool = self.grammar.pool
        if not is_prefix_code(pool, item):
            return RepeatIndex(self.vocabulary, 0, 0)
        again = self._intern(pool.repeat(item, 0))
        first = sum(mask for mask, _ in moves(pool, item))
        index = RepeatIndex(self.vocabulary, first, longest_rest(pool, item))
        start = np.zeros(1, np.int32)
        for parent, children, after, live in self._levels(start, np.full(1, again, np.int32)):
            index.add(parent, children, after == again, live)
        return index

    def _step(self, state: int) -> tuple[int, int]:
        """The next byte of the shortest completion and the state behind it."""
        known = self._next.get(state)
        if known is None:
            self._expand(state)
            row = self._table[state]
            distances = np.where(row > DEAD, self._fewest[row], _FAR)
            nearest = int(distances.argmin())
            known = (int(self._representative[nearest]), int(row[nearest]))
            self._next[state] = known
        return known
