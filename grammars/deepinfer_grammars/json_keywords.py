"""Which JSON Schema keywords are refused, and the types a schema allows.

Keywords that are neither refused here nor enforced by the compiler are annotations: JSON Schema
says that unknown keywords do not affect validity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import SchemaNotSupported
from .json_refs import Place

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

_HINTS = {
    "not": "Say what is allowed instead, e.g. an enum, a range or a pattern",
    "if": "Write the cases as anyOf with a const property in each",
    "contains": "Describe the array with prefixItems and items",
    "uniqueItems": "Drop it, or give maxItems: 1; duplicates cannot be seen by the grammar yet",
    "multipleOf": "Use an enum of the allowed numbers",
    "$dynamicRef": "Use $ref",
    "$recursiveRef": "Use $ref",
}
_REFUSED = frozenset(
    {
        "not", "if", "contains", "minContains", "maxContains", "uniqueItems", "multipleOf",
        "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
        "unevaluatedItems", "$dynamicRef", "$recursiveRef",
    }
)  # fmt: skip


def check_keywords(place: Place, schema: dict[str, Any]) -> None:
    """Refuse a keyword that would change validity and is not enforced.

    Beside `enum` or `const` every keyword is enforced: the listed values are validated one by one.

    Raises:
        SchemaNotSupported: With the pointer of the keyword and what to do instead.
    """
    if "enum" in schema or "const" in schema:
        return
    for keyword in sorted(_REFUSED & schema.keys()):
        value = schema[keyword]
        if _says_nothing(keyword, value, schema):
            continue
        raise SchemaNotSupported(
            f"{keyword!r} cannot be enforced",
            hint=_HINTS.get(keyword, "Remove it, or describe the cases with anyOf"),
            pointer=f"{place.pointer}/{keyword}",
        )


def _says_nothing(keyword: str, value: Any, schema: dict[str, Any]) -> bool:
    if keyword == "uniqueItems":
        return value is False or schema.get("maxItems", 2) <= 1
    if keyword == "if":
        return "then" not in schema and "else" not in schema
    if keyword in ("minContains", "maxContains"):
        return "contains" not in schema
    if keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        return not value
    if keyword in ("unevaluatedProperties", "unevaluatedItems"):
        return value is True or value == {}
    return False


def allowed_types(schemas: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The JSON types that every schema's `type` allows."""
    types = set(TYPES)
    for schema in schemas:
        declared = schema.get("type")
        if declared is None:
            continue
        wanted = {declared} if isinstance(declared, str) else set(declared)
        if "number" in wanted:
            wanted.add("integer")
        types &= wanted
    return frozenset(types)
