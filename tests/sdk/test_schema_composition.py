"""Schemas made of schemas: the values they are read back into, and outputs of a real session."""

import datetime
import json
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from deepinfer_sdk import (
    BudgetTooSmall,
    InvalidSchema,
    OutputRejected,
    Result,
    SamplingParams,
    Schema,
    SchemaNotSupported,
    Tag,
    TagValue,
    Thought,
    ToolCall,
)
from deepinfer_sdk.testing import FakeSession


class Person(BaseModel):
    name: str
    age: int


@dataclass
class Point:
    x: int


def search(query: str, limit: int = 3) -> list[str]:
    raise AssertionError("a tool is never called")


def remind(when: datetime.date, kind: Literal["mail", "call"], points: list[Point]) -> None:
    raise AssertionError("a tool is never called")


def now() -> str:
    raise AssertionError("a tool is never called")


class Refund(BaseModel):
    cents: Annotated[int, Field(ge=1)]


@pytest.fixture(scope="module")
def session():
    with FakeSession() as opened:
        yield opened


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (Schema.sequence("Age: ", int), "Age: 7", (7,)),
        (
            Schema.sequence(Person, "\n", Schema.choice("yes", "no"), "."),
            '{"name": "Ann", "age": 3}\nyes.',
            (Person(name="Ann", age=3), "yes"),
        ),
        (Schema.sequence(Schema.regex("a*"), Schema.regex("a?b")), "aab", ("aa", "b")),
        (Schema.sequence(Schema.text(until=";"), int), "x é 1;2", ("x é 1", 2)),
        (Schema.sequence("only"), "only", ()),
        (Schema.optional(int), "", None),
        (Schema.optional(int), "12", 12),
        (Schema.repeat(int, separator=", "), "1, 22, 3", [1, 22, 3]),
        (Schema.repeat(int, separator=", "), "", []),
        (Schema.repeat(Schema.regex("[ab]{1,2}"), at_least=3), "abab", ["ab", "a", "b"]),
        (Schema.repeat(Schema.regex("a?"), at_least=2, at_most=2), "a", ["a", ""]),
        (Schema.text(), "free", "free"),
        (Schema.text(until="END", max_chars=3), "abcEND", "abc"),
        (
            Schema.thinking(Person),
            '<think>a < b</think>\n\n{"name": "B", "age": 1}',
            Thought(thinking="a < b", answer=Person(name="B", age=1)),
        ),
        (Schema.thinking(int, begin=""), "so</think>4", Thought(thinking="so", answer=4)),
        (
            Schema.tagged(Tag("<n>", int, "</n>"), Tag("<p>", Person, "</p>")),
            'a<n>1</n><p>{"name": "</p>", "age": 2}</p> z',
            (
                "a",
                TagValue(begin="<n>", value=1),
                TagValue(begin="<p>", value=Person(name="</p>", age=2)),
                " z",
            ),
        ),
        (Schema.tagged(Tag("<n>", int, "")), "", ()),
        (
            Schema.tools(search, now),
            'I look.\n<tool_call>{"name": "search", "arguments": {"query": "</tool_call>"}}'
            "</tool_call>"
            '<tool_call>{"name": "now", "arguments": {}}</tool_call>',
            (
                "I look.\n",
                ToolCall(name="search", arguments={"query": "</tool_call>"}),
                ToolCall(name="now", arguments={}),
            ),
        ),
        (
            Schema.tools(remind, Refund, begin="[", end="]"),
            '[{"name": "remind", "arguments": {"when": "2026-12-01", "kind": "mail", "points": '
            '[{"x": 1}]}}][{"name": "Refund", "arguments": {"cents": 5}}]',
            (
                ToolCall(
                    name="remind",
                    arguments={
                        "when": datetime.date(2026, 12, 1),
                        "kind": "mail",
                        "points": [Point(1)],
                    },
                ),
                ToolCall(name="Refund", arguments=Refund(cents=5)),
            ),
        ),
        (
            Schema.any_of(Schema.sequence("a", int), Schema.repeat(Person)),
            "a1",
            (1,),
        ),
    ],
)
def test_texts_are_read_into_parts(schema, text, value):
    assert schema.check(text)
    assert schema.parse(text) == value
    again = Schema.from_spec(type(schema.spec).model_validate_json(schema.spec.model_dump_json()))
    assert again.grammar() is schema.grammar()
    assert again.check(text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema.sequence("Age: ", int), "Age: x"),
        (Schema.repeat(int, separator=","), "1,"),
        (Schema.repeat(int, separator=",", at_most=2), "1,2,3"),
        (Schema.thinking(int), "<think>4"),
        (Schema.thinking(int), "<think>a</think>b</think>4"),
        (Schema.tagged(Tag("<n>", int, "</n>")), "<n>x</n>"),
        (Schema.tagged(Tag("<n>", int, "</n>"), at_least=1), "text"),
        (Schema.tools(search), '<tool_call>{"name": "other", "arguments": {}}</tool_call>'),
        (Schema.tools(search), '<tool_call>{"name": "search", "arguments": {}}</tool_call>'),
    ],
)
def test_other_texts_are_refused(schema, text):
    assert not schema.check(text)
    with pytest.raises(OutputRejected):
        schema.parse(text)


