"""What it takes that a schema does not hold: one of its keywords must fail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from .errors import SchemaNotSupported
from .formats import KNOWN_FORMATS
from .json_disjoint import apart
from .json_facts import TYPES, Claim, Contains, Facts, Items, Members, Text, Witness, within
from .json_keywords import bounds_of, contains_of, items_of, multiple_of, types_of
from .json_steps import Maker, Option, Pending, Step, absent, present


def denials(make: Maker, schema: dict[str, Any], *, assert_formats: bool) -> list[Option]:
    """The ways in which a value can fail the schema; none if every value satisfies it.

    Raises:
        SchemaNotSupported: Failing a keyword cannot be enforced.
    """
    options = [
        *_values(make, schema),
        *_numbers(make, schema),
        *_strings(make, schema, assert_formats=assert_formats),
        *_arrays(make, schema),
        *_objects(make, schema),
        *_applicators(make, schema),
    ]
    for keyword, kind in (("unevaluatedItems", "array"), ("unevaluatedProperties", "object")):
        if schema.get(keyword, True) not in (True, {}):
            options.append([_refusal(make, keyword, kind)])
    return options


def _refusal(make: Maker, keyword: str, kind: str) -> Step:
    """Refuse, but only where a value of this type is possible at all."""

    def step(facts: Facts) -> None:
        facts.only(kind)
        if facts.types:
            raise SchemaNotSupported(
                f"the negation of {keyword!r} cannot be enforced",
                hint="Say what is allowed instead",
                pointer=f"{make.place.pointer}/{keyword}",
            )

    return step


def _only(*types: str, **more: Any) -> Step:
    """These types only, with spans narrowed and tuples extended as `more` says."""

    def step(facts: Facts) -> None:
        facts.only(*types)
        for name, value in more.items():
            if name in ("length", "size", "count"):
                setattr(facts, name, within(getattr(facts, name), *value))
            elif name == "bounds":
                facts.bounds = facts.bounds.narrow(value)
            else:
                setattr(facts, name, (*getattr(facts, name), value))

    return step


def _values(make: Maker, schema: dict[str, Any]) -> Iterator[Option]:
    if "type" in schema:
        yield [_only(*(TYPES - types_of(schema["type"])))]
    listed = [("const", [schema["const"]])] if "const" in schema else []
    if "enum" in schema:
        listed.append(("enum", schema["enum"]))
    for keyword, values in listed:
        option: Option = []
        for index, value in enumerate(values):
            if isinstance(value, (list, dict)):
                where = make.place.child(keyword, index, "value")
                meaning = make.document.put(where, _meaning(value), make.place)
                option.append(Pending(Claim(meaning, False), make.above))
            else:
                option.append(_only(*TYPES, excluded=value))
        yield option


def _meaning(value: list[Any] | dict[str, Any]) -> dict[str, Any]:
    """The schema of just this array or object."""
    if isinstance(value, list):
        schema: dict[str, Any] = {"type": "array", "minItems": len(value), "maxItems": len(value)}
        return {**schema, "prefixItems": [{"const": item} for item in value]} if value else schema
    return {
        "type": "object",
        "properties": {name: {"const": item} for name, item in value.items()},
        "required": list(value),
        "maxProperties": len(value),
    }


def _numbers(make: Maker, schema: dict[str, Any]) -> Iterator[Option]:
    bounds = bounds_of(schema, make.place)
    if bounds.low is not None:
        yield [_only("integer", "fraction", bounds=bounds.before())]
    if bounds.high is not None:
        beyond = bounds.mirrored().before().mirrored()
        yield [_only("integer", "fraction", bounds=beyond)]
    if "multipleOf" in schema:
        failing = multiple_of(schema, make.place, holds=False)
        yield [_only("integer", "fraction", multiples=failing)]


def _strings(make: Maker, schema: dict[str, Any], *, assert_formats: bool) -> Iterator[Option]:
    yield from _counts(schema, "string", "length", "minLength", "maxLength")
    if "pattern" in schema:
        where = f"{make.place.pointer}/pattern"
        yield [_only("string", texts=Text("pattern", schema["pattern"], False, where))]
    if assert_formats and schema.get("format") in KNOWN_FORMATS:
        where = f"{make.place.pointer}/format"
        yield [_only("string", texts=Text("format", schema["format"], False, where))]


def _counts(
    schema: dict[str, Any], kind: str, name: str, least: str, most: str
) -> Iterator[Option]:
    if schema.get(least, 0) > 0:
        yield [_only(kind, **{name: (0, int(schema[least]) - 1)})]
    if most in schema:
        yield [_only(kind, **{name: (int(schema[most]) + 1, -1)})]


def _arrays(make: Maker, schema: dict[str, Any]) -> Iterator[Option]:
    yield from _counts(schema, "array", "size", "minItems", "maxItems")
    items = items_of(make.place, schema, make.entered, ())
    if items is not None:
        for index, claim in enumerate(items.leading):
            wrong = Items((None,) * index + (~claim,) if claim else (), None)
            yield [_only("array", size=(index + 1, -1), items=wrong)]
        if items.rest is not None:
            pointer = items.rest.place.pointer
            some = Contains(~items.rest, 1, -1, pointer, start=len(items.leading))
            yield [_only("array", contains=some)]
    if "contains" in schema:
        rule = contains_of(make.place, schema, make.entered, ())
        if rule.low > 0:
            yield [_only("array", contains=Contains(rule.claim, 0, rule.low - 1, rule.pointer))]
        if rule.high >= 0:
            yield [_only("array", contains=Contains(rule.claim, rule.high + 1, -1, rule.pointer))]
    if schema.get("uniqueItems") is True:
        yield [_refusal(make, "uniqueItems", "array")]


def _objects(make: Maker, schema: dict[str, Any]) -> Iterator[Option]:
    yield from _counts(schema, "object", "count", "minProperties", "maxProperties")
    wanted = schema.get("required")
    for name in wanted if isinstance(wanted, list) else ():
        yield [_only("object"), absent(name)]
    for name, below in schema.get("properties", {}).items():
        if below in (True, {}):
            continue
        wrong = ~make.claim("properties", name)
        yield [present(name), _only("object", named=(name, wrong))]
    for pattern, below in schema.get("patternProperties", {}).items():
        if below in (True, {}):
            continue
        claim = ~make.claim("patternProperties", pattern)
        some = Witness(claim.place.pointer, claim, pattern=pattern)
        yield [_only("object", witnesses=some)]
    if schema.get("additionalProperties", True) not in (True, {}):
        claim = ~make.claim("additionalProperties")
        beyond = Members(make.place, schema, make.entered, ())
        yield [_only("object", witnesses=Witness(claim.place.pointer, claim, beyond=beyond))]
    if "propertyNames" in schema:
        yield from _wrong_name(make, schema["propertyNames"])


def _wrong_name(make: Maker, names: Any) -> Iterator[Option]:
    """Some property has a name that `propertyNames` does not allow."""
    if names is False:
        yield [_only("object", count=(1, -1))]
        return
    barred = names.get("not") if isinstance(names, dict) and len(names) == 1 else None
    if isinstance(barred, dict) and len(barred) == 1 and barred.keys() <= {"enum", "const"}:
        listed = barred["enum"] if "enum" in barred else [barred["const"]]
        for name in listed:
            if isinstance(name, str):
                yield [present(name)]
        return
    claim = ~make.claim("propertyNames")
    yield [_only("object", witnesses=Witness(claim.place.pointer, name=claim))]


def _applicators(make: Maker, schema: dict[str, Any]) -> Iterator[Option]:
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            yield [make.reference(keyword, holds=False)]
    for index in range(len(schema.get("allOf", ()))):
        yield [make.denied("allOf", index)]
    if "anyOf" in schema:
        yield [make.denied("anyOf", index) for index in range(len(schema["anyOf"]))]
    if "oneOf" in schema:
        count = len(schema["oneOf"])
        yield [make.denied("oneOf", index) for index in range(count)]
        for i, j in combinations(range(count), 2):
            left, right = make.place.child("oneOf", i), make.place.child("oneOf", j)
            if not apart(make.document, left, right):
                yield [make.below("oneOf", i), make.below("oneOf", j)]
    if "not" in schema:
        yield [make.below("not")]
    if "if" in schema:
        if "then" in schema:
            yield [make.below("if"), make.denied("then")]
        if "else" in schema:
            yield [make.denied("if"), make.denied("else")]
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, then in schema.get(keyword, {}).items():
            if isinstance(then, list):
                for needed in then:
                    yield [present(name), absent(needed)]
            else:
                yield [present(name), make.denied(keyword, name)]
