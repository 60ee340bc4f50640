"""JSON Schema: real schemas, generated values, and one behaviour per keyword."""

import functools
import gzip
import json
import random
from pathlib import Path

import jsonschema
import pytest
from deepinfer_grammars import (
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
    TokenAutomaton,
    compile_json_schema,
    compile_relaxed,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"


@functools.cache
def real_schemas():
    with gzip.open(DATA / "maskbench_public.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compiled(schema, **options):
    """(grammar, None) or (None, the error)."""
    try:
        return compile_json_schema(schema, **options), None
    except GrammarError as error:
        return None, error


def validator(schema):
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return cls(schema, format_checker=cls.FORMAT_CHECKER)


def text_of(value):
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("part", range(4))
def test_real_schemas_take_valid_and_refuse_invalid_instances(part):
    refused = []
    for case in real_schemas()[part::4]:
        grammar, error = compiled(case["schema"], property_order="any")
        if error is not None:
            assert error.pointer is not None, case["id"]
            refused.append(case["id"])
            continue
        for test in case["tests"]:
            accepted = grammar.accepts(text_of(test["data"]))
            assert accepted == test["valid"], (case["id"], test["data"])
    assert len(refused) <= 1, refused  # of 98 or 99; each says where and why


@pytest.mark.parametrize("part", range(4))
def test_random_walks_over_real_schemas_validate(part, vocabulary, walker):
    """From the least budget upward; formats are checked too."""
    for index, case in enumerate(real_schemas()[part * 9 :: 36]):
        try:
            grammar = compile_json_schema(case["schema"])
        except GrammarError:
            continue
        walk = walker(grammar, index)
        least = walk.automaton.fewest_tokens(walk.automaton.start)
        for budget in (least, least + 2, least + 40):
            value = json.loads(walk.text(budget))
            errors = list(validator(case["schema"]).iter_errors(value))
            assert not errors, (case["id"], value, errors[0].message)


SCALARS = st.one_of(
    st.just({"type": "null"}),
    st.just({"type": "boolean"}),
    st.tuples(st.integers(-300, 300), st.integers(0, 400)).map(
        lambda p: {"type": "integer", "minimum": p[0], "maximum": p[0] + p[1]}
    ),
    st.tuples(st.decimals(-50, 50, places=2), st.decimals(0, 60, places=1)).map(
        lambda p: {
            "type": "number",
            "minimum": float(p[0]),
            "exclusiveMaximum": float(p[0] + p[1]) + 0.5,
        }
    ),
    st.tuples(st.integers(0, 4), st.integers(0, 5)).map(
        lambda p: {"type": "string", "minLength": p[0], "maxLength": p[0] + p[1]}
    ),
    st.sampled_from(["^a+b?$", "[0-9]{2}", "^(x|yy)*$", "é|ü", "^[^a-z]*$", "^(?!no)"]).map(
        lambda p: {"type": "string", "pattern": p, "maxLength": 8}
    ),
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)),
             min_size=1, max_size=4).map(lambda v: {"enum": v}),
    st.sampled_from(["date", "time", "uuid", "ipv4", "email"]).map(
        lambda f: {"type": "string", "format": f}
    ),
)  # fmt: skip


def containers(below):
    names = st.lists(st.sampled_from(["a", "b", "c", "name", 'q"', "é"]), unique=True, max_size=4)
    arrays = st.tuples(below, st.integers(0, 2), st.integers(0, 3)).map(
        lambda p: {"type": "array", "items": p[0], "minItems": p[1], "maxItems": p[1] + p[2]}
    )
    tuples = st.tuples(st.lists(below, min_size=1, max_size=3), st.booleans()).map(
        lambda p: {"type": "array", "prefixItems": p[0], **({} if p[1] else {"items": False})}
    )

    @st.composite
    def objects(draw):
        keys = draw(names)
        schema = {"type": "object", "properties": {key: draw(below) for key in keys}}
        schema["required"] = [key for key in keys if draw(st.booleans())]
        closed = draw(st.sampled_from([None, False, True, {"type": "integer"}]))
        if closed is not None:
            schema["additionalProperties"] = closed
        if draw(st.booleans()):
            schema["maxProperties"] = draw(st.integers(len(schema["required"]), 5))
        return schema

    unions = st.lists(below, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    both = st.tuples(below, below).map(lambda pair: {"allOf": list(pair)})
    return arrays | tuples | objects() | unions | both


SCHEMAS = st.recursive(SCALARS, containers, max_leaves=5)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, st.integers(0, 1000))
def test_whatever_is_generated_validates(vocabulary, schema, seed):
    try:
        grammar = compile_json_schema(schema)
    except EmptyConstraint:
        return
    automaton = TokenAutomaton(grammar, vocabulary)
    rng = random.Random(seed)
    least = automaton.fewest_tokens(automaton.start)
    for budget in (least, least + 1, least + 25):
        state, left, out = automaton.start, budget, b""
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            assert allowed, f"dead end after {out!r}"
            token = rng.choice(allowed)
            if token in vocabulary.eos_ids:
                break
            state = automaton.advance(state, token)
            out += vocabulary.tokens[token]
            left -= 1
        assert left >= 0
        assert validator(schema).is_valid(json.loads(out)), (schema, out)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_valid_values_are_accepted_and_invalid_ones_refused(data):
    schema = data.draw(SCHEMAS)
    try:
        grammar = compile_json_schema(schema)
    except EmptyConstraint:
        grammar = None
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-400, 400) | st.text("aby0é\n", max_size=4)
        | st.floats(-60, 60).map(lambda x: round(x, 1)),
        lambda below: st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "name", "z"]), below, max_size=3),
        max_leaves=4,
    )  # fmt: skip
    for _ in range(5):
        value = data.draw(values)
        valid = validator(schema).is_valid(value)
        accepted = grammar is not None and grammar.accepts(text_of(value))
        if accepted:
            assert valid, (schema, value)
        elif valid:
            # 3.0 is an integer to JSON Schema, and objects are written in the schema's order.
            assert "." in text_of(value) or "{" in text_of(value), (schema, value)


