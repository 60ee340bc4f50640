"""Token automata of the outlines-core library, behind the same methods as our own.

Its index is a deterministic automaton over whole tokens, complete when it is made. The pattern is
read by our own parser and written out anew for the library's regular expressions, character sets as
code points, so both engines mean the same language. What is not a plain regular expression is
refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from outlines_core import Index
from outlines_core import Vocabulary as IndexVocabulary

from .errors import ConstraintTooLarge, EmptyConstraint, SchemaNotSupported
from .regex_syntax import Parser
from .regex_tree import Anchor, Chars, Choice, Repeat, Tree
from .regex_tree import Sequence as Items
from .trie_walk import set_bits
from .utf8 import invert
from .vocabulary import Vocabulary

_MOST_CHARACTERS = 20_000  # unrolled; the index grows with them and with the vocabulary
_SURROGATES = (0xD800, 0xDFFF)
_FAR = 2**31 - 1


class OutlinesAutomaton:
    """The token-level automaton of a regular expression, as an index of outlines-core.

    States are numbers from 0, the start. Immutable once made.

    Args:
        pattern: The common subset of Python's `re` and ECMA-262.
        vocabulary: The tokenizer's vocabulary.

    Attributes:
        start: The state before the first token.
        vocab_size: Number of token ids that masks cover.

    Raises:
        InvalidConstraint: The pattern is malformed; `position` says where.
        SchemaNotSupported: It is not regular, uses lookaheads or anchors inside, or the library
            refuses it.
        ConstraintTooLarge: It is too large for an index that holds every token of every state.
        EmptyConstraint: No text of it can be written with this vocabulary.
    """

    def __init__(self, pattern: str, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.start = 0
        written = outlines_pattern(pattern)
        self._tokens: list[NDArray[np.int32]] = []  # by state: the tokens that fit, ascending
        self._after: list[NDArray[np.int32]] = []  # and the state behind each
        self._final: list[bool] = []
        self._read(written)
        self._fewest = self._distances()
        if self._fewest[self.start] == _FAR:
            raise EmptyConstraint(
                "no text of this constraint can be written with this vocabulary",
                hint="The pattern contradicts itself, or the vocabulary lacks tokens it needs",
            )

    # -- the engine's protocol ----------------------------------------------------------------

    def mask(self, state: int, budget: int) -> NDArray[np.uint32]:
        """Tokens that may come next.

        Args:
            state: A live state.
            budget: Text tokens that may still be emitted, this one included.

        Returns:
            uint32 [ceil(vocab_size / 32)], id i in bit i % 32 of word i // 32: tokens after which
            at most `budget - 1` further tokens complete the text, and the end-of-text ids exactly
            if `state` is accepting.
        """
        fits = self._fewest[self._after[state]] <= min(budget - 1, _FAR - 1)
        words = np.zeros(self.vocabulary.words, np.uint32)
        set_bits(words, self._tokens[state][fits], self.vocabulary.twins[:0])
        if self._final[state]:
            words |= self.vocabulary.eos_words
        words.setflags(write=False)
        return words

    def narrowed(self, state: int, budget: int) -> bool:
        """Whether `budget` removes tokens from the mask of `state`."""
        distances = self._fewest[self._after[state]]
        return bool(((distances > budget - 1) & (distances < _FAR)).any())

    def advance(self, state: int, token: int) -> int:
        """The state after `token`.

        Raises:
            ValueError: The token is not allowed in `state`.
        """
        tokens = self._tokens[state]
        at = int(np.searchsorted(tokens, token))
        if at < len(tokens) and tokens[at] == token:
            after = int(self._after[state][at])
            if self._fewest[after] < _FAR:
                return after
        raise ValueError(f"token {token} is not allowed in state {state}")

    def accepting(self, state: int) -> bool:
        """Whether the text so far is complete."""
        return self._final[state]

    def complete(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow it."""
        return self._final[state] and not bool((self._fewest[self._after[state]] < _FAR).any())

    def fewest_tokens(self, state: int) -> int:
        """The fewest tokens that complete the text from `state`."""
        return int(self._fewest[state])

    # -- making it ----------------------------------------------------------------------------

    def _read(self, pattern: str) -> None:
        """Make the index and take over its states, renumbered from the start."""
        size = self.vocab_size
        ids: dict[bytes, list[int]] = {}
        for token, data in enumerate(self.vocabulary.tokens):
            if data is not None:
                ids.setdefault(data, []).append(token)
        # The library wants a start that does not look at what follows, so an additional character
        # stands before the text; the state behind it is ours to start from.
        ids.setdefault(b"\0", []).append(size)
        try:
            index = Index(rf"\x00(?:{pattern})\z", IndexVocabulary(size + 1, ids))
        except ValueError as error:
            raise SchemaNotSupported(
                f"outlines-core cannot index the pattern: {str(error)[:200]}",
                hint='Use engine="native"',
            ) from None
        transitions = index.get_transitions()
        final = index.get_final_states()
        first = transitions.get(index.get_initial_state(), {}).get(size)
        if first is None:
            raise EmptyConstraint("nothing matches the pattern")
        numbers = {first: 0}
        queue = [first]
        for state in queue:
            pairs = sorted(
                (t, after) for t, after in transitions.get(state, {}).items() if t < size
            )
            for after in dict.fromkeys(after for _, after in pairs):
                if after not in numbers:
                    numbers[after] = len(numbers)
                    queue.append(after)
            self._tokens.append(np.array([token for token, _ in pairs], np.int32))
            self._after.append(np.array([numbers[after] for _, after in pairs], np.int32))
            self._final.append(state in final)

    def _distances(self) -> NDArray[np.int32]:
        """Fewest tokens from each state to a final one; `_FAR` where there are none."""
        before: list[list[int]] = [[] for _ in self._final]
        for state, after in enumerate(self._after):
            for target in np.unique(after):
                before[int(target)].append(state)
        fewest = np.full(len(self._final), _FAR, np.int32)
        queue = deque(state for state, final in enumerate(self._final) if final)
        fewest[list(queue)] = 0
        while queue:
            state = queue.popleft()
            for earlier in before[state]:
                if fewest[earlier] == _FAR:
                    fewest[earlier] = fewest[state] + 1
                    queue.append(earlier)
        return fewest


