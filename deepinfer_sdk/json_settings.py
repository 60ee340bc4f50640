"""The options of `Schema.json`, and reading its outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypedDict

from pydantic import ValidationError as PydanticError

from .errors import InvalidSchema, OutputRejected
from .result import (
    Formats,
    JsonOptions,
    OnUnsupported,
    PropertyOrder,
    SchemaSpec,
    Whitespace,
)


class JsonSettings(TypedDict, total=False):
    """The options of `Schema.json`.

    Attributes:
        extra_properties: What objects that do not mention `additionalProperties` allow: any further
            property, as JSON Schema says (True, the default), or none.
        property_order: ``"schema"`` (default): properties come in the schema's order, further ones
            after them. ``"any"``: in any order.
        formats: ``"strict"`` (default): known formats, in the reading that specifications, common
            checkers and Pydantic share. ``"assert"``: the wider one of the specifications, with
            leap seconds and quoted or international mail names. ``"annotate"``: not enforced.
        whitespace: ``"spaced"`` (default): one blank after ``:`` and ``,``. ``"compact"``: none.
            ``"pretty"``: a line per item and member, with up to 32 blanks before it, as
            `json.dumps` writes with an indent. ``"flexible"``: up to 32 characters
            wherever JSON allows them.
        on_unsupported: ``"refuse"`` (default): a keyword that cannot be enforced is an error.
            ``"validate"``: the rest is enforced, and the finished output is validated in full, so
            that `OutputRejected` is possible.
    """

    extra_properties: bool
    property_order: PropertyOrder
    formats: Formats
    whitespace: Whitespace
    on_unsupported: OnUnsupported


def json_spec(source: dict[str, Any] | bool, options: dict[str, Any]) -> SchemaSpec:
    """The recipe of a JSON Schema.

    Raises:
        InvalidSchema: An unknown option or setting, or values that JSON does not have.
    """
    try:
        chosen = JsonOptions(**options)
    except PydanticError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        known = ", ".join(JsonOptions.model_fields)
        raise InvalidSchema(
            f"Schema.json option {name}={first.get('input')!r}: {first['msg']}",
            hint=f"The options are {known}",
        ) from None
    try:
        return SchemaSpec(kind="json", source=source, json_options=chosen)
    except PydanticError:
        raise InvalidSchema(
            "the JSON Schema holds values that JSON does not have",
            hint="Use only dicts, lists, texts, numbers, True, False and None",
        ) from None


def json_parser(spec: SchemaSpec) -> Callable[[str], Any]:
    """How an output of a JSON recipe is read: as data, validated in full if that was asked for."""
    chosen = spec.json_options
    if chosen is None or chosen.on_unsupported == "refuse":
        return json.loads

    schema: Any = spec.source

    def parse(text: str) -> Any:
        from jsonschema import validators

        value = json.loads(text)
        cls = validators.validator_for(schema, default=validators.Draft202012Validator)
        checker = None if chosen.formats == "annotate" else cls.FORMAT_CHECKER
        errors = sorted(
            cls(schema, format_checker=checker).iter_errors(value), key=lambda e: e.json_path
        )
        if errors:
            reasons = "; ".join(f"{e.json_path}: {e.message}" for e in errors[:5])
            raise OutputRejected(
                f"the JSON Schema refused output {text!r}: {reasons}",
                text=text,
                hint="This rule could not be enforced while generating: try another seed, or "
                "rewrite it as docs/json_schema.md says; the text is kept on error.text",
            )
        return value

    return parse
