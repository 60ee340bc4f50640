r"""Regular expressions as byte expressions.

Parts without anchors and lookaheads become expressions directly. The others are written with what
follows them at hand: a lookahead is the intersection of itself with what follows, an end anchor
makes what follows empty, and `^`, `\b` and lookbehinds know the kind of character that came before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .errors import ConstraintTooLarge, SchemaNotSupported
from .expr import Pool
from .node import Kind, Node
from .regex_before import NEWLINE, START, Before, Kinds, word_sets
from .regex_loops import LOOP_LIMIT, Letters, has_loop_with_places, without_places
from .regex_syntax import Parser
from .regex_tree import (
    Anchor,
    Behind,
    Chars,
    Choice,
    Dialect,
    Look,
    Repeat,
    Sequence,
    Tree,
    shortest,
)
from .utf8 import ANY_CHAR, Ranges, char_set, intersect, invert, normalise

Encode = Callable[[Pool, Ranges], Node]
_Rest = Callable[[Before], Node]

_LONGEST_MATCH = 1 << 30


def regex_node(
    pool: Pool,
    pattern: str,
    *,
    encode: Encode = char_set,
    search: bool = False,
    dialect: Dialect = "common",
    widest: bool = False,
) -> Node:
    """The texts that match a pattern.

    Args:
        pool: Where to build.
        pattern: The common subset of Python's `re` and ECMA-262, see `regex_escapes`.
        encode: How a set of characters is written; UTF-8 by default.
        search: Whether a match anywhere in the text is enough (JSON Schema's `pattern`).
        dialect: ``"python"`` reads the pattern exactly as `re` does.
        widest: Take the wider reading where the two differ, so that the complement of the result
            matches in neither.

    Raises:
        InvalidConstraint: Malformed; `position` says where.
        SchemaNotSupported: Not regular (backreferences, conditions), or a lookbehind at more than
            one character.
        ConstraintTooLarge: Too long or nested too deeply.
    """
    tree = Parser(pattern, dialect, negated=widest).parse()
    if "{" in pattern and (length := shortest(tree)) > _LONGEST_MATCH:
        raise ConstraintTooLarge(
            f"the shortest text that matches has {length} characters, more than {_LONGEST_MATCH}",
            hint="Use smaller counts",
        )
    if has_loop_with_places(tree):
        letters = Letters(tree)
        scratch = Pool()
        root = _Writer(scratch, letters.encode, tree, scratch.anything).whole(search=search)
        return without_places(scratch, root, letters, lambda ranges: encode(pool, ranges), pool)
    text = pool.repeat(encode(pool, ANY_CHAR), 0)
    return _Writer(pool, encode, tree, text).whole(search=search)


class _Writer:
    def __init__(self, pool: Pool, encode: Encode, tree: Tree, text: Node) -> None:
        self._pool = pool
        self._tree = tree
        self._kinds = Kinds(tree)
        self._after = tuple(Before(kind + 1) for kind in range(len(self._kinds.groups)))
        self._encode: Callable[[Ranges], Node] = cache(lambda ranges: encode(pool, ranges))
        self._text = text
        self._places: dict[int, bool] = {}
        self._kept: list[Tree] = []

    def whole(self, *, search: bool) -> Node:
        """The texts that match, or in which something matches."""
        pool, tree = self._pool, self._tree
        if not self._sees_places(tree):
            node = self._plain(tree)
            return pool.seq(self._text, node, self._text) if search else node
        rest = self._text if search else pool.epsilon
        following: _Rest = cache(lambda _: rest)
        at_start = self._write(tree, Before(START), following)
        if not search:
            return at_start
        # Places that read alike share their characters; most patterns tell few of them apart.
        characters: dict[Node, list[Before]] = {}
        for before in self._after:
            characters.setdefault(self._write(tree, before, following), []).append(before)
        if list(characters) == [at_start]:
            return pool.seq(self._text, at_start)
        parts = [at_start]
        for node, places in characters.items():
            if node is not pool.never:
                parts.append(pool.seq(self._text, self._last(places), node))
        return pool.alt(parts)

    # -- without places -----------------------------------------------------------------------

    def _plain(self, tree: Tree) -> Node:
        pool = self._pool
        if isinstance(tree, Chars):
            return self._encode(tree.ranges)
        if isinstance(tree, Sequence):
            return pool.seq(*[self._plain(item) for item in tree.items])
        if isinstance(tree, Repeat):
            return _repeated(pool, self._plain(tree.item), tree.low, tree.high)
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

    def _write(self, tree: Tree, before: Before, rest: _Rest) -> Node:
        """`tree` at a place that has `before` before it and `rest` after it."""
        pool = self._pool
        if not self._sees_places(tree):
            return self._consume(self._plain(tree), before, rest)
        if isinstance(tree, Anchor):
            return self._anchor(tree, before, rest(before))
        if isinstance(tree, Look):
            ahead = self._write(tree.item, Before(before.kind), lambda _: pool.anything)
            if tree.negative:
                ahead = pool.complement(ahead)
            return pool.all_of((ahead, rest(before)))
        if isinstance(tree, Behind):
            held = self._kinds.behind(before, tree.ranges) != tree.negative
            return rest(before) if held else pool.never
        if isinstance(tree, Choice):
            shared = cache(rest)
            return pool.alt([self._write(option, before, shared) for option in tree.options])
        if isinstance(tree, Repeat):
            return self._repeat(tree, before, rest)
        if isinstance(tree, Sequence):
            return self._sequence(tree, before, rest)
        raise TypeError(f"{tree!r} has no places")

    def _sequence(self, tree: Sequence, before: Before, rest: _Rest) -> Node:
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

    def _repeat(self, tree: Repeat, before: Before, rest: _Rest) -> Node:
        if isinstance(tree.item, Anchor | Look | Behind):  # of no width: once is enough
            return self._write(tree.item, before, rest) if tree.low else rest(before)
        following = rest
        if tree.high < 0 or tree.high > LOOP_LIMIT:
            if tree.low > LOOP_LIMIT or tree.high > 0:
                raise SchemaNotSupported(
                    f"an anchor or lookahead is repeated more than {LOOP_LIMIT} times",
                    position=tree.position,
                    hint="Move it out of the repeat, or leave the count open",
                )
            following = self._loop(tree, rest)
        for index in reversed(range(tree.low if tree.high < 0 else tree.high)):
            step = self._then(tree.item, following)
            following = step if index < tree.low else self._maybe(step, rest)
        return following(before)

    def _maybe(self, step: _Rest, rest: _Rest) -> _Rest:
        return cache(lambda before: self._pool.alt((step(before), rest(before))))

    def _loop(self, tree: Repeat, rest: _Rest) -> _Rest:
        """Any number of iterations as rules, one for each kind of character before."""
        pool = self._pool
        rules: dict[int, Node] = {}

        def again(before: Before) -> Node:
            if not before.moved:  # an empty iteration leads nowhere new
                return pool.never
            rule = rules.get(before.kind)
            if rule is None:
                rule = rules[before.kind] = pool.rule("loop")
                pool.define(rule, enter(Before(before.kind)))
            return rule

        shared: _Rest = cache(again)

        def enter(before: Before) -> Node:
            iteration = self._write(tree.item, Before(before.kind, moved=False), shared)
            return pool.alt((rest(before), iteration))

        return cache(enter)

    def _consume(self, node: Node, before: Before, rest: _Rest) -> Node:
        """`node`, then `rest`, which may ask what the last character was."""
        pool = self._pool
        known = {after: rest(after) for after in self._after}
        here = rest(before) if node.nullable else None
        if len({*known.values(), *([here] if here else [])}) == 1:
            return pool.seq(node, known[self._after[0]])
        parts = [] if here is None else [here]
        by_rest: dict[Node, list[Before]] = {}
        for after, following in known.items():
            by_rest.setdefault(following, []).append(after)
        for following, places in by_rest.items():
            some = node
            if node.nullable or len(by_rest) > 1:
                ending = pool.seq(pool.anything, self._last(places))
                some = pool.all_of((node, ending))
            parts.append(pool.seq(some, following))
        return pool.alt(parts)

    def _last(self, places: list[Before]) -> Node:
        """A character after which one of these places may be."""
        if len(places) == len(self._after):
            return self._encode(ANY_CHAR)
        groups = [self._kinds.groups[place.kind - 1] for place in places]
        return self._encode(normalise(pair for group in groups for pair in group))

    def _anchor(self, anchor: Anchor, before: Before, rest: Node) -> Node:
        pool = self._pool
        kind = anchor.kind
        if kind == "start":
            return rest if before.kind == START else pool.never
        if kind == "line_start":
            begins = before.kind == START or self._kinds.behind(before, NEWLINE)
            return rest if begins else pool.never
        if kind == "end":
            return pool.all_of((rest, pool.epsilon))
        line_end = self._encode(NEWLINE)
        if kind == "last_line_end":
            return pool.all_of((rest, pool.optional(line_end)))
        if kind == "line_end":
            line_end = pool.seq(line_end, pool.anything)
            return pool.all_of((rest, pool.optional(line_end)))
        return pool.all_of((rest, self._word_place(anchor, before)))

    def _word_place(self, anchor: Anchor, before: Before) -> Node:
        r"""What may follow a ``\b`` or ``\B``."""
        pool = self._pool
        change = anchor.kind == "word"
        allowed: list[Ranges] = []
        at_end: list[bool] = []
        for word in word_sets(anchor):
            inside = self._kinds.behind(before, word)
            allowed.append(word if inside != change else invert(word))
            # Python's \B never matches in the empty text.
            at_end.append(inside == change and (change or before.kind != START))
        if anchor.charset == "either":
            ranges, ends = normalise(sum(allowed, ())), any(at_end)
        else:
            ranges, ends = intersect(allowed[0], allowed[-1]), all(at_end)
        following = pool.seq(self._encode(ranges), pool.anything)
        return pool.optional(following) if ends else following


def _repeated(pool: Pool, body: Node, low: int, high: int) -> Node:
    """Copies of `body`; counts of counts are one count where their numbers leave no gaps."""
    if body.kind is Kind.REPEAT and low >= 0 and body.high != 0:
        # n copies of x{a,b} are x{na,nb}: these ranges touch if they do for the fewest copies.
        gapless = body.high < 0 or max(low, 1) * (body.high - body.low) + 1 >= body.low
        if gapless and (low > 0 or body.low <= 1):
            most = -1 if -1 in (high, body.high) else high * body.high
            return pool.repeat(body.head, low * body.low, most)
    return pool.repeat(body, low, high)


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