@pytest.mark.parametrize(
    ("schema", "takes", "refuses"),
    [
        (True, ["null", "[1, {}]", '{"a": [true]}'], ["nul", "[1,]"]),
        ({"type": "integer", "minimum": -3, "maximum": 12}, ["-3", "0", "12"], ["-4", "13", "01"]),
        ({"type": "integer", "exclusiveMinimum": 0}, ["1", "99999999999"], ["0", "-1"]),
        ({"type": "number", "minimum": 0.1, "maximum": 0.3}, ["0.1", "0.30"], ["0.31", "0"]),
        ({"type": "number"}, ["1e9", "-0.5", "2E-3"], ["1e", ".5", "+1"]),
        ({"enum": ["é", 1, None]}, ['"é"', "1", "null"], ['"e"', "2"]),
        ({"const": {"a": [1]}}, ['{"a": [1]}'], ['{"a": [2]}']),
        ({"type": "string", "maxLength": 2}, ['"é😀"', '"\\u00e9"', '"\\ud83d\\ude00"'],
         ['"abc"', '"\\ud83d"']),
        ({"type": "string", "pattern": "^a.c$"}, ['"a\\"c"', '"a\\\\c"'], ['"ac"', '"a\\nc"']),
        ({"type": ["string", "null"]}, ['"x"', "null"], ["1"]),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1},
         ["[1]", '[1, "x"]'], ["[]", '["x"]']),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        ({"properties": {"a": {"type": "integer"}}, "type": "object"},
         ["{}", '{"a": 1}', '{"b": 2}', '{"a": 1, "b": 2}'], ['{"a": "x"}', '{"b": 1, "a": "x"}']),
        ({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
         ["{}", '{"x": 1}'], ['{"x": 1, "y": 2}', '{"x": "1"}']),
        ({"type": "object", "patternProperties": {"^n": {"type": "integer"}},
          "additionalProperties": {"type": "string"}}, ['{"n1": 3, "x": "y"}'], ['{"n1": "y"}']),
        ({"type": "object", "propertyNames": {"maxLength": 2}}, ['{"ab": 1}'], ['{"abc": 1}']),
        ({"allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 3}}}],
          "properties": {"a": {"type": "integer"}}, "type": "object"},
         ['{"a": 3}'], ["{}", '{"a": 2}']),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"1"'], ["null"]),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
            "next": {"$ref": "#/$defs/n"}}, "additionalProperties": False}}},
         ["{}", '{"next": {"next": {}}}'], ['{"next": 1}']),
        ({"$ref": "#node", "$defs": {"x": {"$anchor": "node", "type": "null"}}}, ["null"], ["1"]),
        ({"enum": [1, 2, 3], "not": {"const": 2}}, ["1", "3"], ["2"]),
    ],
)  # fmt: skip
def test_keyword(schema, takes, refuses):
    grammar = compile_json_schema(schema)
    for text in takes:
        assert grammar.accepts(text), text
        assert validator(schema).is_valid(json.loads(text))
    for text in refuses:
        assert not grammar.accepts(text), text


