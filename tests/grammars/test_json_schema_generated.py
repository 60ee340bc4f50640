"""Generated schemas and values: what is accepted validates, and what validates is accepted."""

import json

import jsonschema
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    SchemaNotSupported,
    TokenAutomaton,
    compile_json_schema,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

NAMES = st.sampled_from(["a", "b", "foo"])
SMALL = st.integers(0, 3)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 4), st.sampled_from(["", "a", "foo"]))
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=5,
)


def keywords(below):
    """Single keywords, over schemas made of `below`."""
    schemas = st.lists(below, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, below, min_size=1, max_size=2)
    return st.one_of(
        st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"]).map(
            lambda name: {"type": name}
        ),
        st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
        VALUES.map(lambda value: {"const": value}),
        st.integers(-2, 3).map(lambda n: {"minimum": n}),
        st.integers(-2, 3).map(lambda n: {"exclusiveMaximum": n}),
        st.integers(1, 3).map(lambda n: {"multipleOf": n}),
        SMALL.map(lambda n: {"minLength": n}),
        SMALL.map(lambda n: {"maxLength": n}),
        st.sampled_from(["^a", "o$", "^[ab]*$"]).map(lambda p: {"pattern": p}),
        SMALL.map(lambda n: {"minItems": n}),
        SMALL.map(lambda n: {"maxItems": n}),
        below.map(lambda s: {"items": s}),
        schemas.map(lambda s: {"prefixItems": s}),
        st.tuples(below, SMALL).map(lambda p: {"contains": p[0], "minContains": p[1]}),
        st.tuples(below, SMALL).map(lambda p: {"contains": p[0], "maxContains": p[1]}),
        st.just({"minProperties": 1}),
        SMALL.map(lambda n: {"maxProperties": n}),
        st.lists(NAMES, unique=True, max_size=2).map(lambda names: {"required": names}),
        named.map(lambda s: {"properties": s}),
        below.map(lambda s: {"patternProperties": {"^f": s}}),
        below.map(lambda s: {"additionalProperties": s}),
        below.map(lambda s: {"propertyNames": s}),
        st.tuples(NAMES, NAMES).map(lambda p: {"dependentRequired": {p[0]: [p[1]]}}),
        st.tuples(NAMES, below).map(lambda p: {"dependentSchemas": {p[0]: p[1]}}),
        below.map(lambda s: {"unevaluatedProperties": s}),
        below.map(lambda s: {"unevaluatedItems": s}),
        below.map(lambda s: {"not": s}),
        schemas.map(lambda s: {"allOf": s}),
        schemas.map(lambda s: {"anyOf": s}),
        schemas.map(lambda s: {"oneOf": s}),
        st.tuples(below, below, below).map(lambda p: {"if": p[0], "then": p[1], "else": p[2]}),
    )


def joined(below):
    return st.lists(keywords(below), min_size=1, max_size=3).map(
        lambda parts: {key: value for part in parts for key, value in part.items()}
    )


SCHEMAS = joined(st.recursive(st.booleans() | st.just({}), joined, max_leaves=3))
REFUSALS = (SchemaNotSupported, ConstraintTooLarge)


def compiled(schema, order):
    try:
        return compile_json_schema(schema, property_order=order)
    except EmptyConstraint:
        return None


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=3, max_size=8))
def test_texts_are_accepted_exactly_if_their_values_validate(schema, values):
    try:
        grammar = compiled(schema, "any")
    except REFUSALS:
        assume(False)
    validator = jsonschema.Draft202012Validator(schema)
    for value in values:
        accepted = grammar is not None and grammar.accepts(json.dumps(value))
        assert accepted == validator.is_valid(value), value


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, order=st.sampled_from(["schema", "any"]), data=st.data())
def test_whatever_is_written_validates_at_every_budget(vocabulary, schema, order, data):
    try:
        grammar = compiled(schema, order)
        assume(grammar is not None)
        automaton = TokenAutomaton(grammar, vocabulary)
    except REFUSALS:
        assume(False)
    validator = jsonschema.Draft202012Validator(schema)
    least = automaton.fewest_tokens(automaton.start)
    for left in (least, least + 1, least + 25):
        state, text = automaton.start, b""
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            token = data.draw(st.sampled_from(allowed))
            if token in vocabulary.eos_ids:
                break
            state = automaton.advance(state, token)
            text += vocabulary.tokens[token]
            left -= 1
        assert left >= 0
        assert validator.is_valid(json.loads(text)), text


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), schema=SCHEMAS)
def test_values_of_another_generator_are_accepted(data, schema):
    try:
        grammar = compiled(schema, "any")
    except REFUSALS:
        assume(False)
    assume(grammar is not None)
    try:
        strategy = from_schema(schema)
        strategy.validate()
    except Exception:  # it does not know every schema
        assume(False)
    try:
        value = data.draw(strategy)
    except AttributeError:  # some versions of the two libraries cannot draw objects together
        assume(False)
    assume(jsonschema.Draft202012Validator(schema).is_valid(value))
    assert grammar.accepts(json.dumps(value, ensure_ascii=False))
