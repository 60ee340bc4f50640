"""JSON Schema to expressions.

The compiler works on *conjunctions*: sets of claims that subschemas hold, or do not hold. A
property that two `allOf` branches both describe is the conjunction of the two descriptions, so
intersections need no schema merging, and `not`, `if` and `oneOf` are claims of the other sign.
Every conjunction becomes one rule; recursion in the schema is recursion between rules. What cannot
be enforced is refused with its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from .derivative import finish_rules
from .distance import UNREACHABLE, Distance
from .errors import ConstraintTooLarge, EmptyConstraint, InvalidConstraint
from .expr import Pool
from .grammar import Build, Grammar, too_deep
from .json_arrays import array_node
from .json_branches import branches, name_of
from .json_facts import TYPES, Claim, Conjunction, Either, Facts, type_of
from .json_keywords import listed_values, types_of
from .json_objects import object_node
from .json_refs import Document, Place
from .json_scalars import name_node, numeric_node, string_node
from .json_text import Layout, Whitespace, string_literal
from .node import Node

if TYPE_CHECKING:
    from .json_values import ListedValues

_MOST_RULES = 50_000
_MOST_LISTED = 4096
# Beside these keywords no listed value needs a validator.
_LISTED_ONLY = frozenset(
    {"enum", "type", "title", "description", "default", "examples", "$comment", "deprecated"}
)

PropertyOrder = Literal["schema", "any"]
Formats = Literal["strict", "assert", "annotate"]


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a schema is read and written.

    Attributes:
        layout: White space between the parts.
        extra_properties: Whether an object that says nothing about `additionalProperties` takes
            any further property (as JSON Schema says) or none (what a typed model wants).
        formats: How `format` is read.
        shuffled: Whether properties may come in any order.
        loose: Whether numbers may be spelled with more zeros than needed (``1.0`` for 1).
        decimal: Whether multiples are those of decimals, also where doubles do not divide.
    """

    layout: Layout
    extra_properties: bool
    formats: Formats
    shuffled: bool
    loose: bool
    decimal: bool


def compile_json_schema(
    schema: dict[str, Any] | bool,
    *,
    whitespace: Whitespace = "spaced",
    max_whitespace: int = 32,
    extra_properties: bool = True,
    formats: Formats = "strict",
    property_order: PropertyOrder = "schema",
    plain_integers: bool = False,
    decimal_multiples: bool = False,
    documents: Mapping[str, Any] | None = None,
) -> Grammar:
    """Compile a JSON Schema (drafts 4 to 2020-12) into a grammar of JSON texts.

    Args:
        schema: The schema, as parsed JSON.
        whitespace: ``"compact"``, ``"spaced"`` (one blank after ``:`` and ``,``), ``"pretty"`` (as
            `json.dumps(..., indent=2)` writes it) or ``"flexible"``.
        max_whitespace: Most white space characters in a row under ``"flexible"``.
        extra_properties: What an absent `additionalProperties` means.
        formats: ``"strict"`` enforces known formats in the reading that their specifications,
            common checkers and Pydantic share; ``"assert"`` in the wider one of the
            specifications, with leap seconds and quoted or international mail names;
            ``"annotate"`` not at all.
        property_order: ``"schema"`` writes properties in the schema's order and further ones after
            them; ``"any"`` takes them in any order.
        plain_integers: Write whole numbers as digits only, never as ``1.0``.
        decimal_multiples: Take every decimal multiple for `multipleOf`, as Pydantic does; without
            it only those whose quotient is whole in doubles too, as other validators see it.
        documents: Schemas that references may lead to, by URI.

    Raises:
        InvalidConstraint: The schema is malformed.
        SchemaNotSupported: A keyword cannot be enforced; the error carries its pointer.
        EmptyConstraint: Nothing satisfies the schema.
        ConstraintTooLarge: Too many rules or branches.
    """
    options = SchemaOptions(
        Layout(whitespace, max_whitespace),
        extra_properties,
        formats=formats,
        shuffled=property_order == "any",
        loose=not plain_integers,
        decimal=decimal_multiples,
    )

    def build(pool: Pool) -> Node:
        return SchemaCompiler(pool, document, options).compile()

    try:
        document = Document(schema, documents)
        return Grammar(build, "JSON Schema")
    except RecursionError:
        raise too_deep("JSON Schema") from None
    except UnicodeEncodeError as error:
        raise InvalidConstraint(
            f"the schema holds half a character (a lone surrogate) in {error.object!r:.80}",
            hint="Write the whole character",
            pointer="#",
        ) from None
    except EmptyConstraint as error:
        raise _explain_empty(build, error) from None


