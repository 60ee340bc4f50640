"""JSON Schema to expressions.

The compiler works on *conjunctions*: sets of subschemas that must hold together. A property that
two `allOf` branches both describe is the conjunction of the two descriptions, so intersections need
no schema merging. Every conjunction becomes one rule; recursion in the schema is recursion between
rules. Choices (`anyOf`, `oneOf`) split a conjunction into branches of plain keyword sets, and each
branch is one expression per JSON type. What cannot be enforced is refused with its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .derivative import finish_rules
from .distance import UNREACHABLE, Distance
from .errors import ConstraintTooLarge, EmptyConstraint, SchemaNotSupported
from .expr import Pool
from .grammar import Build, Grammar, too_deep
from .json_disjoint import exclusive
from .json_keywords import allowed_types, check_keywords
from .json_numbers import integer_node, number_node
from .json_refs import Document, Place
from .json_scalars import bounds_of, name_node, string_node
from .json_structures import array_node, object_node
from .json_text import Layout, Whitespace, string_literal
from .node import Node

_MOST_BRANCHES = 1024
_MOST_RULES = 50_000

Conjunction = frozenset[Place]


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a schema is read and written.

    Attributes:
        layout: White space between the parts.
        extra_properties: Whether an object that says nothing about `additionalProperties` takes
            any further property (as JSON Schema says) or none (what a typed model wants).
        assert_formats: Whether `format` is enforced (known formats) or only an annotation.
    """

    layout: Layout
    extra_properties: bool
    assert_formats: bool


def compile_json_schema(
    schema: dict[str, Any] | bool,
    *,
    whitespace: Whitespace = "spaced",
    max_whitespace: int = 32,
    extra_properties: bool = True,
    assert_formats: bool = True,
) -> Grammar:
    """Compile a JSON Schema (drafts 4 to 2020-12) into a grammar of JSON texts.

    Properties appear in the schema's order, further properties after them.

    Args:
        schema: The schema, as parsed JSON.
        whitespace: ``"compact"``, ``"spaced"`` (one blank after ``:`` and ``,``) or ``"flexible"``.
        max_whitespace: Most white space characters in a row under ``"flexible"``.
        extra_properties: What an absent `additionalProperties` means.
        assert_formats: Whether `format` is enforced.

    Raises:
        InvalidConstraint: The schema is malformed.
        SchemaNotSupported: A keyword cannot be enforced; the error carries its pointer.
        EmptyConstraint: Nothing satisfies the schema.
        ConstraintTooLarge: Too many rules or branches.
    """
    try:
        document = Document(schema)
    except RecursionError:
        raise too_deep("JSON Schema") from None
    options = SchemaOptions(Layout(whitespace, max_whitespace), extra_properties, assert_formats)

    def build(pool: Pool) -> Node:
        return SchemaCompiler(pool, document, options).compile()

    try:
        return Grammar(build, "JSON Schema")
    except EmptyConstraint as error:
        raise _explain_empty(build, error) from None


