"""Subschemas by place: JSON pointers, `$ref`, `$id`, `$anchor`, and which draft a schema is in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema import exceptions, validators
from jsonschema.protocols import Validator

from .errors import InvalidConstraint, SchemaNotSupported

_DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples", "example"})
_NAMED_SCHEMAS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_NO_SIBLINGS = re.compile(r"draft-0[3-7]")


@dataclass(frozen=True, slots=True)
class Place:
    """One subschema, identified by its JSON pointer (a URI fragment such as ``#/items``)."""

    pointer: str

    def child(self, *steps: str | int) -> Place:
        """The place below this one."""
        escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return Place("/".join([self.pointer, *escaped]))


class Document:
    """A checked JSON Schema document.

    Args:
        root: The schema.

    Attributes:
        siblings: Whether keywords beside `$ref` count (they do not before draft 2019-09).

    Raises:
        InvalidConstraint: The meta-schema refuses it, or a reference leads nowhere.
    """

    def __init__(self, root: Any) -> None:
        if not isinstance(root, (dict, bool)):
            raise InvalidConstraint(
                f"a JSON Schema is an object or a boolean, not {type(root).__name__}", pointer="#"
            )
        self.root = root
        declared = root.get("$schema") if isinstance(root, dict) else None
        cls = validators.validator_for(root, default=validators.Draft202012Validator)
        self.siblings = not (isinstance(declared, str) and _NO_SIBLINGS.search(declared))
        try:
            if isinstance(root, dict):
                cls.check_schema(root)
        except exceptions.SchemaError as error:
            pointer = "#" + "".join(f"/{step}" for step in error.absolute_path)
            raise InvalidConstraint(
                f"not a valid JSON Schema: {error.message}", pointer=pointer
            ) from None
        self._schemas: dict[str, Any] = {}
        self._listed: dict[Place, _Listed] = {}
        self._by_uri: dict[str, Place] = {}
        self._base: dict[str, str] = {}
        self._index()
        self._validator: Validator = cls(root)

    def _index(self) -> None:
        stack: list[tuple[Place, Any, str]] = [(Place("#"), self.root, "")]
        while stack:
            place, schema, base = stack.pop()
            self._schemas[place.pointer] = schema
            if isinstance(schema, dict):
                identifier = schema.get("$id", schema.get("id"))
                if isinstance(identifier, str) and (self.siblings or "$ref" not in schema):
                    base = urljoin(base, identifier)
                    self._by_uri.setdefault(urldefrag(base).url, place)
                    if "#" in identifier:
                        self._by_uri.setdefault(base, place)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    anchor = schema.get(keyword)
                    if isinstance(anchor, str):
                        self._by_uri.setdefault(urljoin(base, f"#{anchor}"), place)
                stack.extend((p, s, base) for p, s in _subschemas(place, schema))
            self._base[place.pointer] = base
        self._by_uri.setdefault("", Place("#"))

    def at(self, place: Place) -> Any:
        """The subschema at `place`."""
        return self._schemas[place.pointer]

    def resolve(self, place: Place, reference: str) -> Place:
        """Where the `$ref` of the subschema at `place` points."""
        uri = urljoin(self._base[place.pointer], reference)
        known = self._by_uri.get(uri) or self._by_uri.get(uri.rstrip("#"))
        if known is not None:
            return known
        document, fragment = urldefrag(uri)
        target = self._by_uri.get(document)
        where = f"{place.pointer}/$ref"
        if target is None:
            raise SchemaNotSupported(
                f"$ref {reference!r} points outside this schema",
                hint="Copy the referenced schema into $defs and refer to it there",
                pointer=where,
            )
        if fragment and not fragment.startswith("/"):
            raise InvalidConstraint(f"$ref {reference!r} names no anchor", pointer=where)
        found = Place(target.pointer + unquote(fragment))
        if found.pointer not in self._schemas:
            self._adopt(found, reference, where)
        return found

    def _adopt(self, place: Place, reference: str, where: str) -> None:
        """Take in a subschema that stands where no keyword expects one (such as `#/x-shared/a`)."""
        value: Any = self.root
        base = ""
        walked = "#"
        for step in place.pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise InvalidConstraint(f"$ref {reference!r} leads nowhere", pointer=where)
            walked = f"{walked}/{step}"
            base = self._base.get(walked, base)
        if not isinstance(value, (dict, bool)):
            raise InvalidConstraint(f"$ref {reference!r} does not lead to a schema", pointer=where)
        stack: list[tuple[Place, Any]] = [(place, value)]
        while stack:
            below, schema = stack.pop()
            self._schemas[below.pointer] = schema
            self._base[below.pointer] = base
            if isinstance(schema, dict):
                stack.extend(_subschemas(below, schema))

    def is_valid(self, place: Place, value: Any) -> bool:
        """Whether `value` satisfies the subschema at `place`, as the jsonschema library sees it.

        `enum` and `const` are looked up, as comparing with every listed value takes too long.
        """
        known = self._listed.get(place)
        if known is None:
            known = self._listed[place] = _Listed(self.at(place), self._validator)
        return known.takes(value)


class _Listed:
    """A subschema with its listed values taken apart."""

    def __init__(self, schema: Any, validator: Validator) -> None:
        rest = schema
        self._values: set[str] | None = None
        if isinstance(schema, dict) and ("const" in schema or "enum" in schema):
            rest = {key: value for key, value in schema.items() if key not in ("const", "enum")}
            self._values = {spelling(value) for value in schema.get("enum", [])}
            if "const" in schema:
                const = spelling(schema["const"])
                self._values = {const} if "enum" not in schema or const in self._values else set()
        self._validator = validator.evolve(schema=rest) if rest not in ({}, True) else None

    def takes(self, value: Any) -> bool:
        if self._values is not None and spelling(value) not in self._values:
            return False
        return self._validator is None or bool(self._validator.is_valid(value))


def spelling(value: Any) -> str:
    """One spelling per JSON value; numbers that are equal are spelled alike."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(spelling(item) for item in value) + "]"
    if isinstance(value, dict):
        items = sorted((json.dumps(name), spelling(item)) for name, item in value.items())
        return "{" + ",".join(f"{name}:{item}" for name, item in items) + "}"
    return json.dumps(value)


def _subschemas(place: Place, schema: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    for keyword, value in schema.items():
        if keyword in _DATA_KEYWORDS:
            continue
        if keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            for name, below in value.items():
                if isinstance(below, (dict, bool)):
                    yield place.child(keyword, name), below
        elif isinstance(value, (dict, bool)):
            yield place.child(keyword), value
        elif isinstance(value, list):
            for index, below in enumerate(value):
                if isinstance(below, (dict, bool)):
                    yield place.child(keyword, index), below
