"""The options of Schema.json."""

import json

import pytest

from deepinfer_sdk import Schema
from deepinfer_sdk.errors import InvalidSchema, OutputRejected, SchemaNotSupported

POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}


def test_property_order():
    text = '{"y": 1, "x": 2}'
    assert not Schema.json(POINT).check(text)
    assert Schema.json(POINT, property_order="any").check(text)


def test_formats():
    schema = {"type": "string", "format": "time"}
    leap = '"23:59:60Z"'
    assert not Schema.json(schema).check(leap)
    assert Schema.json(schema, formats="assert").check(leap)
    assert Schema.json(schema, formats="annotate").check('"noon"')


def test_white_space():
    value = {"x": 1, "y": 2}
    assert Schema.json(POINT, whitespace="pretty").check(json.dumps(value, indent=2))
    assert Schema.json(POINT, whitespace="compact").check('{"x":1,"y":2}')
    assert Schema.json(POINT, whitespace="flexible").check('{ "x":1\n, "y" :2}')


def test_validating_at_the_end_is_asked_for():
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    with pytest.raises(SchemaNotSupported, match="#/uniqueItems"):
        Schema.json(schema)
    late = Schema.json(schema, on_unsupported="validate")
    assert late.parse('["a", "b"]') == ["a", "b"]
    with pytest.raises(OutputRejected, match="non-unique"):
        late.parse('["a", "a"]')
    again = Schema.from_spec(late.spec)
    with pytest.raises(OutputRejected, match="non-unique"):
        again.parse('["a", "a"]')


def test_types_stay_closed_and_whole_numbers_plain():
    assert not Schema(int).check("1.0")
    assert Schema.json({"type": "integer"}).check("1.0")


@pytest.mark.parametrize("options", [{"order": "any"}, {"property_order": "sorted"}])
def test_unknown_options_are_refused(options):
    with pytest.raises(InvalidSchema, match="option"):
        Schema.json({}, **options)
