"""Strings and numbers, from the facts about them."""

from __future__ import annotations

from .bounds import Bounds
from .errors import GrammarError, SchemaNotSupported
from .expr import Pool
from .formats import format_node, not_format_node
from .json_facts import Facts, Text
from .json_multiples import (
    check_multiple,
    decimal_multiple_node,
    is_rounded,
    multiple_node,
)
from .json_numbers import broken_number, integer_node, loose_integer_node, number_node
from .json_quotients import quotient_node
from .json_text import any_json_char, json_chars, quoted, string_literal
from .node import Kind, Node
from .regex import regex_node
from .utf8 import ANY_CHAR


def numeric_node(pool: Pool, facts: Facts, *, loose: bool, decimal: bool) -> Node:
    """Numbers that satisfy all numeric facts.

    Args:
        pool: Where to build.
        facts: What is known; integers, other numbers or both are among its types.
        loose: Whether a whole number may be spelled ``1.0``, ``-0`` or ``1e+20`` too.
        decimal: Whether multiples are those of decimals, also where doubles do not divide.
    """
    for multiple in facts.multiples:
        check_multiple(multiple)
    if not decimal and any(multiple.holds and is_rounded(multiple) for multiple in facts.multiples):
        return quotient_node(pool, facts, loose=loose)
    spans = _spans(facts)
    if not spans:
        return pool.never
    if "fraction" not in facts.types:
        whole = loose_integer_node if loose else integer_node
        parts = [pool.alt([whole(pool, span) for span in spans])]
    else:
        parts = [pool.alt([number_node(pool, span) for span in spans])]
        if "integer" not in facts.types:
            parts.append(broken_number(pool))
    write = decimal_multiple_node if decimal else multiple_node
    parts += [write(pool, multiple) for multiple in facts.multiples]
    return pool.all_of(parts)


def _spans(facts: Facts) -> list[Bounds]:
    """The intervals of numbers between the excluded ones."""
    spans = [facts.bounds]
    numbers = {value for value in facts.excluded if type(value) in (int, float)}
    for number in sorted(numbers):
        last = spans.pop()
        spans.append(last.narrow(Bounds.below(number, is_open=True)))
        spans.append(last.narrow(Bounds.above(number, is_open=True)))
    return [span for span in spans if not span.empty]


def string_node(pool: Pool, facts: Facts, *, strict: bool) -> Node:
    """A quoted string that satisfies all facts about strings.

    Args:
        pool: Where to build.
        facts: What is known.
        strict: How to read formats, see `format_node`.
    """
    parts = _text_parts(pool, facts, strict=strict)
    low, high = facts.length
    if not parts:
        return quoted(pool, pool.repeat(any_json_char(pool), low, high))
    return quoted(pool, _one_spelling(pool, parts, low, high))


def name_node(pool: Pool, facts: Facts, *, strict: bool) -> Node:
    """The inside of a string that satisfies all facts, spelled in one way only."""
    return _one_spelling(pool, _text_parts(pool, facts, strict=strict), *facts.length)


def _text_parts(pool: Pool, facts: Facts, *, strict: bool) -> list[Node]:
    parts: list[Node] = []
    for text in facts.texts:
        if text.keyword == "pattern":
            node: Node | None = pattern_node(pool, text)
        else:
            node = _format(pool, text, strict=strict)
        if node is not None:
            parts.append(node)
    words = [value for value in facts.excluded if isinstance(value, str)]
    if words:
        parts.append(pool.complement(pool.alt([string_literal(pool, word) for word in words])))
    return parts


def _one_spelling(pool: Pool, parts: list[Node], low: int, high: int) -> Node:
    if 0 <= high < low:
        return pool.never
    if low > 0 or high >= 0 or all(part.kind is Kind.NOT for part in parts):
        parts = [*parts, pool.repeat(json_chars(pool, ANY_CHAR), low, high)]
    return pool.all_of(parts)


def _format(pool: Pool, text: Text, *, strict: bool) -> Node | None:
    if not text.holds and not strict:
        raise SchemaNotSupported(
            f"the negation of format {text.value!r} cannot be enforced exactly",
            hint="Use a pattern, or formats='strict', which denies it in any reading",
            pointer=text.pointer,
        )
    try:
        if not text.holds:
            return not_format_node(pool, text.value, json_chars)
        return format_node(pool, text.value, json_chars, strict=strict)
    except GrammarError as error:
        raise SchemaNotSupported(error.message, hint=error.hint, pointer=text.pointer) from None


def pattern_node(pool: Pool, text: Text) -> Node:
    """The inside of a JSON string with a match of an ECMA-262 pattern somewhere, or with none."""
    known = pool.memo.get(("pattern", text.value, text.holds))
    if known is not None:
        return known
    try:
        node = regex_node(pool, text.value, encode=json_chars, search=True, widest=not text.holds)
    except GrammarError as error:
        where = "" if error.position is None else f" (position {error.position} of the pattern)"
        raise SchemaNotSupported(
            f"pattern {text.value!r} cannot be enforced: {error.message}{where}",
            hint=error.hint,
            pointer=text.pointer,
        ) from None
    node = node if text.holds else pool.complement(node)
    pool.memo["pattern", text.value, text.holds] = node
    return node
