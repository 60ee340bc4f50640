"""What the keywords of a schema that holds say about a value, as facts."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .bounds import Bounds, number_value
from .digit_strings import INT_DIGITS
from .errors import InvalidConstraint
from .json_facts import (
    TYPES,
    Claim,
    Contains,
    Facts,
    Items,
    Members,
    Multiple,
    Scopes,
    Text,
    Unevaluated,
    within,
)
from .json_refs import Place

_MEMBER_KEYWORDS = (
    "properties", "patternProperties", "additionalProperties", "propertyNames",
)  # fmt: skip
_MOST_COUNT = 1 << 40  # counts above this are as good as unbounded


def assert_values(
    facts: Facts,
    place: Place,
    schema: dict[str, Any],
    entered: tuple[str, ...],
    scopes: Scopes,
    outer: Scopes,
    *,
    formats: bool,
) -> None:
    """Note everything that `schema` says without a choice.

    Args:
        facts: Where to note it.
        place: Where the schema stands.
        schema: The schema; it holds.
        entered: The dynamic scope inside it.
        scopes: Who wants to know what the schema evaluates, itself included if it asks.
        outer: The same without the schema itself.
        formats: Whether `format` is an assertion.
    """
    if "type" in schema:
        facts.types &= types_of(schema["type"])
    facts.bounds = facts.bounds.narrow(bounds_of(schema, place))
    if "multipleOf" in schema:
        facts.multiples += (multiple_of(schema, place),)
    facts.length = within(facts.length, *_span(schema, "minLength", "maxLength"))
    facts.size = within(facts.size, *_span(schema, "minItems", "maxItems"))
    span = _span(schema, "minProperties", "maxProperties")
    if span != (0, -1):
        facts.count = within(facts.count, *span)
        facts.count_pointer = f"{place.pointer}/minProperties"
    if "pattern" in schema:
        facts.texts += (Text("pattern", schema["pattern"], True, f"{place.pointer}/pattern"),)
    if formats and "format" in schema:
        facts.texts += (Text("format", schema["format"], True, f"{place.pointer}/format"),)
    if schema.get("uniqueItems") is True:
        facts.unique = f"{place.pointer}/uniqueItems"
    wanted = schema.get("required")
    if isinstance(wanted, list):
        facts.required |= frozenset(wanted)
    if any(keyword in schema for keyword in _MEMBER_KEYWORDS):
        facts.members += (Members(place, schema, entered, scopes),)
    items = items_of(place, schema, entered, scopes)
    if items is not None:
        facts.items += (items,)
    if "contains" in schema:
        facts.contains += (contains_of(place, schema, entered, scopes),)
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        # One that lets everything in still evaluates it for the schemas around.
        if keyword in schema and (outer or schema[keyword] not in (True, {})):
            rule = Unevaluated(place, Claim(place.child(keyword), True, entered), outer)
            if keyword == "unevaluatedItems":
                facts.open_items += (rule,)
            else:
                facts.open_members += (rule,)


def listed_values(schema: dict[str, Any]) -> list[Any] | None:
    """The values that `const` or `enum` lists, before anything else is asked of them."""
    values: list[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    return values


def types_of(declared: str | Iterable[str]) -> frozenset[str]:
    """The types that `type` allows, with `number` taken apart."""
    names = {declared} if isinstance(declared, str) else set(declared)
    if "number" in names:
        names |= {"integer", "fraction"}
    return frozenset(names) & TYPES


def exact(value: float | int, place: Place) -> Fraction:
    """A JSON number as the decimal it was written as."""
    if value in (float("inf"), float("-inf")) or value != value:
        raise InvalidConstraint(f"{value} is not a JSON number", pointer=place.pointer)
    if abs(value) >= 10**INT_DIGITS:
        raise InvalidConstraint(
            f"a number has more than {INT_DIGITS} digits",
            hint="Leave it out",
            pointer=place.pointer,
        )
    return number_value(value)


def multiple_of(schema: dict[str, Any], place: Place, *, holds: bool = True) -> Multiple:
    """What `multipleOf` says, or its negation."""
    number = schema["multipleOf"]
    divided = isinstance(number, float)
    return Multiple(exact(number, place), holds, divided, f"{place.pointer}/multipleOf")


def bounds_of(schema: dict[str, Any], place: Place) -> Bounds:
    """The interval that the numeric keywords of a schema allow."""
    bounds = Bounds()
    for keyword, opposite in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        value, strict = schema.get(keyword), schema.get(opposite)
        ends: list[tuple[Any, bool]] = []
        if value is not None:
            ends.append((value, strict is True))  # draft 4 spells the open end as a boolean
        if strict is not None and not isinstance(strict, bool):
            ends.append((strict, True))
        for end, is_open in ends:
            exact(end, place)
            side = Bounds.above if keyword == "minimum" else Bounds.below
            bounds = bounds.narrow(side(end, is_open=is_open))
    return bounds


def items_of(
    place: Place, schema: dict[str, Any], entered: tuple[str, ...], scopes: Scopes
) -> Items | None:
    """What `prefixItems`, `items` and `additionalItems` say, in the way of the schema's draft."""
    items = schema.get("items")
    if isinstance(items, list):  # before draft 2020-12
        leading = [place.child("items", index) for index in range(len(items))]
        after = place.child("additionalItems") if "additionalItems" in schema else None
    else:
        leading = [place.child("prefixItems", i) for i in range(len(schema.get("prefixItems", ())))]
        after = place.child("items") if items is not None else None
    if not leading and after is None:
        return None
    return Items(
        tuple(Claim(found, True, entered) for found in leading),
        None if after is None else Claim(after, True, entered),
        scopes,
        closes=after is not None,
    )


def contains_of(
    place: Place, schema: dict[str, Any], entered: tuple[str, ...], scopes: Scopes
) -> Contains:
    """What `contains` says, with its bounds."""
    claim = Claim(place.child("contains"), True, entered)
    low, high = int(schema.get("minContains", 1)), int(schema.get("maxContains", -1))
    return Contains(claim, low, high, f"{place.pointer}/contains", 0, scopes)


def _span(schema: dict[str, Any], least: str, most: str) -> tuple[int, int]:
    low, high = int(schema.get(least, 0)), int(schema.get(most, -1))
    return low, -1 if high > _MOST_COUNT else high
