"""Numbers are right as the decimals that are written and as the doubles that validators read."""

import json
from fractions import Fraction

import jsonschema
import pytest
from deepinfer_grammars import (
    EmptyConstraint,
    SchemaNotSupported,
    compile_json_schema,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

UNITS = [1, 2, 3, 7, 10, 0.1, 0.01, 0.001, 0.3, 0.05, 0.25, 0.5, 1.5, 2.0, 3.0, 12.5, 1e-05]
LARGE = [2**53, 2**53 + 1, 2**63 - 1, 10**20, 10**23, 1e16, 1e23, 1e300, 10**400]
BOUNDS = st.one_of(
    st.integers(-20, 20),
    st.floats(-20, 20).map(lambda x: round(x, 3)),
    st.sampled_from([0, 1, 0.1, 0.3, 1e-9, 5e-324, 100.5, *LARGE]),
    st.sampled_from(LARGE).map(lambda x: -x),
    st.floats(allow_nan=False, allow_infinity=False),
)
SIMPLE = st.one_of(
    BOUNDS.map(lambda b: {"minimum": b}),
    BOUNDS.map(lambda b: {"maximum": b}),
    BOUNDS.map(lambda b: {"exclusiveMinimum": b}),
    BOUNDS.map(lambda b: {"exclusiveMaximum": b}),
    st.sampled_from(UNITS).map(lambda u: {"multipleOf": u}),
    BOUNDS.map(lambda b: {"const": b}),
    st.just({"type": "integer"}),
)
SCHEMAS = st.lists(st.one_of(SIMPLE, SIMPLE.map(lambda s: {"not": s})), min_size=1, max_size=3).map(
    lambda parts: {"type": "number", "allOf": parts}
)


def holds_exactly(schema, value):
    """Whether a number satisfies a schema in exact arithmetic."""
    limits = {
        "minimum": lambda b: value >= b,
        "maximum": lambda b: value <= b,
        "exclusiveMinimum": lambda b: value > b,
        "exclusiveMaximum": lambda b: value < b,
        "multipleOf": lambda u: (value / u).denominator == 1,
        "const": lambda c: value == c,
    }
    for keyword, given_value in schema.items():
        if keyword == "allOf":
            held = all(holds_exactly(part, value) for part in given_value)
        elif keyword == "not":
            held = not holds_exactly(given_value, value)
        elif keyword == "type":
            held = given_value == "number" or value.denominator == 1
        else:
            held = limits[keyword](Fraction(json.dumps(given_value)))
        if not held:
            return False
    return True


def right_both_ways(schema, text):
    read = json.loads(text)
    return jsonschema.Draft202012Validator(schema).is_valid(read) and holds_exactly(
        schema, Fraction(text)
    )


def compiled(schema):
    try:
        return compile_json_schema(schema)
    except SchemaNotSupported:
        assume(False)
    except EmptyConstraint:
        return None


def numbers_in(schema):
    return [
        below
        for part in schema["allOf"]
        for value in part.values()
        for below in (value.values() if isinstance(value, dict) else [value])
        if not isinstance(below, str)
    ]


@st.composite
def texts_near(draw, schema):
    """Decimals with many digits around the numbers in a schema."""
    base = Fraction(json.dumps(draw(st.sampled_from([0, 1, *numbers_in(schema)]))))
    base *= draw(st.sampled_from([1, 1, 2, 3, 7]))
    places = draw(st.integers(0, 40))
    step = draw(st.integers(-3, 3))
    scaled = round(base * 10**places) + step
    digits = str(abs(scaled)).zfill(places + 1)
    text = ("-" if scaled < 0 else "") + digits[: len(digits) - places]
    return text + (
        "." + digits[len(digits) - places :] if places else draw(st.sampled_from(["", ".0"]))
    )


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, data=st.data())
def test_a_number_near_the_edge_is_taken_only_if_it_is_right_both_ways(schema, data):
    grammar = compiled(schema)
    for _ in range(6):
        text = data.draw(texts_near(schema))
        if grammar is not None and grammar.accepts(text):
            assert right_both_ways(schema, text), text


ORDINARY = st.one_of(
    st.integers(-30, 30),
    st.integers(-(10**15), 10**15),
    st.decimals(-1000, 1000, places=3).map(float),
    st.integers(-500, 500).map(lambda n: n / 100),
    # Exponents end at 308, so some subnormal numbers cannot be written.
    st.floats(-1e9, 1e9)
    .map(lambda x: float(f"{x:.12g}"))
    .filter(lambda x: not 0 < abs(x) < 1e-307),
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, values=st.lists(ORDINARY, min_size=4, max_size=10))
def test_ordinary_numbers_that_are_right_both_ways_are_taken(schema, values):
    grammar = compiled(schema)
    least, most = (1e-3, 2**53) if "multipleOf" in json.dumps(schema) else (1e-307, 1e307)
    listed = [value for value in numbers_in(schema) if value == 0 or least < abs(value) < most]
    for value in (*values, *listed):
        text = json.dumps(value)
        if right_both_ways(schema, text):
            assert grammar is not None, text
            assert grammar.accepts(text), text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, seed=st.integers(0, 2**32), more=st.integers(0, 40))
def test_whatever_is_written_is_right_both_ways(walker, schema, seed, more):
    grammar = compiled(schema)
    assume(grammar is not None)
    walk = walker(grammar, seed)
    text = walk.text(walk.automaton.fewest_tokens(walk.automaton.start) + more).decode()
    assert right_both_ways(schema, text), text


def test_multiples_that_only_decimals_have_are_for_types_alone():
    schema = {"type": "number", "multipleOf": 0.05}
    assert not compile_json_schema(schema).accepts("1.15")
    assert compile_json_schema(schema, decimal_multiples=True).accepts("1.15")


@pytest.mark.parametrize(
    ("unit", "reason"), [(1e-16, "has 16 decimals; 15 can"), (0.123456789, "123456789 remainders")]
)
def test_units_with_too_many_digits_are_refused_with_the_reason(unit, reason):
    with pytest.raises(SchemaNotSupported, match=reason) as caught:
        compile_json_schema({"multipleOf": unit})
    assert caught.value.hint is not None
