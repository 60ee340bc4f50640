"""Whether a JSON Schema is well-formed, before anything is compiled.

The usual keywords are checked here, in a small fraction of the time that a meta-schema takes. Only
when something looks wrong does the jsonschema library judge, and word the message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidConstraint

Check = Callable[[Any], bool]

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_text, value)) and set(value) <= _TYPES
    return isinstance(value, str) and value in _TYPES


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_CHECKS: dict[str, Check] = {
    "$ref": _is_text,
    "$dynamicRef": _is_text,
    "type": _is_type,
    "enum": _is_list,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": _is_text,
    "format": _is_text,
    "uniqueItems": _is_flag,
    "required": _is_names,
    "items": _is_schema,
    "$recursiveRef": _is_text,
    "$id": _is_text,
    "$schema": _is_text,
    "$vocabulary": lambda value: isinstance(value, dict) and all(map(_is_flag, value.values())),
    "dependencies": lambda value: isinstance(value, dict)
    and all(_is_schema(below) or _is_names(below) for below in value.values()),
    "dependentRequired": lambda value: isinstance(value, dict)
    and all(map(_is_names, value.values())),
    **dict.fromkeys(
        (
            "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
            "minContains", "maxContains",
        ),
        _is_count,
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _is_schemas),
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _is_named
    ),
    **dict.fromkeys(
        (
            "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else",
            "propertyNames", "unevaluatedItems", "unevaluatedProperties",
        ),
        _is_schema,
    ),
}  # fmt: skip


def check_schema(root: Any, subschemas: Mapping[str, Any]) -> None:
    """Refuse a malformed schema.

    Args:
        root: The whole schema.
        subschemas: Every subschema in it.

    Raises:
        InvalidConstraint: With the pointer of the keyword.
    """
    if all(_looks_right(schema) for schema in subschemas.values()):
        return
    from jsonschema import exceptions, validators

    cls = validators.validator_for(root, default=validators.Draft202012Validator)
    try:
        cls.check_schema(root)
    except exceptions.SchemaError as error:
        pointer = "#" + "".join(f"/{step}" for step in error.absolute_path)
        raise InvalidConstraint(
            f"not a valid JSON Schema: {error.message}", pointer=pointer
        ) from None


def _looks_right(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    for keyword, value in schema.items():
        check = _CHECKS.get(keyword)
        if check is not None and not check(value):
            return False
    return True
