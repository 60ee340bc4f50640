"""Arrays and objects of a JSON Schema branch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import SchemaNotSupported
from .json_refs import Place
from .json_scalars import pattern_node
from .json_text import json_chars, quoted, string_literal
from .node import Node
from .utf8 import ANY_CHAR

if TYPE_CHECKING:
    from .json_schema import Conjunction, SchemaCompiler

Schemas = Sequence[tuple[Place, dict[str, Any]]]

_MOST_NAME_CASES = 256


def _limits(schemas: Schemas, least: str, most: str) -> tuple[int, int]:
    low = max([int(schema.get(least, 0)) for _, schema in schemas], default=0)
    highs = [int(schema[most]) for _, schema in schemas if most in schema]
    return low, min(highs) if highs else -1


def _less(high: int) -> int:
    return high - 1 if high > 0 else high


# -- arrays -----------------------------------------------------------------------------------


def array_node(compiler: SchemaCompiler, schemas: Schemas) -> Node:
    """An array whose items satisfy all item keywords, within all bounds on their number."""
    pool = compiler.pool
    low, high = _limits(schemas, "minItems", "maxItems")
    if 0 <= high < low:
        return pool.never
    comma = compiler.layout.mark(pool, ",")
    fixed = max((len(_leading(place, schema)[0]) for place, schema in schemas), default=0)
    fixed = fixed if high < 0 else min(fixed, high)
    free = pool.seq(comma, compiler.rule(_item(schemas, fixed)))
    # What may follow the first item, built from the end: free items, then the leading ones.
    lead = max(fixed, 1)
    content = pool.repeat(free, max(low - lead, 0), high - lead if high >= 0 else -1)
    for index in reversed(range(1, fixed)):
        step = pool.seq(comma, compiler.rule(_item(schemas, index)), content)
        content = step if index < low else pool.optional(step)
    first = compiler.rule(_item(schemas, 0)) if high != 0 else pool.never
    content = pool.seq(first, content)
    return compiler.layout.enclose(pool, "[", content, "]", empty=low == 0)


def _leading(place: Place, schema: dict[str, Any]) -> tuple[list[Place], Place | None]:
    """The places of the leading items, and of the items after them."""
    items = schema.get("items")
    if isinstance(items, list):  # before draft 2020-12
        leading = [place.child("items", index) for index in range(len(items))]
        return leading, place.child("additionalItems") if "additionalItems" in schema else None
    leading = [place.child("prefixItems", i) for i in range(len(schema.get("prefixItems", ())))]
    return leading, place.child("items") if items is not None else None


def _item(schemas: Schemas, index: int) -> Conjunction:
    places = set()
    for place, schema in schemas:
        leading, after = _leading(place, schema)
        if index < len(leading):
            places.add(leading[index])
        elif after is not None:
            places.add(after)
    return frozenset(places)


# -- objects ----------------------------------------------------------------------------------


def object_node(compiler: SchemaCompiler, schemas: Schemas) -> Node:
    """An object: the named properties in the schema's order, then further ones."""
    names: dict[str, None] = {}
    required: set[str] = set()
    for _, schema in schemas:
        names.update(dict.fromkeys(schema.get("properties", ())))
        wanted = schema.get("required", ())
        required.update(wanted if isinstance(wanted, list) else ())
    names.update(dict.fromkeys(sorted(required - names.keys())))
    named = {
        name: value for name in names if (value := _value_of(compiler, schemas, name)) is not None
    }
    if required - named.keys():
        return compiler.pool.never
    extra = _extra_member(compiler, schemas, list(names))
    low, high = _limits(schemas, "minProperties", "maxProperties")
    if low > len(required) + 1 and extra is not compiler.pool.never:
        place = next(place for place, schema in schemas if schema.get("minProperties") == low)
        raise SchemaNotSupported(
            f"minProperties: {low} cannot be enforced where property names are free: two of them "
            "might be equal",
            hint="Name the properties, or set additionalProperties to false",
            pointer=f"{place.pointer}/minProperties",
        )
    content = _members(compiler, named, required, extra, low, high)
    return compiler.layout.enclose(
        compiler.pool, "{", content, "}", empty=not required and low == 0
    )


