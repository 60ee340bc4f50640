"""Every keyword of the table in the docs does what the table says."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
from deepinfer_grammars import SchemaNotSupported, compile_json_schema

HERE = Path(__file__).parent


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = load(HERE / "keyword_cases.py")


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("row", CASES.KEYWORDS, ids=lambda row: row[0])
def test_keyword(row, order):
    _, state, schema, valid, invalid = row
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = cls(schema, format_checker=cls.FORMAT_CHECKER)
    grammar = compile_json_schema(schema, property_order=order)
    assert validator.is_valid(valid)
    assert grammar.accepts(json.dumps(valid, ensure_ascii=False))
    if state != CASES.NOTED:
        assert not validator.is_valid(invalid)
        assert not grammar.accepts(json.dumps(invalid, ensure_ascii=False))


@pytest.mark.parametrize("row", CASES.REFUSALS, ids=lambda row: row[0])
def test_refusal(row):
    _, schema, pointer = row
    with pytest.raises(SchemaNotSupported) as caught:
        compile_json_schema(schema)
    assert caught.value.pointer == pointer
    assert caught.value.hint


def test_the_page_is_written_from_these_cases():
    root = HERE.parents[1]
    script = load(root / "scripts" / "keyword_table.py")
    assert (root / "docs" / "json_schema.md").read_text(encoding="utf-8") == script.page()