def test_arguments_call_the_tool_they_are_for():
    text = '<tool_call>{"name": "search", "arguments": {"query": "x", "limit": 2}}</tool_call>'
    (call,) = Schema.tools(search).parse(text)
    assert (lambda query, limit=3: (query, limit))(**call.arguments) == ("x", 2)


@pytest.mark.parametrize("budget", [30, 45, 70, 120])
def test_outputs_of_a_session_are_whole_at_any_budget(session, budget):
    sampling = SamplingParams(max_tokens=budget, seed=budget, temperature=1.0)
    schema = Schema.thinking(Schema.sequence("n=", int))
    result = session.generate("a", schema=schema, sampling=sampling)
    assert len(result.ids) <= budget
    thought = result.value
    assert isinstance(thought, Thought)
    assert result.text.startswith(f"<think>{thought.thinking}</think>")
    assert "</think>" not in thought.thinking
    assert result.text.endswith(f"n={json.dumps(thought.answer[0])}")


@pytest.mark.parametrize("seed", range(6))
def test_tool_calls_of_a_session_name_a_tool_and_fit_its_signature(session, seed):
    sampling = SamplingParams(max_tokens=150, seed=seed, temperature=1.0)
    schema = Schema.tools(search, now, at_least=1, at_most=2)
    calls = [
        part
        for part in session.generate("a", schema=schema, sampling=sampling).value
        if isinstance(part, ToolCall)
    ]
    assert 1 <= len(calls) <= 2
    for call in calls:
        assert call.name in ("search", "now")
        assert isinstance(call.arguments.get("query", ""), str)
        assert isinstance(call.arguments.get("limit", 0), int)


def test_a_budget_that_holds_no_whole_output_is_refused(session):
    with pytest.raises(BudgetTooSmall):
        session.generate("a", schema=Schema.thinking(int), sampling=SamplingParams(max_tokens=3))


def test_results_of_composed_schemas_are_plain_data(session):
    sampling = SamplingParams(max_tokens=60, seed=1, temperature=1.0)
    result = session.generate("a", schema=Schema.thinking(int), sampling=sampling)
    again = Result[Thought[int]].model_validate_json(result.model_dump_json())
    assert again.value == result.value
    assert session.replay(result).same


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Schema.sequence(), InvalidSchema, "no parts"),
        (lambda: Schema.text(until=3), InvalidSchema, "int"),
        (lambda: Schema.text(until=""), InvalidSchema, "tag is empty"),
        (
            lambda: Schema.repeat(int, at_least=2, at_most=1),
            InvalidSchema,
            "at least 2 and at most 1",
        ),
        (lambda: Schema.repeat(int, separator=None), InvalidSchema, "NoneType"),
        (lambda: Schema.tagged(), InvalidSchema, "at least one"),
        (lambda: Schema.tagged(Tag("a", int, None)), InvalidSchema, "NoneType"),
        (lambda: Schema.tagged(Tag("<", int, ""), Tag("<a", int, "")), InvalidSchema, "holds"),
        (lambda: Schema.tools(lambda query: query), InvalidSchema, "no type"),
        (lambda: Schema.tools(print), InvalidSchema, "by name"),
        (lambda: Schema.tools(3), InvalidSchema, "neither"),
        (
            lambda: Schema.sequence(Schema.regex("a", engine="outlines"), "b"),
            SchemaNotSupported,
            "one regular expression",
        ),
    ],
)
def test_mistakes_are_refused_with_a_hint(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make()
    assert caught.value.hint