def _members(
    compiler: SchemaCompiler,
    named: dict[str, Conjunction],
    required: set[str],
    extra: Node,
    low: int,
    high: int,
) -> Node:
    """At least one member.

    The table is built from the last name back, one row per name. Column c holds what may follow
    when c members are there; where no bound asks for more, only none and some are told apart.
    """
    pool = compiler.pool
    comma = compiler.layout.mark(pool, ",")
    colon = compiler.layout.mark(pool, ":")
    counted = high >= 0 or low > len(required)
    columns = min(len(named), max(low, high) + 1 if counted else 1) + 1
    low = low if counted else 0
    row: list[Node] = []
    for count in range(columns):
        more = pool.seq(comma, extra)
        least, most = max(low - count, 0), high - count if high >= 0 else -1
        if 0 <= high < count:
            row.append(pool.never)
        elif count:
            row.append(pool.repeat(more, least, most))
        elif high == 0:
            row.append(pool.never)
        else:
            row.append(pool.seq(extra, pool.repeat(more, max(least - 1, 0), _less(most))))
    for name, value in reversed(named.items()):
        member = pool.seq(compiler.layout.key(pool, name), colon, compiler.rule(value))
        after = row
        row = []
        for count in range(columns):
            step = pool.seq(member, after[min(count + 1, columns - 1)])
            if count:
                step = pool.seq(comma, step)
            if 0 <= high <= count:
                step = pool.never
            row.append(step if name in required else pool.alt((step, after[count])))
    return row[0]


def _value_of(compiler: SchemaCompiler, schemas: Schemas, name: str) -> Conjunction | None:
    """What the value of property `name` must satisfy; None if it may not be there."""
    places: set[Place] = set()
    for place, schema in schemas:
        matched = False
        if name in schema.get("properties", {}):
            places.add(place.child("properties", name))
            matched = True
        for pattern in schema.get("patternProperties", {}):
            where = place.child("patternProperties", pattern)
            pattern_node(compiler.pool, pattern, where.pointer)  # within the subset of `re` too
            if re.search(pattern, name) is not None:
                places.add(where)
                matched = True
        if not matched and "additionalProperties" in schema:
            if schema["additionalProperties"] is False:
                return None
            places.add(place.child("additionalProperties"))
        if "propertyNames" in schema and not compiler.document.is_valid(
            place.child("propertyNames"), name
        ):
            return None
    return frozenset(places)


def _extra_member(compiler: SchemaCompiler, schemas: Schemas, names: list[str]) -> Node:
    """A member that no `properties` names, one alternative per set of patterns its name matches."""
    pool = compiler.pool
    if not compiler.options.extra_properties and not any(
        keyword in schema
        for _, schema in schemas
        for keyword in ("additionalProperties", "patternProperties")
    ):
        return pool.never
    parts = [pool.repeat(json_chars(pool, ANY_CHAR), 0, -1)]
    if names:
        parts.append(pool.complement(pool.alt([string_literal(pool, name) for name in names])))
    for place, schema in schemas:
        if "propertyNames" in schema:
            parts.append(compiler.names(place.child("propertyNames")))
    cases: list[tuple[list[Node], Conjunction]] = [(parts, frozenset())]
    for place, schema in schemas:
        cases = [
            ([*names_so_far, *name_parts], places | more)
            for names_so_far, places in cases
            for name_parts, more in _name_cases(compiler, place, schema)
        ]
        if len(cases) > _MOST_NAME_CASES:
            raise SchemaNotSupported(
                "too many patternProperties to tell apart which of them a name matches",
                hint="Join patterns that share a schema with |",
                pointer=f"{place.pointer}/patternProperties",
            )
    colon = compiler.layout.mark(pool, ":")
    return pool.alt(
        [
            pool.seq(quoted(pool, pool.all_of(name_parts)), colon, compiler.rule(places))
            for name_parts, places in cases
        ]
    )


def _name_cases(
    compiler: SchemaCompiler, place: Place, schema: dict[str, Any]
) -> list[tuple[list[Node], Conjunction]]:
    """For a name outside `properties`: what the name matches, and what its value must satisfy."""
    pool = compiler.pool
    cases: list[tuple[list[Node], Conjunction]] = [([], frozenset())]
    patterns = schema.get("patternProperties", {})
    if len(patterns) > _MOST_NAME_CASES.bit_length():
        raise SchemaNotSupported(
            f"{len(patterns)} patternProperties cannot be told apart",
            hint="Join patterns that share a schema with |",
            pointer=f"{place.pointer}/patternProperties",
        )
    for pattern in patterns:
        where = place.child("patternProperties", pattern)
        node = pattern_node(pool, pattern, where.pointer)
        cases = [
            case
            for parts, places in cases
            for case in (
                ([*parts, node], places | {where}),
                ([*parts, pool.complement(node)], places),
            )
        ]
    *matched, (unmatched, _) = cases
    silent = compiler.options.extra_properties or not patterns
    additional = schema.get("additionalProperties", silent)
    if additional is False:
        return matched
    value = frozenset({place.child("additionalProperties")} if additional is not True else ())
    return [*matched, (unmatched, value)]
