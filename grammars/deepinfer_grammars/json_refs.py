"""Subschemas by place: JSON pointers, `$ref`, `$id`, anchors, and which draft a schema is in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from .errors import ConstraintTooLarge, InvalidConstraint, SchemaNotSupported
from .json_check import check_schema

_ONE = (
    "additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else",
    "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema",
)  # fmt: skip
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED = (
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
)  # fmt: skip
_NO_SIBLINGS = re.compile(r"draft-0[3-7]")
_OLD_ID = re.compile(r"draft-0[34]")
_DEEPEST = 1_000
RECURSIVE = ""
"""The name under which `$recursiveAnchor: true` is kept; no `$dynamicAnchor` can have it."""


@dataclass(frozen=True, slots=True)
class Place:
    """One subschema, identified by a URI reference such as ``#/items`` (its JSON pointer)."""

    pointer: str

    def child(self, *steps: str | int) -> Place:
        """The place below this one."""
        escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return Place("/".join([self.pointer, *escaped]))


class Document:
    """A checked JSON Schema document and the documents that it refers to.

    Args:
        root: The schema.
        documents: Further schemas by URI; references may lead to them, and to the meta-schemas
            of the JSON Schema drafts. Nothing is ever fetched.

    Raises:
        InvalidConstraint: The schema is malformed.
    """

    def __init__(self, root: Any, documents: Mapping[str, Any] | None = None) -> None:
        if not isinstance(root, (dict, bool)):
            raise InvalidConstraint(
                f"a JSON Schema is an object or a boolean, not {type(root).__name__}", pointer="#"
            )
        self.root = root
        self.documents = dict(documents or {})
        self._schemas: dict[str, Any] = {}
        self._by_uri: dict[str, Place] = {}
        self.base: dict[str, str] = {}
        self._roots: dict[str, Any] = {}
        self._dynamic: dict[str, dict[str, Place]] = {}
        self._old: dict[str, bool] = {}
        self.summaries: dict[Place, object] = {}  # of `json_disjoint`
        self._take_in("", root)
        check_schema(root, self._schemas)
        self._require_validation()

    def _take_in(self, uri: str, root: Any) -> None:
        self._roots[uri] = root
        declared = root.get("$schema") if isinstance(root, dict) else None
        name = declared if isinstance(declared, str) else ""
        if not isinstance(declared, str) and uri:
            self._old[uri] = self._old[""]
        else:
            self._old[uri] = _NO_SIBLINGS.search(name) is not None
        self._index(Place(f"{uri}#"), root, uri, old_id=_OLD_ID.search(name) is not None)
        self._by_uri.setdefault(uri, Place(f"{uri}#"))

    def _index(self, start: Place, root: Any, base: str, *, old_id: bool) -> None:
        stack: list[tuple[Place, Any, str, int]] = [(start, root, base, 0)]
        while stack:
            place, schema, base, depth = stack.pop()
            if depth > _DEEPEST:  # pointers grow with the depth, and so would memory
                raise ConstraintTooLarge(
                    f"the schema is nested more than {_DEEPEST} levels deep",
                    hint="Name the nested parts in $defs, and refer to them",
                )
            self._schemas[place.pointer] = schema
            if isinstance(schema, dict):
                base = self._identify(place, schema, base, old_id=old_id)
                for where, below in _subschemas(place, schema):
                    stack.append((where, below, base, depth + 1))
            self.base[place.pointer] = base

    def _identify(self, place: Place, schema: dict[str, Any], base: str, *, old_id: bool) -> str:
        """Register the names of a subschema; the base URI inside it."""
        identifier = schema.get("id" if old_id else "$id")
        if isinstance(identifier, str) and (self.siblings(place) or "$ref" not in schema):
            full = _join(base, identifier)
            document, fragment = urldefrag(full)
            if fragment:  # up to draft 7, "#name" is an anchor
                self._by_uri.setdefault(full, place)
            else:
                base = document
                self._by_uri.setdefault(base, place)
        if not old_id and "$id" not in schema and isinstance(schema.get("id"), str):
            self._by_uri.setdefault(_join(base, schema["id"]), place)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self._by_uri.setdefault(f"{base}#{anchor}", place)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(base, {})[anchor] = place
        if schema.get("$recursiveAnchor") is True:
            self._dynamic.setdefault(base, {})[RECURSIVE] = place
        return base

    def _require_validation(self) -> None:
        """Refuse a meta-schema of the user's that switches keywords off."""
        declared = self.root.get("$schema") if isinstance(self.root, dict) else None
        meta = self.documents.get(declared) if isinstance(declared, str) else None
        used = meta.get("$vocabulary") if isinstance(meta, dict) else None
        if isinstance(used, dict) and not any("/vocab/validation" in name for name in used):
            raise SchemaNotSupported(
                f"the meta-schema {declared!r} leaves out the validation vocabulary",
                hint="Name a standard draft in $schema",
                pointer="#/$schema",
            )

    @property
    def floats_are_whole(self) -> bool:
        """Whether 1.0 is an integer (it is not before draft 6)."""
        declared = self.root.get("$schema") if isinstance(self.root, dict) else None
        return not (isinstance(declared, str) and _OLD_ID.search(declared))

    def siblings(self, place: Place) -> bool:
        """Whether keywords beside `$ref` count (they do not before draft 2019-09)."""
        return not self._old[place.pointer.partition("#")[0]]

    def at(self, place: Place) -> Any:
        """The subschema at `place`."""
        return self._schemas[place.pointer]

    def put(self, place: Place, schema: dict[str, Any], like: Place) -> Place:
        """Register a schema that says what a keyword at `place` means."""
        if place.pointer not in self._schemas:
            stack = [(place, schema)]
            while stack:
                where, below = stack.pop()
                self._schemas[where.pointer] = below
                self.base[where.pointer] = self.base[like.pointer]
                stack.extend(_subschemas(where, below) if isinstance(below, dict) else ())
        return place

    def enter(self, place: Place, entered: tuple[str, ...]) -> tuple[str, ...]:
        """The dynamic scope inside `place`: resources with dynamic anchors, outermost first."""
        base = self.base[place.pointer]
        return (*entered, base) if base in self._dynamic and base not in entered else entered

    def resolve(self, place: Place, keyword: str, entered: tuple[str, ...]) -> Place:
        """Where `$ref`, `$dynamicRef` or `$recursiveRef` of the subschema at `place` points.

        Raises:
            InvalidConstraint: The reference leads nowhere.
            SchemaNotSupported: It points outside the known documents.
        """
        reference = self.at(place)[keyword]
        target = self._target(place, reference, f"{place.pointer}/{keyword}")
        if keyword == "$ref":
            return target
        schema = self.at(target)
        if not isinstance(schema, dict):
            return target
        if keyword == "$recursiveRef":
            name = RECURSIVE if schema.get("$recursiveAnchor") is True else None
        else:
            fragment = urldefrag(reference).fragment
            name = fragment if schema.get("$dynamicAnchor") == fragment else None
        if name is not None:
            for resource in entered:
                if name in self._dynamic[resource]:
                    return self._dynamic[resource][name]
        return target

    def _target(self, place: Place, reference: str, where: str) -> Place:
        uri = _join(self.base[place.pointer], reference)
        known = self._by_uri.get(uri) or self._by_uri.get(uri.rstrip("#"))
        if known is not None:
            return known
        document, fragment = urldefrag(uri)
        if document not in self._by_uri:
            self._load(document, reference, where)
            known = self._by_uri.get(uri) or self._by_uri.get(uri.rstrip("#"))
            if known is not None:
                return known
        if fragment and not fragment.startswith("/"):
            raise InvalidConstraint(f"{reference!r} names no anchor", pointer=where)
        found = Place(self._by_uri[document].pointer + unquote(fragment))
        if found.pointer not in self._schemas:
            self._adopt(found, reference, where)
        return found

    def _load(self, uri: str, reference: str, where: str) -> None:
        schema = self.documents.get(uri, self.documents.get(f"{uri}#"))
        if schema is None and re.match(r"https?://json-schema\.org/", uri):
            from jsonschema_specifications import REGISTRY

            found = REGISTRY.get(uri) or REGISTRY.get(f"{uri}#")
            schema = None if found is None else found.contents
        if not isinstance(schema, (dict, bool)):
            raise SchemaNotSupported(
                f"{reference!r} points outside this schema, and nothing is fetched",
                hint="Copy the referenced schema into $defs and refer to it there",
                pointer=where,
            )
        self._take_in(uri, schema)

    def _adopt(self, place: Place, reference: str, where: str) -> None:
        """Take in a subschema that stands where no keyword expects one (such as `#/x-shared/a`)."""
        uri, _, pointer = place.pointer.partition("#")
        value = self._roots[uri]
        base = uri
        walked = f"{uri}#"
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise InvalidConstraint(f"{reference!r} leads nowhere", pointer=where)
            walked = f"{walked}/{step}"
            base = self.base.get(walked, base)
        if not isinstance(value, (dict, bool)):
            raise InvalidConstraint(f"{reference!r} does not lead to a schema", pointer=where)
        self._index(place, value, base, old_id=False)


def _join(base: str, reference: str) -> str:
    """`urljoin`, also for bases such as ``urn:`` that have no path."""
    return base + reference if reference.startswith("#") else urljoin(base, reference)


def _subschemas(place: Place, schema: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    for keyword in _ONE:
        below = schema.get(keyword)
        if isinstance(below, (dict, bool)):
            yield place.child(keyword), below
    for keyword in _MANY:
        listed = schema.get(keyword)
        if isinstance(listed, list):
            for index, below in enumerate(listed):
                if isinstance(below, (dict, bool)):
                    yield place.child(keyword, index), below
    for keyword in _NAMED:
        named = schema.get(keyword)
        if isinstance(named, dict):
            for name, below in named.items():
                if isinstance(below, (dict, bool)):
                    yield place.child(keyword, name), below
