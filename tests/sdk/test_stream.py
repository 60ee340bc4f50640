"""Streams: the same bytes as generate, piece by piece; leaving early cancels."""

import pytest
from pydantic import BaseModel, Field

from deepinfer_sdk import (
    Finished,
    GenerationCancelled,
    GenerationTimeout,
    InvalidArgument,
    SamplingParams,
    TextDelta,
)


class Pair(BaseModel):
    a: int = Field(ge=0, le=99)
    b: str = Field(max_length=5)


PARAMS = SamplingParams(seed=7, max_tokens=60)
LONG = SamplingParams(seed=7, max_tokens=450, ignore_eos=True)


def test_the_pieces_add_up_to_the_result(session):
    stream = session.stream("hello", schema=Pair, sampling=PARAMS)
    pieces, snapshots = [], []
    for event in stream:
        snapshots.append(stream.text)
        if isinstance(event, TextDelta):
            pieces.append(event.text)
    assert "".join(pieces) == stream.result.text == stream.text
    assert all(stream.text.startswith(text) for text in snapshots)
    assert isinstance(event, Finished)
    assert isinstance(stream.result.value, Pair)
    assert stream.result.ids == session.generate("hello", schema=Pair, sampling=PARAMS).ids


def test_a_stream_takes_messages_too(session):
    messages = [{"role": "user", "content": "hello"}]
    stream = session.stream(messages, schema=Pair, sampling=PARAMS)
    list(stream)
    assert stream.result.text == session.chat(messages, schema=Pair, sampling=PARAMS).text


def test_samples_are_told_apart(session):
    stream = session.stream("hello", sampling=PARAMS.with_(n=2, max_tokens=6))
    seen = {event.sample for event in stream}
    assert seen == {0, 1}
    assert stream.texts == tuple(sample.text for sample in stream.result.samples)


def test_there_is_no_result_before_the_end(session):
    with session.stream("hello", sampling=LONG) as stream:
        next(stream)
        with pytest.raises(InvalidArgument, match="not ended"):
            _ = stream.result


def test_leaving_the_loop_cancels(session):
    stream = session.stream("hello", sampling=LONG)
    for _ in stream:
        break
    with pytest.raises(GenerationCancelled, match="left after") as caught:
        _ = stream.result
    assert caught.value.text == stream.text
    assert list(stream) == []


def test_an_error_in_the_loop_cancels_at_the_end_of_the_with_block(session):
    stream = session.stream("hello", sampling=LONG)

    def read():
        with stream:
            for _ in stream:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        read()
    with pytest.raises(GenerationCancelled):
        _ = stream.result


def test_cancel_after_the_end_changes_nothing(session):
    stream = session.stream("hello", sampling=PARAMS.with_(max_tokens=4))
    list(stream)
    stream.cancel()
    assert stream.result.text == stream.text


def test_a_deadline_ends_the_stream_with_an_error_that_keeps_the_text(session):
    stream = session.stream("hello", sampling=LONG, timeout_s=1e-4)
    with pytest.raises(GenerationTimeout, match="deadline") as caught:
        list(stream)
    assert caught.value.text == stream.text


def test_logprobs_travel_with_the_text(session):
    stream = session.stream("hello", sampling=PARAMS.with_(logprobs=0, max_tokens=5))
    entries = [e.id for event in stream if isinstance(event, TextDelta) for e in event.logprobs]
    assert entries == list(stream.result.ids)