class SchemaCompiler:
    """Writes the rules of one schema into a pool."""

    def __init__(self, pool: Pool, document: Document, options: SchemaOptions) -> None:
        self.pool = pool
        self.document = document
        self.options = options
        self.layout = options.layout
        self.rules: dict[Conjunction, Node] = {}
        self._queue: deque[Conjunction] = deque()

    def compile(self) -> Node:
        """The expression of the whole document."""
        root = self.rule(frozenset({Place("#")}))
        while self._queue:
            conjunction = self._queue.popleft()
            self.pool.define(self.rules[conjunction], self._body(conjunction))
        return root

    def rule(self, conjunction: Conjunction) -> Node:
        """The rule of a conjunction, declared on first use."""
        known = self.rules.get(conjunction)
        if known is None:
            if len(self.rules) >= _MOST_RULES:
                raise ConstraintTooLarge(
                    f"the schema needs more than {_MOST_RULES} rules", pointer=_name(conjunction)
                )
            known = self.pool.rule(_name(conjunction))
            self.rules[conjunction] = known
            self._queue.append(conjunction)
        return known

    def names(self, place: Place) -> Node:
        """The insides of the strings that satisfy the subschema at `place`, in one spelling."""
        nodes = []
        for atoms in self._branches(frozenset({place})):
            values = self._listed_values(atoms)
            if values is not None:
                texts = [value for value in values if isinstance(value, str)]
                nodes.append(self.pool.alt([string_literal(self.pool, text) for text in texts]))
                continue
            schemas = [(atom, self.document.at(atom)) for atom in atoms]
            if "string" in allowed_types([schema for _, schema in schemas]):
                formats = self.options.assert_formats
                nodes.append(name_node(self.pool, schemas, assert_formats=formats))
        return self.pool.alt(nodes)

    def _body(self, conjunction: Conjunction) -> Node:
        return self.pool.alt([self._branch_node(atoms) for atoms in self._branches(conjunction)])

    def _listed_values(self, atoms: list[Place]) -> list[Any] | None:
        """The values that satisfy a branch which an `enum` or `const` binds, if one does."""
        for atom in atoms:
            schema = self.document.at(atom)
            values = [schema["const"]] if "const" in schema else schema.get("enum")
            if values is not None:
                return [
                    value
                    for value in values
                    if all(self.document.is_valid(place, value) for place in atoms)
                ]
        return None

    def _branches(self, conjunction: Conjunction) -> Iterator[list[Place]]:
        """Split into alternatives, each a list of places whose own keywords must all hold."""
        made = 0
        start = sorted(conjunction, key=lambda place: place.pointer)
        stack: list[tuple[list[Place], list[tuple[Place, frozenset[Place]]]]] = [
            ([], [(place, frozenset()) for place in reversed(start)])
        ]
        while stack:
            atoms, todo = stack.pop()
            alternatives: list[list[tuple[Place, frozenset[Place]]]] = []
            dead = False
            while todo and not alternatives:
                place, above = todo.pop()
                schema = self.document.at(place)
                if schema is True or schema == {}:
                    continue
                if schema is False or place in above:  # a reference to itself adds no value
                    dead = True
                    break
                if place in atoms:
                    continue
                below = above | {place}
                plain = self.document.siblings or "$ref" not in schema
                if plain:
                    check_keywords(place, schema)
                    atoms = [*atoms, place]
                    for index in reversed(range(len(schema.get("allOf", ())))):
                        todo.append((place.child("allOf", index), below))
                if "$ref" in schema:
                    todo.append((self.document.resolve(place, schema["$ref"]), below))
                if plain:
                    alternatives = self._choices(place, schema, below, todo)
            if dead:
                continue
            if alternatives:
                stack.extend((atoms, option) for option in reversed(alternatives))
                continue
            made += 1
            if made > _MOST_BRANCHES:
                raise ConstraintTooLarge(
                    f"combining the choices gives more than {_MOST_BRANCHES} branches",
                    pointer=_name(conjunction),
                )
            yield atoms

    def _choices(
        self,
        place: Place,
        schema: dict[str, Any],
        above: frozenset[Place],
        todo: list[tuple[Place, frozenset[Place]]],
    ) -> list[list[tuple[Place, frozenset[Place]]]]:
        """The continuations of `todo` for each way to satisfy the choices at `place`."""
        lists = [todo]
        for keyword in ("anyOf", "oneOf"):
            if keyword not in schema:
                continue
            options = [place.child(keyword, index) for index in range(len(schema[keyword]))]
            if keyword == "oneOf" and not exclusive(self.document, options):
                raise SchemaNotSupported(
                    "oneOf is used with branches that may hold at the same time",
                    hint="Use anyOf, or give each branch a property with a different const",
                    pointer=f"{place.pointer}/oneOf",
                )
            lists = [[*rest, (option, above)] for rest in lists for option in options]
        return lists if lists != [todo] else []

    def _branch_node(self, atoms: list[Place]) -> Node:
        values = self._listed_values(atoms)
        if values is not None:
            return self.layout.values(self.pool, values)
        schemas = [(place, self.document.at(place)) for place in atoms]
        types = allowed_types([schema for _, schema in schemas])
        pool = self.pool
        parts: list[Node] = []
        if "null" in types:
            parts.append(pool.literal("null"))
        if "boolean" in types:
            parts.append(pool.words(["true", "false"]))
        if "number" in types:
            parts.append(number_node(pool, bounds_of(schemas)))
        elif "integer" in types:
            parts.append(integer_node(pool, bounds_of(schemas)))
        if "string" in types:
            parts.append(string_node(pool, schemas, assert_formats=self.options.assert_formats))
        if "array" in types:
            parts.append(array_node(self, schemas))
        if "object" in types:
            parts.append(object_node(self, schemas))
        return pool.alt(parts)


def _name(conjunction: Conjunction) -> str:
    return " & ".join(sorted(place.pointer for place in conjunction)) or "any value"


def _explain_empty(build: Build, error: EmptyConstraint) -> EmptyConstraint:
    """Name the innermost subschema that nothing satisfies."""
    pool = Pool()
    root = build(pool)
    finish_rules(pool, root)
    distance = Distance(pool)
    empty = [
        name
        for name, body in zip(pool.rule_names, pool.rule_bodies, strict=True)
        if body is not None and distance(body) >= UNREACHABLE
    ]
    pointer = empty[-1] if empty else "#"
    return EmptyConstraint("nothing can satisfy the schema", hint=error.hint, pointer=pointer)
