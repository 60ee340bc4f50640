"""Whether the branches of a `oneOf` exclude each other, so that it may be read as `anyOf`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from .json_keywords import TYPES, allowed_types
from .json_refs import Document, Place, spelling


@dataclass(slots=True)
class _Summary:
    """What every value of a subschema has: one of these types, one of these values, these tags."""

    types: frozenset[str] = TYPES
    values: frozenset[str] | None = None
    tags: dict[str, frozenset[str]] = field(default_factory=dict)


def exclusive(document: Document, options: list[Place]) -> bool:
    """Whether no value can satisfy two of the subschemas, by type, enum, or required tag."""
    summaries = [_summarise(document, option) for option in options]
    return all(_apart(left, right) for left, right in combinations(summaries, 2))


def _apart(left: _Summary, right: _Summary) -> bool:
    shared = left.types & right.types
    if not shared:
        return True
    if left.values is not None and right.values is not None and not left.values & right.values:
        return True
    if shared != {"object"}:
        return False
    return any(
        not values & right.tags[name] for name, values in left.tags.items() if name in right.tags
    )


def _summarise(document: Document, start: Place) -> _Summary:
    summary = _Summary()
    required: set[str] = set()
    properties: list[tuple[str, Place]] = []
    todo, seen = [start], {start}
    while todo:
        place = todo.pop()
        schema = document.at(place)
        if schema is False:
            summary.types = frozenset()
        if not isinstance(schema, dict):
            continue
        below = []
        if "$ref" in schema:
            below.append(document.resolve(place, schema["$ref"]))
        if "$ref" not in schema or document.siblings:
            summary.types &= allowed_types([schema])
            values = _values(schema)
            if values is not None:
                summary.values = values if summary.values is None else summary.values & values
            wanted = schema.get("required", ())
            required.update(wanted if isinstance(wanted, list) else ())
            properties += [(n, place.child("properties", n)) for n in schema.get("properties", {})]
            below += [place.child("allOf", i) for i in range(len(schema.get("allOf", ())))]
        todo += [found for found in below if found not in seen]
        seen.update(below)
    if summary.values is not None:
        summary.types &= frozenset(_type_of(json.loads(value)) for value in summary.values)
    for name, place in properties:
        schema = document.at(place)
        values = _values(schema) if isinstance(schema, dict) else None
        if name in required and values is not None:
            summary.tags[name] = summary.tags.get(name, values) & values
    return summary


def _values(schema: dict[str, Any]) -> frozenset[str] | None:
    if "const" in schema:
        return frozenset({spelling(schema["const"])})
    if "enum" in schema:
        return frozenset(spelling(value) for value in schema["enum"])
    return None


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return {float: "number", str: "string", list: "array", dict: "object"}[type(value)]
