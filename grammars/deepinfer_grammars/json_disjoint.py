"""Whether two subschemas plainly exclude each other, so that `oneOf` need not deny one of them.

A quick look at types, listed values, required properties and closed objects; where it cannot tell,
the compiler denies the other branches in full.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .bounds import Bounds
from .errors import GrammarError
from .json_facts import TYPES, spelling, type_of
from .json_keywords import bounds_of, listed_values, types_of
from .json_refs import Document, Place

_DEEPEST = 4


@dataclass(slots=True)
class _Summary:
    """What every value of a subschema has."""

    types: frozenset[str] = TYPES
    values: frozenset[str] | None = None
    bounds: Bounds = field(default_factory=Bounds)
    required: set[str] = field(default_factory=set)
    properties: dict[str, list[Place]] = field(default_factory=dict)
    only: frozenset[str] | None = None  # the only property names, if the object is closed
    most: int | None = None  # the most properties
    choices: list[list[Place]] = field(default_factory=list)  # one place of each list holds


def apart(
    document: Document,
    left: Place,
    right: Place,
    depth: int = 0,
    *,
    types: frozenset[str] = TYPES,
    required: frozenset[str] = frozenset(),
) -> bool:
    """Whether it is plain that no value can satisfy both subschemas.

    Args:
        document: Where they are.
        left: One of them.
        right: The other.
        depth: How far down in the value they stand.
        types: What is known of the type of the value.
        required: What is known of the properties that it has, if it is an object.
    """
    if left == right:
        return False
    one, two = _summarise(document, left), _summarise(document, right)
    shared = one.types & two.types & types
    if not shared:
        return True
    if one.values is not None and two.values is not None and not one.values & two.values:
        return True
    if shared <= {"integer", "fraction"}:
        return one.bounds.narrow(two.bounds).empty
    if shared != {"object"}:
        return _choices_apart(document, left, right, one, two, depth)
    for here, there in ((one, two), (two, one)):
        present = here.required | required
        if there.only is not None and present - there.only:
            return True
        if there.most is not None and len(present) > there.most:
            return True
    if _choices_apart(document, left, right, one, two, depth):
        return True
    return depth < _DEEPEST and any(
        apart(document, mine, other, depth + 1)
        for name in (one.required & two.required) | required
        for mine in one.properties.get(name, ())
        for other in two.properties.get(name, ())
    )


def _choices_apart(
    document: Document, left: Place, right: Place, one: _Summary, two: _Summary, depth: int
) -> bool:
    """Whether every option of a choice on one side excludes the other side."""
    return depth < _DEEPEST and any(
        all(apart(document, place, other, depth + 1) for place in places)
        for choices, other in ((one.choices, right), (two.choices, left))
        for places in choices
    )


def _summarise(document: Document, start: Place) -> _Summary:
    """Follow references and `allOf` only; everything else can but narrow the values further."""
    known = document.summaries.get(start)
    if isinstance(known, _Summary):
        return known
    summary = _Summary()
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
            try:
                below.append(document.resolve(place, "$ref", ()))
            except GrammarError:
                continue  # it is reported where the reference is used
        if "$ref" not in schema or document.siblings(place):
            _note(summary, place, schema)
            below += [place.child("allOf", i) for i in range(len(schema.get("allOf", ())))]
        todo += [found for found in below if found not in seen]
        seen.update(below)
    if summary.values is not None:
        summary.types &= frozenset(type_of(json.loads(value)) for value in summary.values)
    document.summaries[start] = summary
    return summary


def _note(summary: _Summary, place: Place, schema: dict[str, Any]) -> None:
    if "type" in schema:
        summary.types &= types_of(schema["type"])
    listed = listed_values(schema)
    if listed is not None:
        values = frozenset(map(spelling, listed))
        summary.values = values if summary.values is None else summary.values & values
    summary.bounds = summary.bounds.narrow(bounds_of(schema, place))
    wanted = schema.get("required", ())
    summary.required.update(wanted if isinstance(wanted, list) else ())
    for name in schema.get("properties", {}):
        summary.properties.setdefault(name, []).append(place.child("properties", name))
    if "maxProperties" in schema:
        most = int(schema["maxProperties"])
        summary.most = most if summary.most is None else min(summary.most, most)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            count = len(schema[keyword])
            summary.choices.append([place.child(keyword, index) for index in range(count)])
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        names = frozenset(schema.get("properties", ()))
        summary.only = names if summary.only is None else summary.only & names
