"""Types that editors must infer; checked by mypy and pyright, never run."""

from dataclasses import dataclass
from typing import TypedDict, assert_type

from pydantic import BaseModel

from deepinfer_sdk import (
    AsyncStream,
    DeepInferError,
    Result,
    Sample,
    SamplingParams,
    Schema,
    Session,
    Stream,
    StreamEvent,
    TextDelta,
)


class City(BaseModel):
    name: str


class Country(BaseModel):
    code: str


@dataclass
class Point:
    x: int


class Options(TypedDict):
    loud: bool


def blocking(session: Session) -> None:
    assert_type(session.generate("a"), Result[str])
    assert_type(session.generate("a").value, str)
    assert_type(session.generate("a", schema=City), Result[City])
    assert_type(session.generate("a", schema=City).value, City)
    assert_type(session.generate("a", schema=City).samples, tuple[Sample[City], ...])
    assert_type(session.generate("a", schema=int).value, int)
    assert_type(session.generate("a", schema=list[City]).value, list[City])
    assert_type(session.generate("a", schema=Point).value, Point)
    assert_type(session.generate("a", schema=Options).value, Options)
    assert_type(session.generate("a", schema=Schema(City)).value, City)
    assert_type(session.generate("a", schema=Schema.regex("x")).value, str)
    assert_type(session.generate("a", schema=Schema.choice("yes", "no")).value, str)
    assert_type(session.generate("a", schema=Schema.choice(1, 2)).value, int)
    assert_type(session.generate("a", schema=Schema.any_of(City, Country)).value, City | Country)
    assert_type(
        session.generate("a", schema=Schema.any_of(City, Schema.regex("x"))).value, City | str
    )
    assert_type(session.map(["a"]), list[Result[str]])
    assert_type(session.map(["a"], schema=City), list[Result[City]])
    assert_type(session.map(["a"], on_error="return"), list[Result[str] | DeepInferError])
    assert_type(
        session.map(["a"], schema=City, on_error="return"), list[Result[City] | DeepInferError]
    )
    assert_type(session.chat([{"role": "user", "content": "a"}], schema=City), Result[City])
    stream = session.stream("a", schema=City)
    assert_type(stream, Stream[City])
    assert_type(stream.result.value, City)
    for event in stream:
        assert_type(event, StreamEvent)
        if isinstance(event, TextDelta):
            assert_type(event.text, str)
    with Session() as opened:
        assert_type(opened, Session)


async def awaiting(session: Session) -> None:
    assert_type(await session.agenerate("a"), Result[str])
    assert_type(await session.agenerate("a", schema=City), Result[City])
    assert_type(await session.amap(["a"], schema=City), list[Result[City]])
    assert_type(await session.achat([{"role": "user", "content": "a"}]), Result[str])
    stream = session.astream("a", schema=list[int])
    assert_type(stream, AsyncStream[list[int]])
    async for event in stream:
        assert_type(event, StreamEvent)
    assert_type(stream.result.value, list[int])


def values() -> None:
    assert_type(SamplingParams(temperature=0.5, stop=("a",)).with_(seed=3), SamplingParams)
    assert_type(Schema(City).parse("{}"), City)
    assert_type(Schema.json({"type": "null"}).check("null").ok, bool)


def wrong(session: Session) -> None:
    session.generate("a", schema=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.generate("a", tempo=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    session.generate(["a"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
