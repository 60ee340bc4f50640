"""Bits of logits and whole outputs under every load: neighbours, cache sizes, many requests."""

import random

import numpy as np
import pytest
from deepinfer_engine import llama
from deepinfer_engine.llama import LlamaCache, LlamaModel, Rows
from deepinfer_kernels.cpu import linear
from engine_helpers import collect, essence, mixed_requests

BLOCK = 4
LENGTH = 21


@pytest.fixture(scope="module")
def forward(tiny):
    return LlamaModel(tiny.config, tiny.weights, 64)


def prompts(count):
    rng = np.random.default_rng(2)
    return [rng.integers(0, 256, LENGTH - index % 5) for index in range(count)]


def logits(model, sequences, chunk, order=None):
    """Logits at every position of every sequence; all advance together by `chunk` tokens."""
    count = len(sequences)
    per = -(-LENGTH // BLOCK)
    blocks = np.random.default_rng(count).permutation(count * per).reshape(count, per)
    cache = LlamaCache(model.config, count * per, BLOCK)
    parts = [[] for _ in sequences]
    for start in range(0, LENGTH, chunk):
        rows = [
            (number, position)
            for number in (order or range(count))
            for position in range(start, min(start + chunk, len(sequences[number])))
        ]
        if not rows:
            break
        owner, positions = np.array(rows).T
        out = model.forward(
            Rows(
                ids=np.array([sequences[number][position] for number, position in rows]),
                positions=positions,
                slots=blocks[owner, positions // BLOCK] * BLOCK + positions % BLOCK,
                sequences=owner,
                tables=blocks,
                wanted=np.arange(len(rows)),
            ),
            cache,
        )
        for number, row in zip(owner, out, strict=True):
            parts[number].append(row)
    return [np.stack(part) for part in parts]


def same_bits(first, second):
    return all(
        (a.view(np.int32) == b.view(np.int32)).all() for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("count", [2, 8, 33])
@pytest.mark.parametrize("chunk", [1, 7, LENGTH])
def test_logits_do_not_depend_on_neighbours_or_chunks(forward, count, chunk):
    sequences = prompts(count)
    alone = [logits(forward, [sequence], LENGTH)[0] for sequence in sequences]
    assert same_bits(logits(forward, sequences, chunk), alone)
    order = list(range(count))
    random.Random(count).shuffle(order)
    assert same_bits(logits(forward, sequences, chunk, order), alone)


def by_load(x, weight):
    """What a split-K kernel would do: with few rows, sums that are rounded differently."""
    out = linear(x, weight)
    return out if len(x) >= 8 else (out * np.float32(3)) / np.float32(3)


def test_a_product_that_depends_on_load_is_caught(forward, monkeypatch):
    monkeypatch.setattr(llama, "linear", by_load)
    sequences = prompts(8)
    alone = [logits(forward, [sequence], 1)[0] for sequence in sequences]
    assert not same_bits(logits(forward, sequences, 1), alone)


def outputs(engine, requests):
    """Streamed text and ids by sample, and the finish events."""
    handles = [engine.submit(request) for request in requests]
    found = []
    for handle, request in zip(handles, requests, strict=True):
        events, ends = collect(handle, request.n)
        streamed = [
            (
                tuple(i for event in events if event.sample == sample for i in event.ids),
                "".join(event.text for event in events if event.sample == sample),
                tuple(p for event in events if event.sample == sample for p in event.logprobs),
            )
            for sample in range(request.n)
        ]
        assert streamed == [(end.ids, end.text, end.logprobs) for end in ends]
        found.append([essence(end) for end in ends])
    return found


def test_an_engine_over_it_gives_other_log_probabilities(start, tiny, monkeypatch):
    """The comparison of whole outputs sees such a product too."""
    requests = mixed_requests(tiny, 17)
    monkeypatch.setattr(llama, "linear", by_load)
    engine = start()
    alone = [outputs(engine, [request])[0] for request in requests]
    assert outputs(start(), requests) != alone


@pytest.fixture(scope="module")
def many(tiny):
    return mixed_requests(tiny, 300)


def test_three_hundred_requests_alone_and_together(start, many):
    engine = start()
    alone = [outputs(engine, [request])[0] for request in many]
    assert outputs(start(), many) == alone
    engine = start(block_tokens=4, num_blocks=40, chunk=7, max_step_tokens=64, prefill_floor=8)
    order = list(range(len(many)))
    random.Random(8).shuffle(order)
    assert outputs(engine, [many[index] for index in order]) == [alone[index] for index in order]
    assert engine.stats().preemptions > 0
    assert engine.stats().blocks_used == 0


def test_any_cache_from_one_sequence_to_all_of_them(start, many):
    requests = many[:24]
    expected = outputs(start(), requests)
    longest = max(len(r.prompt_ids) + r.max_tokens for r in requests)
    least = -(-longest // BLOCK)
    preempted = []
    for num_blocks in (least, least + 1, least + 7, 3 * least, 40 * least):
        engine = start(block_tokens=BLOCK, num_blocks=num_blocks, watermark=0.0)
        assert outputs(engine, requests) == expected
        assert engine.stats().blocks_used == 0
        preempted.append(engine.stats().preemptions)
    assert preempted[0] > 0
    assert preempted[-1] == 0
