"""The same request gives the same tokens, text and log-probabilities whatever goes on around it."""

import dataclasses
import random

import numba
import pytest
from deepinfer_engine import Engine, EngineConfig, GenerationRequest, load_model
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


def test_the_number_of_threads_does_not_matter(tiny, requests, alone):
    most = int(numba.config.NUMBA_NUM_THREADS)
    for threads in {1, min(2, most), most, None}:
        engine = Engine(tiny, EngineConfig(threads=threads))
        assert run(engine, requests) == alone
        engine.close()


def test_the_embedded_model_gives_the_same_alone_and_preempted(smollm2_path):
    model = load_model(smollm2_path)
    texts = ("The capital of Peru is", "def add(a, b):\n", "Once upon a time there")
    requests = [
        GenerationRequest(
            tuple(model.tokenizer.encode(text * 2)),
            SamplerParams(temperature=0.9, seed=seed, logprobs=1),
            max_tokens=10,
            ignore_eos=True,
        )
        for seed, text in enumerate(texts)
    ]
    engine = Engine(model, EngineConfig(threads=1))
    alone = [run(engine, [request])[0] for request in requests]
    engine.close()
    engine = Engine(model, EngineConfig(threads=1, chunk=5, block_tokens=4, num_blocks=10))
    assert run(engine, requests) == alone
    assert engine.stats().preemptions > 0
    engine.close()
