"""What a schema is made from, checked: types, JSON Schemas as data or text, validators' errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as PydanticError

from .errors import ImpossibleSchema, InvalidSchema


def json_source(schema: Mapping[str, Any] | bool | str) -> dict[str, Any] | bool:
    """A JSON Schema, given as data or text, as data.

    Raises:
        InvalidSchema: It is not one.
    """
    if isinstance(schema, str):
        try:
            source = json.loads(schema)
        except json.JSONDecodeError as error:
            raise InvalidSchema(
                f"the JSON Schema is not JSON: {error.msg} at line {error.lineno}, "
                f"column {error.colno}",
                hint="Pass a dict, or text that json.loads can read",
            ) from None
    else:
        source = dict(schema) if isinstance(schema, Mapping) else schema
    if not isinstance(source, (dict, bool)):
        raise InvalidSchema(
            f"a JSON Schema is an object, true or false, not {type(source).__name__}",
            hint='For example {"type": "integer"}; for a Python type use Schema(type)',
        )
    return source


def choices(options: Iterable[object]) -> dict[str, Any]:
    """The options of a choice by how they are written.

    Raises:
        InvalidSchema: One is there twice, or is no text, number or truth value.
        ImpossibleSchema: There are none.
    """
    by_text: dict[str, Any] = {}
    for option in options:
        if not isinstance(option, (str, int, float)):
            raise InvalidSchema(
                f"a choice is made of texts, numbers, True and False, not {option!r}",
                hint='For example Schema.choice("yes", "no")',
            )
        text = option if isinstance(option, str) else json.dumps(option)
        if text in by_text:
            raise InvalidSchema(f"the choice {text!r} is there twice", hint="Give each option once")
        by_text[text] = option
    if not by_text:
        raise ImpossibleSchema(
            "Schema.choice() got no options, so nothing satisfies it",
            hint='For example Schema.choice("yes", "no")',
        )
    return by_text


def adapt(kind: Any) -> tuple[TypeAdapter[Any], JsonValue]:
    """How a type is validated, and its JSON Schema.

    Raises:
        InvalidSchema: It has none.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        return adapter, adapter.json_schema(mode="validation")
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise InvalidSchema(
            f"{kind!r} has no JSON Schema: {first}",
            hint="Use a Pydantic model, a dataclass, a TypedDict, an Enum, or types made of "
            "str, int, float, bool, list and dict",
        ) from None


def reasons(error: PydanticError) -> str:
    """What validators refused, with the places."""
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(step) for step in item["loc"])
        parts.append(f"{place}: {item['msg']}" if place else item["msg"])
    return "; ".join(parts)


def need_text(name: str, value: object) -> None:
    """Refuse a pattern or a grammar that is not text."""
    if not isinstance(value, str):
        raise InvalidSchema(
            f"the {name} is a {type(value).__name__}, not text", hint=f"Pass the {name} as str"
        )
