"""Two hundred drawn outputs over twenty schemas, from the tightest budget upward: all valid.

Temperature 1.0, the embedded model, judged by jsonschema, Pydantic, `re` and a parser of its own.
"""

import enum
import json
import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from deepinfer_sdk import BudgetTooSmall, SamplingParams, Schema


class Flat(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=130)
    member: bool


class Address(BaseModel):
    street: str = Field(max_length=15)
    zip: str = Field(pattern=r"^\d{5}$")


class Nested(BaseModel):
    home: Address
    work: Address | None


class Node(BaseModel):
    value: int = Field(ge=0, le=9)
    children: list["Node"] = Field(max_length=2)


class Linked(BaseModel):
    letter: Literal["a", "b"]
    rest: "Linked | None" = None


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"
    SO_SO = "so-so"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[Literal["sit", "roll"]] = Field(max_length=3)


class Essay(BaseModel):
    title: str = Field(min_length=3, max_length=20)
    body: str = Field(max_length=400)


class Event(BaseModel):
    day: date
    hours: float = Field(ge=0, le=24)


@dataclass
class Point:
    x: int
    y: int


class Switches(TypedDict):
    light: bool
    sound: bool


TYPES = {
    "flat": Flat,
    "nested": Nested,
    "tree": Node,
    "linked list": Linked,
    "enum": Mood,
    "union": Cat | Dog,
    "long string": Essay,
    "date and number": Event,
    "dataclass": Point,
    "typed dict": Switches,
    "list of models": list[Cat],
    "map": dict[str, bool],
    "tuple": tuple[int, str],
    "any number": float,
}

JSON = {
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "range": {"type": "number", "exclusiveMinimum": -3, "maximum": 7.5},
    "recursive": {
        "$defs": {
            "expr": {
                "anyOf": [
                    {"type": "integer", "minimum": 0, "maximum": 99},
                    {
                        "type": "object",
                        "properties": {
                            "op": {"enum": ["+", "-"]},
                            "left": {"$ref": "#/$defs/expr"},
                            "right": {"$ref": "#/$defs/expr"},
                        },
                        "required": ["op", "left", "right"],
                        "additionalProperties": False,
                    },
                ]
            }
        },
        "$ref": "#/$defs/expr",
    },
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 10, "maximum": 20}}, "additionalProperties": False},
        ]
    },
}

PATTERN = r"\+\d{2} \d{3,4}( \d{2}){2,3}"
GRAMMAR = """
start: sum
sum: term (("+" | "-") term)*
term: NUMBER | "(" sum ")"
NUMBER: /[1-9][0-9]?/
"""


def _typed(kind):
    adapter = TypeAdapter(kind)
    judge = jsonschema.Draft202012Validator(adapter.json_schema())

    def valid(result):
        judge.validate(json.loads(result.text))
        assert adapter.validate_json(result.text) == result.value

    return Schema(kind), valid


def _json(schema):
    judge = jsonschema.Draft202012Validator(schema)

    def valid(result):
        judge.validate(json.loads(result.text))
        assert json.loads(result.text) == result.value

    return Schema.json(schema), valid


def _regex():
    def valid(result):
        assert re.fullmatch(PATTERN, result.text)

    return Schema.regex(PATTERN), valid


def _grammar():
    def valid(result):
        assert re.fullmatch(r"[0-9()+-]+", result.text)
        eval(result.text, {"__builtins__": {}})

    return Schema.ebnf(GRAMMAR), valid


CASES = [
    *((name, _typed, (kind,)) for name, kind in TYPES.items()),
    *((name, _json, (schema,)) for name, schema in JSON.items()),
    ("regex", _regex, ()),
    ("grammar", _grammar, ()),
]
STEPS = (0, 1, 2, 3, 5, 8, 13, 24, 40, 80)


def _least(session, schema):
    """The smallest budget, found the way a user would: by asking for too little."""
    try:
        session.generate("x", schema=schema, sampling=SamplingParams(max_tokens=1))
    except BudgetTooSmall as error:
        return error.least
    return 1


def test_there_are_two_hundred():
    assert len(CASES) == 20
    assert len(CASES) * len(STEPS) == 200


@pytest.mark.parametrize(("name", "make", "arguments"), CASES, ids=[case[0] for case in CASES])
def test_every_drawn_output_is_valid(embedded, name, make, arguments):
    schema, valid = make(*arguments)
    least = _least(embedded, schema)
    started = [
        embedded.stream(
            f"Write an example of this: {name}.",
            schema=schema,
            sampling=SamplingParams(temperature=1.0, seed=seed, max_tokens=least + step),
        )
        for seed, step in enumerate(STEPS)
    ]  # all at once, so that the engine batches them
    for step, stream in zip(STEPS, started, strict=True):
        list(stream)
        valid(stream.result)
        assert len(stream.result.ids) <= least + step