def outlines_pattern(pattern: str) -> str:
    """A pattern in the syntax of the library's regular expressions, with the same language.

    Raises:
        InvalidConstraint: It is malformed; `position` says where.
        SchemaNotSupported: It is not regular, or uses lookaheads or anchors inside.
        ConstraintTooLarge: It is too large for an index that holds every token of every state.
        EmptyConstraint: Nothing matches it.
    """
    tree = _possible(_without_ends(Parser(pattern).parse()))
    if tree is None:
        raise EmptyConstraint("nothing matches the pattern")
    size = _size(tree)
    if size > _MOST_CHARACTERS:
        raise ConstraintTooLarge(
            f"the pattern counts up to {size} characters, and an outlines index holds every token "
            f"for each of them; at most {_MOST_CHARACTERS} work",
            hint='Use smaller counts, or engine="native"',
        )
    return _written(tree)


def _without_ends(tree: Tree) -> Tree:
    """The pattern without `^` before and `$` after it, which a whole match implies."""
    if isinstance(tree, Anchor) and tree.kind in ("start", "end"):
        return Items(())
    if isinstance(tree, Choice):
        return Choice(tuple(_without_ends(option) for option in tree.options))
    if isinstance(tree, Items):
        items: Sequence[Tree] = tree.items
        while items and isinstance(items[0], Anchor) and items[0].kind == "start":
            items = items[1:]
        while items and isinstance(items[-1], Anchor) and items[-1].kind == "end":
            items = items[:-1]
        return Items(tuple(items))
    return tree


def _possible(tree: Tree) -> Tree | None:
    """The pattern without what cannot match; None if nothing is left."""
    if isinstance(tree, Chars):
        # Halves of surrogate pairs are no characters.
        ranges = invert([*invert(tree.ranges), _SURROGATES])
        return Chars(ranges) if ranges else None
    if isinstance(tree, Items):
        items = [_possible(item) for item in tree.items]
        known = tuple(item for item in items if item is not None)
        return Items(known) if len(known) == len(items) else None
    if isinstance(tree, Choice):
        options = [_possible(option) for option in tree.options]
        known = tuple(option for option in options if option is not None)
        return Choice(known) if known else None
    if isinstance(tree, Repeat):
        item = _possible(tree.item)
        if item is None or tree.high == 0:
            return None if tree.low else Items(())
        return replace(tree, item=item)
    return tree


def _written(tree: Tree) -> str:
    if isinstance(tree, Chars):
        return "[" + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in tree.ranges) + "]"
    if isinstance(tree, Items):
        return "".join(_written(item) for item in tree.items)
    if isinstance(tree, Choice):
        return f"(?:{'|'.join(_written(option) for option in tree.options)})"
    if isinstance(tree, Repeat):
        high = "" if tree.high < 0 else tree.high
        return f"(?:{_written(tree.item)}){{{tree.low},{high}}}"
    kind = "an anchor" if isinstance(tree, Anchor) else "a lookahead or lookbehind"
    raise SchemaNotSupported(
        f"{kind} is used inside of the pattern, which an outlines index cannot follow",
        position=None if isinstance(tree, Anchor) else tree.position,
        hint='Use engine="native"',
    )


def _size(tree: Tree) -> int:
    """Characters of the pattern with its counted repeats written out."""
    if isinstance(tree, Items):
        return sum(_size(item) for item in tree.items)
    if isinstance(tree, Choice):
        return sum(_size(option) for option in tree.options)
    if isinstance(tree, Repeat):
        return _size(tree.item) * max(tree.low, tree.high, 1)
    return 1
