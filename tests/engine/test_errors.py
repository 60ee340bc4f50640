"""Errors stay with the request that caused them; the others do not notice."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from deepinfer_engine import Engine, EngineConfig, EngineError, GenerationRequest
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import Digits, collect, essence, mixed_requests


class Faulty(Digits):
    """A constraint that goes wrong at its third token."""

    def __init__(self, model, fault):
        super().__init__(model, low=5, high=9)
        self.fault = fault

    def mask(self, state, budget):
        if state == 2 and self.fault == "raise":
            raise RuntimeError("the grammar broke")
        mask = super().mask(state, budget)
        return np.zeros_like(mask) if state == 2 and self.fault == "empty" else mask

    def advance(self, state, token):
        if state == 2 and self.fault == "advance":
            raise ValueError("no way on")
        return super().advance(state, token)


def failing_step(engine, seed, error):
    """Make every step that contains the sequence with this seed raise, from its third token on."""
    executor = engine._loop._executor
    original = executor.launch

    def launch(entries):
        for entry in entries:
            sequence = entry.sequence
            if sequence.params.seed == seed and sequence.output_length == 2:
                raise error
        return original(entries)

    executor.launch = launch


def spoiled_logits(engine, seed):
    """NaN in the logits of one sequence."""
    model = engine._loop._executor._model
    original = model.forward
    loop = engine._loop

    def forward(rows, cache):
        logits = original(rows, cache)
        running = [s for s in loop.scheduler.running if s.params.seed == seed]
        if running and running[0].output_length == 2 and len(rows.wanted):
            for index, row in enumerate(rows.wanted):
                if rows.positions[row] == len(running[0].tokens) - 1 and (
                    list(rows.tables[rows.sequences[row]][:1]) == running[0].blocks[:1]
                ):
                    logits[index, 5] = np.nan
        return logits

    model.forward = forward


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("raise", "grammar_dead"),
        ("empty", "grammar_dead"),
        ("advance", "engine"),
        ("step", "engine"),
        ("memory", "memory"),
        ("nan", "numeric"),
    ],
)
def test_one_request_fails_and_seven_are_equal_to_a_clean_run(start, tiny, fault, kind):
    requests = [r for r in mixed_requests(tiny, 12) if r.n == 1][:7]
    clean = [essence(collect(h)[1][0]) for h in map(start().submit, requests)]
    engine = start()
    victim = GenerationRequest(
        prompt_ids=(1, 2, 3),
        sampling=SamplerParams(seed=77),
        max_tokens=20,
        ignore_eos=True,
        constraint=Faulty(tiny, fault) if fault in ("raise", "empty", "advance") else None,
    )
    if fault in ("step", "memory"):
        failing_step(engine, 77, MemoryError() if fault == "memory" else RuntimeError("boom"))
    if fault == "nan":
        spoiled_logits(engine, 77)
    handles = [engine.submit(request) for request in [*requests[:3], victim, *requests[3:]]]
    bad = collect(handles.pop(3))[1][0]
    assert bad.reason == "error"
    assert bad.error.kind == kind
    assert len(bad.ids) == 2
    assert [essence(collect(h)[1][0]) for h in handles] == clean
    assert engine.stats().blocks_used == 0
    again = engine.submit(requests[0])
    assert essence(collect(again)[1][0]) == clean[0]


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"prompt_ids": ()}, "invalid", "no tokens"),
        ({"prompt_ids": (1,) * 600}, "too_long", "600 tokens.*512"),
        ({"prompt_ids": (99_999,)}, "invalid", "99999"),
        ({"prompt_ids": (-1,)}, "invalid", "-1"),
        ({"sampling": SamplerParams(banned=(99_998,))}, "invalid", "99998"),
        ({"sampling": SamplerParams(logit_bias=((99_997, 1.0),))}, "invalid", "99997"),
        ({"max_tokens": 0}, "invalid", "max_tokens is 0"),
        ({"n": 0}, "invalid", "n is 0"),
        ({"stop": ("",)}, "invalid", "empty"),
        ({"min_tokens": 30}, "invalid", "min_tokens is 30"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(start, change, kind, words):
    engine = start()
    base = {"prompt_ids": (1, 2), "sampling": SamplerParams(seed=1), "max_tokens": 5}
    with pytest.raises(EngineError, match=words) as caught:
        engine.submit(GenerationRequest(**{**base, **change}))
    assert caught.value.kind == kind
    assert engine.stats().requests == 0


def test_a_budget_below_the_least_is_refused_with_the_number(start, tiny):
    engine = start()
    request = GenerationRequest(
        (1, 2), SamplerParams(seed=1), max_tokens=3, constraint=Digits(tiny, low=4)
    )
    with pytest.raises(EngineError, match="needs 4 tokens") as caught:
        engine.submit(request)
    assert caught.value.kind == "budget"
    assert "max_tokens=4" in caught.value.hint


def test_a_constraint_ends_complete_whatever_the_budget(start, tiny):
    engine = start()
    for budget in range(2, 8):
        request = GenerationRequest(
            (1, 2), SamplerParams(seed=budget), max_tokens=budget, constraint=Digits(tiny)
        )
        end = collect(engine.submit(request))[1][0]
        assert end.reason == "stop"
        assert 2 <= len(end.ids) <= min(budget, 6)
        assert end.text.isdigit()


def test_a_constraint_for_another_vocabulary_is_refused(start, tiny):
    constraint = Digits(tiny)
    constraint.vocab_size += 1
    with pytest.raises(EngineError, match="the model has"):
        start().submit(GenerationRequest((1,), SamplerParams(), constraint=constraint))


def test_control_tokens_are_never_drawn(start, tiny):
    controls = [i for i, data in enumerate(tiny.tokenizer.token_bytes) if data is None]
    request = GenerationRequest((1, 2), SamplerParams(temperature=2.0, seed=9), max_tokens=400,
                                ignore_eos=True)  # fmt: skip
    end = collect(start().submit(request))[1][0]
    assert end.reason == "length"
    assert len(end.ids) == 400
    assert not set(end.ids) & set(controls)


def test_closing_a_busy_engine_ends_its_requests(start, tiny):
    engine = start()
    handles = [
        engine.submit(GenerationRequest((1, 2), SamplerParams(seed=s), ignore_eos=True))
        for s in range(3)
    ]
    handles[0].next_event(timeout=60)
    engine.close()
    engine.close()
    assert [collect(handle)[1][0].reason for handle in handles] == ["cancelled"] * 3
    with pytest.raises(EngineError) as caught:
        engine.submit(GenerationRequest((1,), SamplerParams()))
    assert caught.value.kind == "closed"


def test_cancelling_ends_a_request_and_keeps_its_text(start):
    engine = start()
    handle = engine.submit(GenerationRequest((1, 2), SamplerParams(seed=4), ignore_eos=True))
    first = handle.next_event(timeout=60)
    handle.cancel()
    tokens, ends = collect(handle)
    assert ends[0].reason == "cancelled"
    assert ends[0].text == first.text + "".join(event.text for event in tokens)
    assert engine.stats().blocks_used == 0


def test_a_forgotten_engine_stops(tiny):
    engine = Engine(tiny, EngineConfig(threads=1))
    thread, gone = engine._thread, weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_two_engines_share_a_model(start, tiny):
    requests = [r for r in mixed_requests(tiny, 6) if r.n == 1]
    first, second = start(), start(block_tokens=8)
    handles = [engine.submit(r) for r in requests for engine in (first, second)]
    ends = [essence(collect(handle)[1][0]) for handle in handles]
    assert ends[::2] == ends[1::2]


def test_many_threads_may_submit(start, tiny):
    engine = start()
    requests = [r for r in mixed_requests(tiny, 10) if r.n == 1]
    expected = [essence(collect(engine.submit(r))[1][0]) for r in requests]
    found = [None] * len(requests)

    def work(index):
        found[index] = essence(collect(engine.submit(requests[index]))[1][0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_timings_add_up(start):
    engine = start()
    began = time.monotonic()
    end = collect(engine.submit(GenerationRequest((1, 2), SamplerParams(seed=1), max_tokens=8)))[1][
        0
    ]
    total = end.timings.queue_s + end.timings.prefill_s + end.timings.decode_s
    assert 0 < total <= time.monotonic() - began