class SchemaCompiler:
    """Writes the rules of one schema into a pool."""

    def __init__(self, pool: Pool, document: Document, options: SchemaOptions) -> None:
        self.pool = pool
        self.document = document
        self.options = options
        self.layout = options.layout
        self._rules: dict[Conjunction, Node] = {}
        self._queue: deque[Conjunction] = deque()
        self._formats = options.formats != "annotate"
        self._strict = options.formats == "strict"
        self._loose = options.loose and document.floats_are_whole

    def compile(self) -> Node:
        """The expression of the whole document."""
        root = self.rule(frozenset({Claim(Place("#"))}))
        while self._queue:
            conjunction = self._queue.popleft()
            self.pool.define(self._rules[conjunction], self._body(conjunction))
        return root

    def rule(self, conjunction: Conjunction) -> Node:
        """The rule of a conjunction, declared on first use."""
        known = self._rules.get(conjunction)
        if known is not None:
            return known
        simpler = self._simplify(conjunction)
        if simpler is None:
            return self.pool.never
        if simpler != conjunction:
            known = self.rule(simpler)
        else:
            if len(self._rules) >= _MOST_RULES:
                raise ConstraintTooLarge(
                    f"the schema needs more than {_MOST_RULES} rules", pointer=name_of(conjunction)
                )
            known = self.pool.rule(name_of(conjunction))
            self._queue.append(conjunction)
        self._rules[conjunction] = known
        return known

    def impossible(self, conjunction: Conjunction) -> bool:
        """Whether it is plain that nothing satisfies the claims."""
        return self._simplify(conjunction) is None

    def _simplify(self, conjunction: Conjunction) -> Conjunction | None:
        """Drop claims that say nothing; None if one can never hold."""
        kept: set[Claim | Either] = set()
        for claim in conjunction:
            if isinstance(claim, Claim):
                schema = self.document.at(claim.place)
                if schema in (True, False, {}) and isinstance(schema, (bool, dict)):
                    if (schema is not False) is not claim.holds:
                        return None
                    continue
            kept.add(claim)
        return frozenset(kept)

    def fits(self, value: Any, claim: Claim) -> bool:
        """Whether one given value satisfies a claim."""
        return bool(self._listed.fitting([value], [claim]))

    def values(self, values: list[Any]) -> Node:
        """Any one of the values."""
        return self.layout.values(
            self.pool, values, loose=self.options.loose, shuffled=self.options.shuffled
        )

    def finite(self, conjunction: Conjunction) -> list[Any] | None:
        """All values that satisfy the claims, if they can be listed."""
        found: list[Any] = []
        for facts in self._branches(conjunction):
            if facts.values is not None:
                found += self._fitting(facts)
            elif facts.types <= {"null", "boolean", "integer"}:
                low, high = facts.bounds.integers()
                if "integer" in facts.types:
                    if low is None or high is None or high - low > _MOST_LISTED:
                        return None
                    found += range(low, high + 1)
                found += [None] if "null" in facts.types else []
                found += [False, True] if "boolean" in facts.types else []
            else:
                return None
            if len(found) > _MOST_LISTED:
                return None
        return self._listed.fitting(found, [c for c in conjunction if isinstance(c, Claim)])

    def names(self, conjunction: Conjunction) -> Node:
        """The insides of the strings that satisfy the claims, in one spelling."""
        nodes = []
        for facts in self._branches(conjunction):
            if facts.values is not None:
                texts = [value for value in self._fitting(facts) if isinstance(value, str)]
                nodes.append(self.pool.alt([string_literal(self.pool, text) for text in texts]))
            elif "string" in facts.types:
                nodes.append(name_node(self.pool, facts, strict=self._strict))
        return self.pool.alt(nodes)

    @cached_property
    def _listed(self) -> ListedValues:
        from .json_values import ListedValues  # loads the jsonschema library

        return ListedValues(self.document, assert_formats=self._formats)

    def _branches(self, conjunction: Conjunction) -> list[Facts]:
        return list(branches(self.document, conjunction, assert_formats=self._formats))

    def _body(self, conjunction: Conjunction) -> Node:
        listed = self._common_values(conjunction)
        if listed is not None:
            return self.values(listed)
        return self.pool.alt([self._branch_node(facts) for facts in self._branches(conjunction)])

    def _common_values(self, conjunction: Conjunction) -> list[Any] | None:
        """The values that fit, if one of the claims is on a subschema that lists its values."""
        claims = [claim for claim in conjunction if isinstance(claim, Claim)]
        if len(claims) < len(conjunction):
            return None
        for claim in claims:
            schema = self.document.at(claim.place)
            if claim.holds and isinstance(schema, dict) and "$ref" not in schema:
                values = listed_values(schema)
                if values is not None:
                    return self._fitting_claims(values, claims)
        return None

    def _fitting_claims(self, values: list[Any], claims: list[Claim]) -> list[Any]:
        if len(claims) == 1:
            schema = self.document.at(claims[0].place)
            if schema.keys() <= _LISTED_ONLY:
                types = types_of(schema["type"]) if "type" in schema else TYPES
                return [value for value in values if type_of(value) in types]
        return self._listed.fitting(values, claims)

    def _fitting(self, facts: Facts) -> list[Any]:
        return self._listed.fitting(facts.values or (), facts.taken)

    def _branch_node(self, facts: Facts) -> Node:
        if facts.values is not None:
            return self.values(self._fitting(facts))
        pool, types = self.pool, facts.types
        parts: list[Node] = []
        if "null" in types and None not in facts.excluded:
            parts.append(pool.literal("null"))
        if "boolean" in types:
            shut = [value for value in facts.excluded if isinstance(value, bool)]
            words = [("true", True), ("false", False)]
            parts.append(pool.words([word for word, value in words if value not in shut]))
        if types & {"integer", "fraction"}:
            parts.append(numeric_node(pool, facts, loose=self._loose, decimal=self.options.decimal))
        if "string" in types:
            parts.append(string_node(pool, facts, strict=self._strict))
        if "array" in types:
            parts.append(array_node(self, facts))
        if "object" in types:
            parts.append(object_node(self, facts))
        return pool.alt(parts)


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