@pytest.mark.parametrize(
    ("schema", "error", "pointer"),
    [
        ({"type": "array", "uniqueItems": True}, SchemaNotSupported, "#/uniqueItems"),
        ({"type": "string", "pattern": "(a)\\1"}, SchemaNotSupported, "#/pattern"),
        ({"not": {"format": "uri-reference"}}, SchemaNotSupported, "#/not/format"),
        ({"not": {"uniqueItems": True}}, SchemaNotSupported, "#/not/uniqueItems"),
        ({"not": {"$ref": "#"}}, SchemaNotSupported, "#"),
        ({"multipleOf": 0.123456789}, SchemaNotSupported, "#/multipleOf"),
        ({"$ref": "https://example.com/x.json"}, SchemaNotSupported, "#/$ref"),
        ({"$ref": "#/$defs/gone"}, InvalidConstraint, "#/$ref"),
        ({"type": "strin"}, InvalidConstraint, "#/type"),
        ({"properties": {"a": {"minimum": "x"}}}, InvalidConstraint, "#/properties/a/minimum"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, EmptyConstraint, "#"),
        ({"type": "object", "properties": {"a": {"minLength": 3, "maxLength": 2, "type": "string"}},
          "required": ["a"]}, EmptyConstraint, "#/properties/a"),
        ({"$ref": "#"}, EmptyConstraint, "#"),
        ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"},
          "minItems": 1}}}, EmptyConstraint, None),
        ({"type": "object", "minProperties": 3}, SchemaNotSupported, "#/minProperties"),
    ],
)  # fmt: skip
def test_refusals_name_the_place(schema, error, pointer):
    with pytest.raises(error) as caught:
        compile_json_schema(schema)
    assert type(caught.value) is error
    if pointer is not None:
        assert caught.value.pointer == pointer


def test_a_float_is_an_integer_from_draft_6_on():
    for draft, whole in (("04", False), ("06", True), ("07", True)):
        schema = {"$schema": f"http://json-schema.org/draft-{draft}/schema#", "type": "integer"}
        for text in ("1.0", "9e64", "-0.0"):
            assert validator(schema).is_valid(json.loads(text)) == whole
            assert compile_json_schema(schema).accepts(text) == whole
        assert compile_json_schema(schema).accepts("12")


def test_white_space_policies():
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    compact = compile_json_schema(schema, whitespace="compact")
    assert compact.accepts('{"a":[1,2]}')
    assert not compact.accepts('{"a": [1,2]}')
    flexible = compile_json_schema(schema, whitespace="flexible", max_whitespace=2)
    assert flexible.accepts('{ \n"a" : [ 1 ,2]  }')
    assert not flexible.accepts('{   "a": []}')


@pytest.mark.parametrize("indent", [0, 1, 2, 4])
def test_pretty_is_what_json_dumps_writes_with_an_indent(indent):
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "object"}}}
    pretty = compile_json_schema(schema, whitespace="pretty")
    for value in ({}, {"a": []}, {"a": [1, {"x": [2, 3]}], "b": {"c": None, "d": {}}}):
        assert pretty.accepts(json.dumps(value, indent=indent))
    assert not pretty.accepts('{"a": []}')
    assert not pretty.accepts('{\n\n"a": []\n}')


@pytest.mark.parametrize(
    ("schema", "dropped"),
    [
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["#/uniqueItems"]),
        ({"properties": {"not": {"pattern": "(a)\\1"}}}, ["#/properties/not/pattern"]),
        ({"not": {"properties": {"a": {"format": "iri-reference"}}, "required": ["a"]}}, ["#/not"]),
        ({"contains": {"format": "regex"}, "maxContains": 1}, ["#/contains"]),
        ({"if": {"not": {"uniqueItems": True}}, "then": {"minLength": 3}}, ["#/if"]),
    ],
)
def test_what_cannot_be_enforced_can_be_left_out(schema, dropped):
    grammar, left_out = compile_relaxed(schema)
    assert left_out == dropped
    for value in ([], ["a"], [1, 2], {}, {"not": "x"}, "long enough", 1):
        if validator(schema).is_valid(value):
            assert grammar.accepts(text_of(value))


def test_extra_properties_option_closes_silent_objects_only():
    schema = {"type": "object", "properties": {"a": {}}}
    closed = compile_json_schema(schema, extra_properties=False)
    assert closed.accepts('{"a": 1}')
    assert not closed.accepts('{"b": 1}')
    said = compile_json_schema({**schema, "additionalProperties": True}, extra_properties=False)
    assert said.accepts('{"b": 1}')


@pytest.mark.parametrize("schema", [{"enum": ["\ud800"]}, {"properties": {"\udfff": {}}}])
def test_half_characters_are_refused(schema):
    with pytest.raises(InvalidConstraint, match="half a character"):
        compile_json_schema(schema)


@pytest.mark.parametrize("depth", [900, 10_000])
def test_deep_schemas_are_bounded(depth):
    arrays = objects = {"type": "integer"}
    for _ in range(depth):
        arrays = {"type": "array", "items": arrays, "minItems": 1}
        objects = {"type": "object", "properties": {"a": objects}, "required": ["a"]}
    for deep in (arrays, objects):
        grammar, error = compiled(deep)
        if depth > 1_000:
            assert "nested" in str(error)
        elif deep is arrays:
            assert grammar.accepts("[" * depth + "1" + "]" * depth)
        else:
            assert grammar.accepts('{"a": ' * depth + "1" + "}" * depth)


def test_big_enums_are_bounded():
    words = [f"w{i * 7919 % 100_003}" for i in range(100_000)]
    many = compile_json_schema({"enum": words})
    assert many.accepts('"w7919"')
    assert not many.accepts('"x"')
