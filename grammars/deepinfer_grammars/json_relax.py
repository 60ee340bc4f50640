"""A schema without the keywords that cannot be enforced, for those who validate at the end."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .errors import SchemaNotSupported
from .grammar import Grammar
from .json_schema import compile_json_schema

_MOST_DROPPED = 100
# Leaving a part out of these could make them stricter; they go as a whole.
_WHOLE = frozenset({"not", "if", "oneOf", "contains"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def compile_relaxed(schema: dict[str, Any] | bool, **options: Any) -> tuple[Grammar, list[str]]:
    """Compile a JSON Schema, leaving out what cannot be enforced.

    Args:
        schema: The schema.
        options: As for `compile_json_schema`.

    Returns:
        The grammar, which accepts every valid text, and the pointers of the keywords left out.

    Raises:
        GrammarError: As `compile_json_schema`, where leaving out a keyword does not help.
    """
    relaxed = deepcopy(schema)
    dropped: list[str] = []
    while True:
        try:
            return compile_json_schema(relaxed, **options), dropped
        except SchemaNotSupported as error:
            pointer = _drop(relaxed, error.pointer or "")
            if pointer is None or len(dropped) >= _MOST_DROPPED:
                raise
            dropped.append(pointer)


def _drop(schema: Any, pointer: str) -> str | None:
    """Remove the keyword at `pointer`, or the outermost one around it that must go with it."""
    if not pointer.startswith("#/"):
        return None
    value, walked, named = schema, "#", False
    for step in pointer[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        walked += f"/{step}"
        if isinstance(value, dict) and name in value:
            if (walked == pointer or name in _WHOLE) and not named:
                del value[name]
                if name == "if":
                    value.pop("then", None)
                    value.pop("else", None)
                return walked
            named = not named and name in _NAMED
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return None
