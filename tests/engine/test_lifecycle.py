"""Deadlines, closing and forgetting an engine; nothing stays behind, nobody waits for ever."""

import gc
import threading
import weakref

import pytest
from deepinfer_engine import Engine, EngineConfig, EngineError, GenerationRequest
from deepinfer_engine.executor import Choice
from deepinfer_engine.loop import TokenTable
from deepinfer_kernels.sampling import Drawn, SamplerParams, Status
from engine_helpers import Digits, Immediate, collect, essence, mixed_requests

TABLE = TokenTable(tuple(bytes([byte]) for byte in range(256)), (0,))


class Gated(Immediate):
    """Says "a" for ever; every step waits for a permit, so a test knows what has been done."""

    def __init__(self):
        self.permits = threading.Semaphore(0)

    def launch(self, entries):
        assert self.permits.acquire(timeout=60)
        return [Choice(Drawn(token=97, status=Status.OK)) for e in entries if e.samples]


def endless(seed=0, **changes):
    return GenerationRequest((1, 2), SamplerParams(seed=seed), **{"max_tokens": 200} | changes)


@pytest.fixture
def gated():
    """An engine whose steps and clock are in the hands of the test."""
    executor, now = Gated(), [0.0]
    engine = Engine.over(
        executor,
        TABLE,
        EngineConfig(block_tokens=4, max_slots=2, max_step_tokens=16),
        num_blocks=128,
        max_len=256,
        clock=lambda: now[0],
    )
    yield engine, executor.permits, now
    executor.permits.release(1_000_000)
    engine.close()


def test_deadlines_end_what_runs_and_what_waits(gated):
    engine, permits, now = gated
    late = engine.submit(endless(deadline_s=10.0))
    free = engine.submit(endless())
    waiting = engine.submit(endless(deadline_s=5.0))
    permits.release(2)  # the first step may have been planned before the second request came
    assert late.next_event(timeout=60).ids == (97,)
    assert free.next_event(timeout=60).ids == (97,)
    now[0] = 5.0
    permits.release(2)  # the step that was planned before, and one after the clock moved
    _, (end,) = collect(waiting)
    assert (end.reason, end.ids, end.timings.queue_s) == ("timeout", (), 5.0)
    now[0] = 10.0
    permits.release(2)
    _, (end,) = collect(late)
    assert end.reason == "timeout"
    assert end.text == "a" * len(end.ids)
    assert end.timings.prefill_s + end.timings.decode_s == 10.0
    permits.release(300)
    _, (end,) = collect(free)
    assert (end.reason, len(end.ids)) == ("length", 200)
    assert engine.stats().blocks_used == 0


def test_a_deadline_that_has_passed_ends_a_request_before_any_step(gated):
    engine, _, _ = gated
    _, (end,) = collect(engine.submit(endless(deadline_s=0.0)))
    assert (end.reason, end.ids) == ("timeout", ())
    assert engine.stats().steps == 0


def test_cancelling_after_every_number_of_tokens_frees_everything(start, tiny):
    requests = [request for request in mixed_requests(tiny, 8) if request.n == 1]
    clean = [essence(collect(handle)[1][0]) for handle in map(start().submit, requests)]
    engine = start(block_tokens=4)
    for tokens in range(12):
        victim = engine.submit(endless(seed=7, ignore_eos=True, n=2))
        others = [engine.submit(request) for request in requests]
        events = [victim.next_event(timeout=60) for _ in range(tokens)]
        victim.cancel()
        rest, ends = collect(victim, samples=2)
        assert [end.reason for end in ends] == ["cancelled"] * 2
        for end in ends:
            mine = [e for e in [*events, *rest] if e.sample == end.sample]
            assert tuple(i for event in mine for i in event.ids) == end.ids
        victim.cancel()  # no effect any more
        assert [essence(collect(other)[1][0]) for other in others] == clean
    assert engine.stats().blocks_used == engine.stats().running == engine.stats().waiting == 0


@pytest.mark.parametrize("tokens", range(4))
def test_closing_after_every_number_of_tokens_tells_everyone(start, tokens):
    engine = start(max_slots=2)
    handles = [engine.submit(endless(seed=seed, ignore_eos=True)) for seed in range(5)]
    for _ in range(tokens):
        handles[0].next_event(timeout=60)
    engine.close()
    assert [collect(handle)[1][0].reason for handle in handles] == ["cancelled"] * 5
    assert engine.stats().blocks_used == 0
    with pytest.raises(EngineError) as caught:
        engine.submit(endless())
    assert caught.value.kind == "closed"


def test_an_engine_may_be_closed_from_its_own_thread(start):
    engine = start()
    handle = engine.submit(endless(ignore_eos=True))
    handle.add_listener(engine.close)
    assert collect(handle)[1][0].reason == "cancelled"
    engine._thread.join(timeout=60)
    assert not engine._thread.is_alive()


def test_a_forgotten_engine_ends_its_requests_and_its_thread(tiny):
    engine = Engine(tiny, EngineConfig(threads=1))
    handles = [engine.submit(endless(seed=seed, ignore_eos=True)) for seed in range(3)]
    assert handles[0].next_event(timeout=60).ids
    thread, gone = engine._thread, weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    assert {collect(handle)[1][0].reason for handle in handles} <= {"cancelled", "length"}
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_twenty_engines_one_after_the_other_leave_no_threads(tiny):
    before = set(threading.enumerate())
    request = mixed_requests(tiny, 1)[0]
    texts = set()
    for _ in range(20):
        engine = Engine(tiny, EngineConfig(threads=1))
        texts.add(collect(engine.submit(request))[1][0].text)
        engine.close()
    assert len(texts) == 1
    assert set(threading.enumerate()) <= before


class Broken(Digits):
    """Raises in one method, or gives masks of another form."""

    def __init__(self, model, fault):
        super().__init__(model)
        self.fault = fault

    def complete(self, state):
        if self.fault == "complete":
            raise RuntimeError("the grammar broke")
        return super().complete(state)

    def narrowed(self, state, budget):
        if self.fault == "narrowed":
            raise RuntimeError("the grammar broke")
        return False

    def mask(self, state, budget):
        mask = super().mask(state, budget)
        if self.fault == "short":
            return mask[:-1]
        if self.fault == "dtype":
            return mask.astype("int64")
        mask.flags.writeable = False
        return mask


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("complete", "the grammar broke"),
        ("narrowed", "the grammar broke"),
        ("short", "tokens needs uint32"),
        ("dtype", "mask is int64"),
    ],
)
def test_a_constraint_that_breaks_its_contract_ends_its_own_request(start, tiny, fault, words):
    requests = mixed_requests(tiny, 4)
    clean = [essence(collect(handle)[1][0]) for handle in map(start().submit, requests)]
    engine = start()
    bad = engine.submit(endless(constraint=Broken(tiny, fault)))
    others = [engine.submit(request) for request in requests]
    _, (end,) = collect(bad)
    assert (end.reason, end.error.kind, end.ids) == ("error", "grammar_dead", ())
    assert words in str(end.error)
    assert [essence(collect(other)[1][0]) for other in others] == clean


def test_masks_are_not_written_to(start, tiny):
    _, (end,) = collect(start().submit(endless(constraint=Broken(tiny, None))))
    assert end.reason == "stop"
    assert end.text.isdigit()
