"""The awaiting verbs: twins of the blocking ones, on the same session."""

import asyncio
import inspect

import pytest
from pydantic import BaseModel, Field

from deepinfer_sdk import DeepInferError, GenerationCancelled, SamplingParams, Session


class Pair(BaseModel):
    a: int = Field(ge=0, le=99)
    b: str = Field(max_length=5)


PARAMS = SamplingParams(seed=7, max_tokens=60)
LONG = SamplingParams(seed=7, max_tokens=450, ignore_eos=True)
VERBS = ["generate", "stream", "map", "chat"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_twin_with_the_same_parameters(verb):
    blocking = inspect.signature(getattr(Session, verb))
    awaiting = inspect.signature(getattr(Session, f"a{verb}"))
    assert blocking.parameters == awaiting.parameters


def test_no_public_method_lacks_a_twin():
    single = {"close", "replay", "stats"}  # quick, or rare enough to run in a thread
    methods = {
        name
        for name, member in inspect.getmembers(Session, callable)
        if not name.startswith("_") and name not in single
    }
    assert methods == {*VERBS, *(f"a{verb}" for verb in VERBS)}


def test_agenerate_equals_generate(session):
    alone = session.generate("hello", schema=Pair, sampling=PARAMS)
    result = asyncio.run(session.agenerate("hello", schema=Pair, sampling=PARAMS))
    assert result.value == alone.value
    assert result.ids == alone.ids


def test_tasks_run_side_by_side_with_the_same_bytes(session):
    prompts = [f"prompt {i}" for i in range(6)]

    async def together() -> list[str]:
        calls = (session.agenerate(prompt, sampling=PARAMS) for prompt in prompts)
        return [result.text for result in await asyncio.gather(*calls)]

    alone = [session.generate(prompt, sampling=PARAMS).text for prompt in prompts]
    assert asyncio.run(together()) == alone


def test_astream_gives_the_same_events_as_stream(session):
    async def events():
        stream = session.astream("hello", schema=Pair, sampling=PARAMS)
        return "".join([e.text async for e in stream if e.type == "text"]), stream.result

    text, result = asyncio.run(events())
    assert text == result.text
    assert result.ids == session.generate("hello", schema=Pair, sampling=PARAMS).ids


def test_leaving_an_async_loop_cancels(session):
    async def leave():
        stream = session.astream("hello", sampling=LONG)
        async for _ in stream:
            break
        return stream

    stream = asyncio.run(leave())
    with pytest.raises(GenerationCancelled):
        _ = stream.result


def test_amap_and_achat(session):
    async def both():
        many = await session.amap(["a", "", "b"], sampling=PARAMS, on_error="return")
        one = await session.achat([{"role": "user", "content": "a"}], sampling=PARAMS)
        return many, one

    many, one = asyncio.run(both())
    assert [isinstance(item, DeepInferError) for item in many] == [False, True, False]
    assert many[0].text == one.text


def test_cancelling_a_task_cancels_its_request_and_keeps_the_text(session):
    async def give_up():
        task = asyncio.create_task(session.agenerate("hello", sampling=LONG))
        other = session.astream("hello", sampling=LONG)
        async for _ in other:  # tokens flow, so the task's request is running too
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert session.last_interrupted is not None
    assert session.last_interrupted.seeds == (7,)


def test_blocking_verbs_work_under_a_running_loop(session):
    async def cell():
        return session.generate("hello", schema=Pair, sampling=PARAMS).text

    expected = session.generate("hello", schema=Pair, sampling=PARAMS).text
    assert asyncio.run(cell()) == expected


def test_the_loop_keeps_running_while_a_call_is_awaited(session):
    async def count():
        turns = 0
        task = asyncio.create_task(session.agenerate("hello", sampling=LONG.with_(max_tokens=60)))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(count()) > 10
