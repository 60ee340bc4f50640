"""The lexical parts of JSON as expressions: characters inside strings, literals, white space.

RFC 8259. Two encodings of a character inside a string exist side by side: `json_chars` writes each
character in exactly one way (as `json.dumps(..., ensure_ascii=False)` does), which is what
patterns, complements and property names need; `any_json_char` also takes the optional escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from .expr import Pool
from .json_members import MemberTable
from .json_numbers import value_node
from .node import Node
from .utf8 import ANY_CHAR, char_set, intersect, invert

Whitespace = Literal["compact", "spaced", "pretty", "flexible"]

_SHORT_ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
_PLAIN = invert([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])


def json_chars(pool: Pool, ranges: Iterable[tuple[int, int]]) -> Node:
    """One character out of `ranges` as in a JSON string, escaped only where it must be."""
    wanted = tuple(ranges)
    known = pool.memo.get(("json_chars", wanted))
    if known is not None:
        return known
    parts = [char_set(pool, intersect(wanted, _PLAIN))]
    for code in [*range(0x20), 0x22, 0x5C]:
        if any(first <= code <= last for first, last in wanted):
            short = _SHORT_ESCAPES.get(code)
            parts.append(pool.literal(f"\\{short}" if short else f"\\u{code:04x}"))
    known = pool.memo["json_chars", wanted] = pool.alt(parts)
    return known


def any_json_char(pool: Pool) -> Node:
    """Any one character in any spelling; surrogate escapes only in proper pairs."""
    known = pool.memo.get(("any_json_char",))
    if known is not None:
        return known
    hex_digit = _hex(pool, "0123456789abcdef")
    low_three = pool.repeat(hex_digit, 2, 2)
    plain_unit = pool.alt(
        (
            pool.seq(_hex(pool, "0123456789abcef"), hex_digit, low_three),
            pool.seq(_hex(pool, "d"), _hex(pool, "01234567"), low_three),
        )
    )
    pair = pool.seq(
        _hex(pool, "d"), _hex(pool, "89ab"), low_three, pool.literal("\\u"),
        _hex(pool, "d"), _hex(pool, "cdef"), low_three,
    )  # fmt: skip
    escape = pool.alt(
        (
            pool.byte_set(sum(1 << b for b in b'"\\/bfnrt')),
            pool.seq(pool.literal("u"), pool.alt((plain_unit, pair))),
        )
    )
    known = pool.alt((json_chars(pool, ANY_CHAR), pool.seq(pool.literal("\\"), escape)))
    pool.memo["any_json_char",] = known
    return known


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _hex(pool: Pool, digits: str) -> Node:
    return pool.byte_set(sum({1 << ord(c) for d in digits for c in (d, d.upper())}))


def string_literal(pool: Pool, text: str) -> Node:
    """The inside of the JSON string for `text`, in its one spelling."""
    return pool.literal(json.dumps(text, ensure_ascii=False)[1:-1])


def quoted(pool: Pool, body: Node) -> Node:
    """`body` between double quotes."""
    return pool.seq(pool.literal('"'), body, pool.literal('"'))


@dataclass(frozen=True, slots=True)
class Layout:
    """White space between the parts of a JSON text.

    Attributes:
        whitespace: ``"compact"`` none; ``"spaced"`` one blank after ``:`` and ``,`` (what
            `json.dumps` and most models write); ``"pretty"`` a line per item and member, indented
            by blanks (as `json.dumps` with an indent); ``"flexible"`` up to `max_whitespace`
            characters wherever JSON allows them between two parts.
        max_whitespace: Most white space characters in a row under ``"flexible"``, and most blanks
            at the beginning of a line under ``"pretty"``.
    """

    whitespace: Whitespace = "spaced"
    max_whitespace: int = 32

    def gap(self, pool: Pool) -> Node:
        """White space next to brackets that have something inside."""
        if self.whitespace == "pretty":
            return pool.seq(
                pool.literal("\n"), pool.repeat(pool.literal(" "), 0, self.max_whitespace)
            )
        if self.whitespace == "flexible":
            blank = pool.byte_set(sum(1 << b for b in b" \t\n\r"))
            return pool.repeat(blank, 0, self.max_whitespace)
        return pool.epsilon

    def mark(self, pool: Pool, sign: str) -> Node:
        """A ``:`` or ``,`` with the white space around it."""
        if self.whitespace == "flexible":
            return pool.seq(self.gap(pool), pool.literal(sign), self.gap(pool))
        if self.whitespace == "pretty" and sign == ",":
            return pool.seq(pool.literal(sign), self.gap(pool))
        return pool.literal(sign + ("" if self.whitespace == "compact" else " "))

    def values(
        self, pool: Pool, values: list[Any], *, loose: bool = False, shuffled: bool = False
    ) -> Node:
        """Any one of the JSON values; the scalars among them become one trie.

        Args:
            pool: Where to build.
            values: Parsed JSON.
            loose: Whether numbers may have more zeros behind the point than they need.
            shuffled: Whether properties may come in any order.
        """

        def node(value: Any) -> Node:
            if isinstance(value, dict):
                colon = self.mark(pool, ":")
                named = {
                    name: [(0, pool.seq(self.key(pool, name), colon, node(item)))]
                    for name, item in value.items()
                }
                table = MemberTable(
                    pool, self.mark(pool, ","), named, frozenset(named),
                    extra=pool.never, last=pool.never, after=pool.never, goal=0, span=(0, -1),
                )  # fmt: skip
                members = table.shuffled() if shuffled else table.ordered()
                return self.enclose(pool, "{", members, "}", empty=not named)
            if isinstance(value, list):
                items = [node(item) for item in value]
                comma = self.mark(pool, ",")
                listed = [part for item in items for part in (comma, item)][1:]
                content = pool.seq(*listed) if listed else pool.never
                return self.enclose(pool, "[", content, "]", empty=not items)
            exact = pool.literal(_dumps(value))
            if loose and type(value) in (int, float):
                return pool.alt((exact, value_node(pool, value)))
            return exact

        words = [_dumps(v) for v in values if not isinstance(v, (dict, list))]
        structured = (dict, list, int, float) if loose else (dict, list)
        others = [node(v) for v in values if type(v) in structured]
        return pool.alt([pool.words(words), *others])

    def key(self, pool: Pool, name: str) -> Node:
        """A property name in its one spelling, quoted."""
        return quoted(pool, string_literal(pool, name))

    def enclose(self, pool: Pool, left: str, content: Node, right: str, *, empty: bool) -> Node:
        """Brackets around `content` (at least one part), or also around nothing if `empty`."""
        gap = self.gap(pool)
        filled = pool.seq(pool.literal(left), gap, content, gap, pool.literal(right))
        if not empty:
            return filled
        inside = gap if self.whitespace == "flexible" else pool.epsilon
        return pool.alt((filled, pool.seq(pool.literal(left), inside, pool.literal(right))))
