"""Schemas made of schemas: the values they are read back into, and how a text is split into parts.

A text is split by the grammars of its parts, never by guessing: what a part may be decides where it
can end. Where several splits fit, earlier parts take all they can, as in a regular expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from .errors import OutputRejected
from .json_settings import json_parser

if TYPE_CHECKING:
    from .result import SchemaSpec
    from .schema import Schema

T = TypeVar("T")


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Thought(_Value, Generic[T]):
    """An answer and the thinking before it.

    Attributes:
        thinking: The text between the tags.
        answer: The answer, as its type.
    """

    thinking: str
    answer: T


class TagValue(_Value):
    """What stood between two tags.

    Attributes:
        begin: The tag that began it.
        value: The content, as its type.
    """

    begin: str
    value: Any


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag that switches a constraint on: `begin`, something of `content`, `end`.

    Args:
        begin: For example ``"<tool_call>"``. Free text never contains it otherwise.
        content: A type or a Schema.
        end: For example ``"</tool_call>"``.
    """

    begin: str
    content: Any
    end: str


def reader(spec: SchemaSpec, parts: Sequence[Schema[Any]]) -> Callable[[str], Any]:
    """How an output of a constraint becomes a value.

    Args:
        spec: The constraint; JSON is read as plain data.
        parts: The schemas of its parts.
    """
    source: Any = spec.source
    if spec.kind == "json":
        return json_parser(spec)
    if spec.kind == "text":
        return lambda text: text.removesuffix(source["until"] or "")
    if spec.kind == "any_of":
        return lambda text: _read_any(parts, text)
    if spec.kind == "sequence":
        fixed = [part.kind == "literal" for part in spec.parts]
        return lambda text: _read_sequence(parts, fixed, text)
    if spec.kind == "repeat":
        return lambda text: _read_repeat(parts[0], text, **source)
    if spec.kind == "tagged":
        tags = [(*tag, part) for tag, part in zip(source["tags"], parts, strict=True)]
        return lambda text: _read_tagged(tags, source["at_least"], source["at_most"], text)
    return str


def _read_any(schemas: Sequence[Schema[Any]], text: str) -> Any:
    """The value of the first schema that takes the text.

    Raises:
        ValueError: None does.
    """
    refused: list[str] = []
    for schema in schemas:
        if schema.grammar().accepts(text):
            try:
                return schema.parse(text)
            except OutputRejected as error:
                refused.append(error.message)
    raise ValueError("; ".join(refused) or "no alternative takes it")


def _read_sequence(
    parts: Sequence[Schema[Any]], fixed: Sequence[bool], text: str
) -> tuple[Any, ...]:
    """The values of the parts that are not fixed text.

    Raises:
        ValueError: The text is not such a sequence.
    """
    data = text.encode()
    grammars = [part.grammar() for part in parts]
    cuts = _split(
        lambda index, at: grammars[index].ends(data, at)[::-1],
        lambda index, at: index == len(parts) and at == len(data),
        len(parts),
    )
    if cuts is None:
        raise ValueError("it is not such a sequence")
    return tuple(
        part.parse(data[start:end].decode())
        for part, given, (start, end) in zip(parts, fixed, pairwise(cuts), strict=True)
        if not given
    )


def _read_repeat(
    item: Schema[T], text: str, *, separator: str, at_least: int, at_most: int | None
) -> list[T]:
    """The values of the copies.

    Raises:
        ValueError: The text is not such a repeat.
    """
    data, between = text.encode(), separator.encode()
    if not data and at_least == 0:
        return []
    grammar = item.grammar()

    def ends(index: int, at: int) -> list[int]:
        if index:
            if not data.startswith(between, at):
                return []
            at += len(between)
        found = grammar.ends(data, at)[::-1]
        # An empty copy that adds nothing would go on for ever.
        return [end for end in found if end > at or between or index < at_least]

    most = len(data) + at_least + 1 if at_most is None else at_most
    cuts = _split(ends, lambda index, at: index >= at_least and at == len(data), most)
    if cuts is None:
        raise ValueError("it is not such a repeat")
    gaps = [0, *[len(between)] * (len(cuts) - 2)]
    return [
        item.parse(data[start + gap : end].decode())
        for start, end, gap in zip(cuts, cuts[1:], gaps, strict=False)
    ]


def _read_tagged(
    tags: Sequence[tuple[str, str, Schema[Any]]], at_least: int, at_most: int | None, text: str
) -> tuple[str | TagValue, ...]:
    """Free text and the values between tags, in order; empty text is left out.

    Raises:
        ValueError: The text is not such tagged text.
    """
    data = text.encode()
    begins = [begin.encode() for begin, _, _ in tags]

    def blocks(index: int, at: int) -> Iterator[tuple[int, int, int, int, int]]:
        """(end, begin of the tag, tag, begin and end of the content) of a next block."""
        first = min((p for begin in begins if (p := data.find(begin, at)) >= 0), default=-1)
        for number, (begin, (_, end, content)) in enumerate(zip(begins, tags, strict=True)):
            if first < 0 or not data.startswith(begin, first):
                continue
            inside = first + len(begin)
            closing = end.encode()
            for after in content.grammar().ends(data, inside):
                if data.startswith(closing, after):
                    yield after + len(closing), first, number, inside, after

    found: dict[tuple[int, int, int], tuple[int, int, int, int, int]] = {}

    def ends(index: int, at: int) -> Iterator[int]:
        for block in blocks(index, at):
            found.setdefault((index, at, block[0]), block)
            yield block[0]

    def done(index: int, at: int) -> bool:
        return index >= at_least and not any(data.find(begin, at) >= 0 for begin in begins)

    cuts = _split(ends, done, len(data) if at_most is None else at_most)
    if cuts is None:
        raise ValueError("it is not such tagged text")
    values: list[str | TagValue] = []
    for index, (start, end) in enumerate(pairwise(cuts)):
        _, first, number, inside, after = found[index, start, end]
        if first > start:
            values.append(data[start:first].decode())
        begin, _, content = tags[number]
        values.append(TagValue(begin=begin, value=content.parse(data[inside:after].decode())))
    if cuts[-1] < len(data):
        values.append(data[cuts[-1] :].decode())
    return tuple(values)


def _split(
    ends: Callable[[int, int], Sequence[int] | Iterator[int]],
    done: Callable[[int, int], bool],
    most: int,
) -> list[int] | None:
    """Cuts 0, c1, c2, ... such that every piece fits, by depth-first search.

    Args:
        ends: Where piece `index` that begins at a place may end, best first.
        done: Whether `index` pieces up to a place are all.
        most: Most pieces.
    """
    if done(0, 0):
        return [0]
    path = [0]
    failed: set[tuple[int, int]] = set()
    ways = [iter(ends(0, 0) if most else ())]
    while ways:
        end = next(ways[-1], None)
        index = len(ways)
        if end is None:
            failed.add((index - 1, path.pop()))
            ways.pop()
        elif (index, end) not in failed:
            path.append(end)
            if done(index, end):
                return path
            ways.append(iter(ends(index, end) if index < most else ()))
    return None
