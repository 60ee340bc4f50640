"""Strings and numbers of a JSON Schema branch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .errors import GrammarError, SchemaNotSupported
from .expr import Pool
from .formats import format_node
from .json_numbers import Bounds
from .json_refs import Place
from .json_text import any_json_char, json_chars, quoted
from .node import Node
from .regex import regex_node
from .utf8 import ANY_CHAR

Schemas = Sequence[tuple[Place, dict[str, Any]]]


def exact(value: float | int) -> Fraction:
    """A JSON number as the decimal it was written as."""
    return Fraction(Decimal(json.dumps(value)))


def bounds_of(schemas: Schemas) -> Bounds:
    """The interval that all numeric keywords together allow."""
    bounds = Bounds()
    for _, schema in schemas:
        for keyword, opposite in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            value, strict = schema.get(keyword), schema.get(opposite)
            ends: list[tuple[Any, bool]] = []
            if value is not None:
                ends.append((value, strict is True))  # draft 4 spells the open end as a boolean
            if strict is not None and not isinstance(strict, bool):
                ends.append((strict, True))
            for end, is_open in ends:
                limit = exact(end)
                bounds = bounds.narrow(
                    Bounds(low=limit, low_open=is_open)
                    if keyword == "minimum"
                    else Bounds(high=limit, high_open=is_open)
                )
    return bounds


def string_node(pool: Pool, schemas: Schemas, *, assert_formats: bool) -> Node:
    """A quoted string that satisfies all string keywords."""
    parts, low, high = _string_parts(pool, schemas, assert_formats=assert_formats)
    if not parts and not 0 <= high < low:
        return quoted(pool, pool.repeat(any_json_char(pool), low, high))
    return quoted(pool, _one_spelling(pool, parts, low, high))


def name_node(pool: Pool, schemas: Schemas, *, assert_formats: bool) -> Node:
    """The inside of a string that satisfies all string keywords, spelled in one way only."""
    return _one_spelling(pool, *_string_parts(pool, schemas, assert_formats=assert_formats))


def _string_parts(
    pool: Pool, schemas: Schemas, *, assert_formats: bool
) -> tuple[list[Node], int, int]:
    low, high = 0, -1
    parts: list[Node] = []
    for place, schema in schemas:
        low = max(low, int(schema.get("minLength", 0)))
        most = schema.get("maxLength")
        if most is not None:
            high = int(most) if high < 0 else min(high, int(most))
        if "pattern" in schema:
            parts.append(pattern_node(pool, schema["pattern"], f"{place.pointer}/pattern"))
        if assert_formats and "format" in schema:
            parts += _format_parts(pool, schema["format"], f"{place.pointer}/format")
    return parts, low, high


def _format_parts(pool: Pool, name: str, pointer: str) -> list[Node]:
    try:
        node = format_node(pool, name, json_chars)
    except GrammarError as error:
        raise SchemaNotSupported(error.message, hint=error.hint, pointer=pointer) from None
    return [] if node is None else [node]


def _one_spelling(pool: Pool, parts: list[Node], low: int, high: int) -> Node:
    if 0 <= high < low:
        return pool.never
    if low > 0 or high >= 0 or not parts:
        parts = [*parts, pool.repeat(json_chars(pool, ANY_CHAR), low, high)]
    return pool.all_of(parts)


def pattern_node(pool: Pool, pattern: str, pointer: str) -> Node:
    """The inside of a JSON string that contains a match of an ECMA-262 pattern."""
    try:
        return regex_node(pool, pattern, encode=json_chars, search=True)
    except GrammarError as error:
        where = "" if error.position is None else f" (position {error.position} of the pattern)"
        raise SchemaNotSupported(
            f"pattern {pattern!r} cannot be enforced: {error.message}{where}",
            hint=error.hint,
            pointer=pointer,
        ) from None
