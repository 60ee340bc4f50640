"""The same request gives the same tokens, text and log-probabilities whatever goes on around it."""

import dataclasses
import random

import pytest
from deepinfer_engine import GenerationRequest
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import collect, essence, mixed_requests


def run(engine, requests):
    handles = [engine.submit(request) for request in requests]
    return [
        [essence(end) for end in collect(handle, request.n)[1]]
        for handle, request in zip(handles, requests, strict=True)
    ]


@pytest.fixture(scope="module")
def requests(tiny):
    return mixed_requests(tiny, 17)


@pytest.fixture
def alone(start, requests):
    """Every request by itself, one after the other."""
    engine = start()
    return [run(engine, [request])[0] for request in requests]


def test_requests_are_of_many_kinds(alone):
    reasons = {end.reason for ends in alone for end in ends}
    assert {"stop", "length"} <= reasons
    assert any(end.logprobs for ends in alone for end in ends)
    assert len({end.text for ends in alone for end in ends}) > 10


def test_batches_and_order_do_not_matter(start, requests, alone):
    for size in (2, 17):
        assert run(start(), requests[:size]) == alone[:size]
    order = list(range(17))
    random.Random(5).shuffle(order)
    shuffled = run(start(), [requests[i] for i in order])
    assert shuffled == [alone[i] for i in order]


@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_chunk_size_does_not_matter(start, requests, alone, chunk):
    engine = start(chunk=chunk, max_step_tokens=64, prefill_floor=8)
    assert run(engine, requests) == alone


def test_preemption_does_not_matter(start, requests, alone):
    engine = start(block_tokens=4, num_blocks=26, max_slots=17, watermark=0.0)
    assert run(engine, requests) == alone
    stats = engine.stats()
    assert stats.preemptions > 0
    assert stats.blocks_used == 0


def test_block_size_and_late_arrivals_do_not_matter(start, requests, alone):
    engine = start(block_tokens=16)
    early = [engine.submit(request) for request in requests[::2]]
    early[0].next_event(timeout=60)  # something is running now
    late = run(engine, requests[1::2])
    assert late == alone[1::2]
    ends = [
        [essence(end) for end in collect(handle, request.n)[1]]
        for handle, request in zip(early[1:], requests[2::2], strict=True)
    ]
    assert ends == alone[2::2]


def test_samples_of_one_request_differ_and_equal_single_samples(start, tiny):
    request = mixed_requests(tiny, 5)[4]
    assert request.n == 3
    ends = run(start(), [request])[0]
    assert len({end.ids for end in ends}) == 3


def test_a_prompt_continued_with_its_output_goes_on_alike(start):
    """The noise is addressed by position, so prompt + half of the output continues the same."""
    request = GenerationRequest(
        (5, 6, 7), SamplerParams(temperature=1.2, seed=8), max_tokens=20, ignore_eos=True
    )
    engine = start()
    whole = run(engine, [request])[0][0].ids
    again = dataclasses.replace(request, prompt_ids=(5, 6, 7, *whole[:9]), max_tokens=11)
    assert run(engine, [again])[0][0].ids == whole[9:]
