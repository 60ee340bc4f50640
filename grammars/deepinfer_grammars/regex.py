r"""Regular expressions as byte expressions.

Parts without anchors and lookaheads become expressions directly. The others are written with what
follows them at hand: a lookahead is the intersection of itself with what follows, an end anchor
makes what follows empty, and `^` and `\b` know the kind of character that came before.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache

from .char_sets import ASCII_WORD, unicode_set
from .errors import SchemaNotSupported
from .expr import Pool
from .node import Kind, Node
from .regex_syntax import Parser
from .regex_tree import Anchor, Behind, Chars, Choice, Dialect, Look, Repeat, Sequence, Tree
from .utf8 import ANY_CHAR, Ranges, char_set, intersect, invert, normalise

Encode = Callable[[Pool, Ranges], Node]

_MOST_UNROLLED = 16
_NEWLINE: Ranges = ((10, 10),)


class _Before(IntEnum):
    """What stands before a place in the text."""

    START = 0
    NEWLINE = 1
    WORD = 2  # ASCII letter, digit or _
    LETTER = 3  # any other word character of Unicode
    OTHER = 4


_CHARACTERS = (_Before.NEWLINE, _Before.WORD, _Before.LETTER, _Before.OTHER)
_Rest = Callable[[_Before], Node]


def regex_node(
    pool: Pool,
    pattern: str,
    *,
    encode: Encode = char_set,
    search: bool = False,
    dialect: Dialect = "common",
) -> Node:
    """The texts that match a pattern.

    Args:
        pool: Where to build.
        pattern: The common subset of Python's `re` and ECMA-262, see `regex_escapes`.
        encode: How a set of characters is written; UTF-8 by default.
        search: Whether a match anywhere in the text is enough (JSON Schema's `pattern`).
        dialect: ``"python"`` reads the pattern exactly as `re` does.

    Raises:
        InvalidConstraint: Malformed; `position` says where.
        SchemaNotSupported: Not regular (backreferences, conditions), or a lookbehind.
        ConstraintTooLarge: Too long or nested too deeply.
    """
    tree = Parser(pattern, dialect).parse()
    return _Writer(pool, encode).whole(tree, search=search)


class _Writer:
    def __init__(self, pool: Pool, encode: Encode) -> None:
        self._pool = pool
        self._encode: Callable[[Ranges], Node] = cache(lambda ranges: encode(pool, ranges))
        self._anything = pool.repeat(self._encode(ANY_CHAR), 0)
        self._places: dict[int, bool] = {}
        self._kept: list[Tree] = []

    def whole(self, tree: Tree, *, search: bool) -> Node:
        pool = self._pool
        if not self._sees_places(tree):
            node = self._plain(tree)
            return pool.seq(self._anything, node, self._anything) if search else node
        rest = self._anything if search else pool.epsilon
        parts = [self._write(tree, _Before.START, lambda _: rest)]
        if search:
            parts += [
                pool.seq(
                    self._anything,
                    self._encode(self._last_chars(before)),
                    self._write(tree, before, lambda _: rest),
                )
                for before in _CHARACTERS
            ]
        return pool.alt(parts)

    # -- without places -----------------------------------------------------------------------

    def _plain(self, tree: Tree) -> Node:
        pool = self._pool
        if isinstance(tree, Chars):
            return self._encode(tree.ranges)
        if isinstance(tree, Sequence):
            return pool.seq(*[self._plain(item) for item in tree.items])
        if isinstance(tree, Repeat):
            return pool.repeat(self._plain(tree.item), tree.low, tree.high)
        if isinstance(tree, Choice):
            return self._plain_choice(tree)
        raise TypeError(f"{tree!r} depends on its place")

    def _plain_choice(self, tree: Choice) -> Node:
        """Literal options become one trie, the rest one alternative each."""
        words: list[bytes] = []
        parts: list[Node] = []
        for option in tree.options:
            node = self._plain(option)
            spelled = _literal_bytes(node)
            if spelled is None:
                parts.append(node)
            else:
                words.append(spelled)
        if words:
            parts.append(self._pool.words(words))
        return self._pool.alt(parts)

    # -- with places --------------------------------------------------------------------------

    def _sees_places(self, tree: Tree) -> bool:
        """Whether an anchor or lookahead is inside."""
        known = self._places.get(id(tree))
        if known is None:
            if isinstance(tree, Anchor | Look | Behind):
                known = True
            elif isinstance(tree, Sequence):
                known = any(self._sees_places(item) for item in tree.items)
            elif isinstance(tree, Choice):
                known = any(self._sees_places(item) for item in tree.options)
            else:
                known = isinstance(tree, Repeat) and self._sees_places(tree.item)
            self._places[id(tree)] = known
            self._kept.append(tree)  # keeps the id from being reused
        return known

    def _write(self, tree: Tree, before: _Before, rest: _Rest) -> Node:
        """`tree` at a place that has `before` before it and `rest` after it."""
        pool = self._pool
        if not self._sees_places(tree):
            return self._consume(self._plain(tree), before, rest)
        if isinstance(tree, Anchor):
            return self._anchor(tree, before, rest(before))
        if isinstance(tree, Look):
            ahead = self._write(tree.item, before, lambda _: self._anything)
            if tree.negative:
                ahead = pool.complement(ahead)
            return pool.all_of((ahead, rest(before)))
        if isinstance(tree, Behind):
            raise SchemaNotSupported(
                "a lookbehind is used", position=tree.position, hint="Write the context out"
            )
        if isinstance(tree, Choice):
            shared = cache(rest)
            return pool.alt([self._write(option, before, shared) for option in tree.options])
        if isinstance(tree, Repeat):
            return self._repeat(tree, before, rest)
        if isinstance(tree, Sequence):
            return self._sequence(tree, before, rest)
        raise TypeError(f"{tree!r} has no places")

    def _sequence(self, tree: Sequence, before: _Before, rest: _Rest) -> Node:
        # Runs of plain items are joined, so that recursion is as deep as there are places.
        runs: list[Tree] = []
        plain: list[Tree] = []
        for item in tree.items:
            if self._sees_places(item):
                if plain:
                    runs.append(Sequence(tuple(plain)))
                    plain = []
                runs.append(item)
            else:
                plain.append(item)
        if plain:
            runs.append(Sequence(tuple(plain)))
        following = rest
        for run in reversed(runs[1:]):
            following = self._then(run, following)
        return self._write(runs[0], before, following)

    def _then(self, tree: Tree, rest: _Rest) -> _Rest:
        shared = cache(rest)
        return cache(lambda before: self._write(tree, before, shared))

    def _repeat(self, tree: Repeat, before: _Before, rest: _Rest) -> Node:
        if isinstance(tree.item, Anchor | Look):  # of no width: once is as good as many times
            return self._write(tree.item, before, rest) if tree.low else rest(before)
        if tree.high < 0 or tree.high > _MOST_UNROLLED:
            raise SchemaNotSupported(
                "an anchor or lookahead stands inside a repeat",
                position=tree.position,
                hint="Move it out of the repeat",
            )
        following = rest
        for index in reversed(range(tree.high)):
            step = self._then(tree.item, following)
            following = step if index < tree.low else self._maybe(step, rest)
        return following(before)

    def _maybe(self, step: _Rest, rest: _Rest) -> _Rest:
        return cache(lambda before: self._pool.alt((step(before), rest(before))))

    def _consume(self, node: Node, before: _Before, rest: _Rest) -> Node:
        """`node`, then `rest`, which may ask what the last character was."""
        pool = self._pool
        known = {kind: rest(kind) for kind in _Before}
        if len(set(known.values())) == 1:
            return pool.seq(node, known[before])
        parts = []
        if node.nullable:
            parts.append(known[before])
        for kind in _CHARACTERS:
            ending = pool.seq(self._anything, self._encode(self._last_chars(kind)))
            parts.append(pool.seq(pool.all_of((node, ending)), known[kind]))
        return pool.alt(parts)

    @staticmethod
    def _last_chars(before: _Before) -> Ranges:
        letters = intersect(unicode_set("w"), invert(ASCII_WORD))
        if before is _Before.NEWLINE:
            return _NEWLINE
        if before is _Before.WORD:
            return ASCII_WORD
        if before is _Before.LETTER:
            return letters
        return invert([*ASCII_WORD, *letters, *_NEWLINE])

    def _anchor(self, anchor: Anchor, before: _Before, rest: Node) -> Node:
        pool = self._pool
        kind = anchor.kind
        if kind == "start":
            return rest if before is _Before.START else pool.never
        if kind == "line_start":
            return rest if before in (_Before.START, _Before.NEWLINE) else pool.never
        if kind == "end":
            return pool.all_of((rest, pool.epsilon))
        line_end = self._encode(_NEWLINE)
        if kind == "last_line_end":
            return pool.all_of((rest, pool.optional(line_end)))
        if kind == "line_end":
            line_end = pool.seq(line_end, self._anything)
            return pool.all_of((rest, pool.optional(line_end)))
        return pool.all_of((rest, self._word_place(anchor, before)))

    def _word_place(self, anchor: Anchor, before: _Before) -> Node:
        r"""What may follow a ``\b`` or ``\B``."""
        pool = self._pool
        sets = {"ascii": (ASCII_WORD,), "unicode": (unicode_set("w"),)}
        change = anchor.kind == "word"
        allowed: list[Ranges] = []
        at_end: list[bool] = []
        for word in sets.get(anchor.charset, (ASCII_WORD, unicode_set("w"))):
            inside = before is _Before.WORD or (before is _Before.LETTER and word != ASCII_WORD)
            allowed.append(word if inside != change else invert(word))
            # Python's \B never matches in the empty text.
            at_end.append(inside == change and (change or before is not _Before.START))
        if anchor.charset == "either":
            ranges, ends = normalise(sum(allowed, ())), any(at_end)
        else:
            ranges, ends = intersect(allowed[0], allowed[-1]), all(at_end)
        following = pool.seq(self._encode(ranges), self._anything)
        return pool.optional(following) if ends else following


def _literal_bytes(node: Node) -> bytes | None:
    """The one text that a node accepts, if it is a literal."""
    data = bytearray()
    while node.kind is Kind.SEQ and node.head.kind is Kind.BYTES:
        if node.head.mask.bit_count() != 1:
            return None
        data.append(node.head.mask.bit_length() - 1)
        node = node.tail
    if node.kind is Kind.BYTES and node.mask.bit_count() == 1:
        data.append(node.mask.bit_length() - 1)
        return bytes(data)
    return bytes(data) if node.kind is Kind.EPSILON else None
