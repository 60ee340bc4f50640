"""Schema[T]: every source of a constraint, what it refuses, and how texts are read back."""

import enum
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from deepinfer_sdk import (
    ImpossibleSchema,
    InvalidSchema,
    OutputRejected,
    Schema,
    SchemaError,
    SchemaNotSupported,
)


class City(BaseModel):
    name: str = Field(max_length=10)
    people: int = Field(ge=0)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int


class Options(TypedDict):
    loud: bool


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def check(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd numbers are not wanted")
        return value


TYPES = [
    (City, '{"name": "Lima", "people": 10}', City(name="Lima", people=10)),
    (Colour, '"red"', Colour.RED),
    (Point, '{"x": 1, "y": -2}', Point(1, -2)),
    (Options, '{"loud": true}', {"loud": True}),
    (int, "42", 42),
    (list[int], "[1, 2]", [1, 2]),
    (Literal["a", "b"], '"b"', "b"),
    (Annotated[int, Field(ge=3)], "3", 3),
    (City | None, "null", None),
    (dict[str, bool], '{"k": false}', {"k": False}),
]


@pytest.mark.parametrize(("kind", "text", "value"), TYPES, ids=lambda x: str(x)[:20])
def test_a_type_accepts_its_json_and_reads_it_back(kind, text, value):
    schema = Schema(kind)
    assert schema.check(text).ok, schema.check(text)
    assert schema.parse(text) == value


def test_a_typed_model_takes_no_properties_it_does_not_know():
    assert not Schema(City).check('{"name": "Lima", "people": 1, "mayor": "x"}')


def test_json_schema_comes_as_data_or_text():
    by_data = Schema.json({"type": "integer", "minimum": 3})
    by_text = Schema.json('{"type": "integer", "minimum": 3}')
    assert by_data.spec == by_text.spec
    assert by_data.parse("4") == 4
    assert not by_data.check("2")


def test_json_schema_allows_further_properties_unless_told_otherwise():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    text = '{"a": 1, "b": 2}'
    assert Schema.json(schema).check(text)
    assert not Schema.json(schema, extra_properties=False).check(text)


def test_choice_returns_the_option_itself():
    assert Schema.choice("yes", "no").parse("yes") == "yes"
    assert Schema.choice(1, 2, 30).parse("30") == 30
    assert Schema.choice(True, False).parse("true") is True
    assert not Schema.choice("yes", "no").check("maybe")


def test_regex_matches_from_end_to_end():
    schema = Schema.regex(r"\d{4}-\d{2}-\d{2}")
    assert schema.parse("2024-01-31") == "2024-01-31"
    assert not schema.check("on 2024-01-31")


def test_ebnf_takes_both_notations():
    assert Schema.ebnf('start: "a" | "b" start').check("bba")
    assert Schema.ebnf('root ::= "a" | "b" root').check("bba")


def test_any_of_reads_the_first_alternative_that_fits():
    schema = Schema.any_of(City, int, Schema.choice("none"))
    assert schema.parse("7") == 7
    assert schema.parse("none") == "none"
    assert schema.parse('{"name": "Lima", "people": 1}') == City(name="Lima", people=1)


def test_check_names_the_byte_and_the_reason():
    check = Schema(City).check('{"name": "Lima", "people": x}')
    assert (check.ok, check.byte) == (False, 27)
    assert "'x'" in check.reason
    assert "'0' to '9'" in check.reason


def test_check_counts_bytes_not_characters():
    assert Schema.regex("ä+").check("äääb").byte == 6


def test_check_says_when_the_text_ends_too_early():
    check = Schema.regex(r"\d{4}").check("12")
    assert check.byte == 2
    assert "ends too early" in check.reason


def test_check_runs_the_validators():
    check = Schema(Even).check('{"number": 3}')
    assert check.byte is None
    assert "odd numbers are not wanted" in check.reason


def test_a_validator_that_refuses_keeps_the_text():
    with pytest.raises(OutputRejected, match="odd numbers are not wanted") as caught:
        Schema(Even).parse('{"number": 3}')
    assert caught.value.text == '{"number": 3}'
    assert "error.text" in caught.value.hint


REFUSED = [
    (lambda: Schema(object()), InvalidSchema, "no JSON Schema"),
    (lambda: Schema.json("{"), InvalidSchema, "not JSON"),
    (lambda: Schema.json("[]"), InvalidSchema, "not list"),
    (lambda: Schema.json({"type": "strnig"}), InvalidSchema, "strnig"),
    (lambda: Schema.json({"type": "integer", "enum": ["a"]}), ImpossibleSchema, ""),
    (lambda: Schema.json({"type": "integer", "minimum": 3, "maximum": 2}), ImpossibleSchema, ""),
    (lambda: Schema.regex("("), InvalidSchema, "position"),
    (lambda: Schema.regex(r"(a)\1"), SchemaNotSupported, ""),
    (lambda: Schema.regex(3), InvalidSchema, "not text"),
    (lambda: Schema.ebnf("start: missing"), InvalidSchema, "missing"),
    (lambda: Schema.choice(), ImpossibleSchema, "no options"),
    (lambda: Schema.choice("a", "a"), InvalidSchema, "twice"),
    (lambda: Schema.choice(None), InvalidSchema, "None"),
    (lambda: Schema.any_of(), ImpossibleSchema, "no alternatives"),
]


@pytest.mark.parametrize(("make", "kind", "words"), REFUSED)
def test_what_cannot_work_is_refused_when_the_schema_is_made(make, kind, words):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, SchemaError)
    assert words in str(caught.value)


def test_an_unsupported_keyword_is_named_by_its_pointer():
    schema = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(SchemaNotSupported, match="#/properties/tags") as caught:
        Schema.json(schema)
    assert caught.value.hint


def test_equal_schemas_share_one_grammar_and_the_cache_can_be_cleared():
    from deepinfer_sdk import grammar_cache

    first = Schema.regex("[a-c]+x").grammar()
    assert Schema.regex("[a-c]+x").grammar() is first
    grammar_cache.clear()
    assert Schema.regex("[a-c]+x").grammar() is not first
