"""Faults of listeners, of taking in tokens, of memory and of the engine itself stay contained."""

import logging
import subprocess
import sys
import threading

import pytest
from deepinfer_engine import Engine, EngineConfig, EngineError, FinishEvent, GenerationRequest
from deepinfer_engine.executor import Choice
from deepinfer_engine.loop import TokenTable
from deepinfer_engine.text import TextAssembler
from deepinfer_kernels.sampling import Drawn, SamplerParams, Status
from engine_helpers import Digits, Immediate, collect, essence, mixed_requests

TABLE = TokenTable(tuple(bytes([byte]) for byte in range(256)), (0,))


class Script(Immediate):
    """An executor that says "a" for ever; `hook` is called with the entries of every step."""

    def __init__(self, hook=lambda entries: None):
        self.hook = hook

    def start(self):
        self.thread = threading.current_thread()

    def launch(self, entries):
        self.hook(entries)
        return [Choice(Drawn(token=97, status=Status.OK)) for e in entries if e.samples]


@pytest.fixture
def scripted():
    engines = []

    def make(executor, **config):
        config = EngineConfig(block_tokens=4, max_step_tokens=64, **config)
        engine = Engine.over(executor, TABLE, config, num_blocks=64, max_len=256)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def plain(prompt=(1, 2, 3), seed=0, **changes):
    return GenerationRequest(tuple(prompt), SamplerParams(seed=seed), **{"max_tokens": 6} | changes)


def clean_and_broken(start, tiny, break_it):
    """Seven requests run cleanly, then next to an eighth that `break_it` breaks."""
    requests = [r for r in mixed_requests(tiny, 12) if r.n == 1][:7]
    clean = [essence(collect(handle)[1][0]) for handle in map(start().submit, requests)]
    engine = start()
    handles = [engine.submit(request) for request in requests[:4]]
    victim = engine.submit(plain(seed=5, max_tokens=40, ignore_eos=True))
    break_it(victim)
    handles += [engine.submit(request) for request in requests[4:]]
    (end,) = collect(victim)[1]
    assert [essence(collect(handle)[1][0]) for handle in handles] == clean
    assert engine.stats().blocks_used == 0
    return end


def test_a_listener_that_raises_ends_its_request_only(start, tiny):
    def break_it(handle):
        def listener():
            if threading.current_thread().name == "deepinfer-engine":
                raise RuntimeError("the listener broke")

        handle.add_listener(listener)

    end = clean_and_broken(start, tiny, break_it)
    assert end.reason == "error"
    assert end.error.kind == "engine"
    assert "the listener broke" in str(end.error)


@pytest.mark.parametrize("method", ["push", "finish"])
def test_a_text_that_cannot_be_assembled_ends_its_request_only(start, tiny, monkeypatch, method):
    original = getattr(TextAssembler, method)
    marked = []

    def broken(self, *args):
        if self is marked[0]:
            raise RuntimeError("no text")
        return original(self, *args)

    created = TextAssembler.__init__

    def create(self, stops=()):
        created(self, stops)
        if stops == ("unlikely",):
            marked.append(self)

    monkeypatch.setattr(TextAssembler, "__init__", create)
    monkeypatch.setattr(TextAssembler, method, broken)
    engine = start()
    victim = engine.submit(plain(stop=("unlikely",)))
    other = engine.submit(plain())
    (end,) = collect(victim)[1]
    assert end.reason == "error"
    assert end.error.kind == "engine"
    assert "no text" in str(end.error)
    assert collect(other)[1][0].reason in ("stop", "length")
    assert engine.stats().blocks_used == 0


def test_short_memory_halves_the_steps_for_good(scripted):
    rows = []

    def hook(entries):
        count = sum(entry.count for entry in entries)
        if count > 10:
            raise MemoryError
        rows.append(count)

    engine = scripted(Script(hook))
    prompts = [plain(range(1, 31), seed=seed) for seed in range(3)]
    ends = [collect(handle)[1][0] for handle in map(engine.submit, prompts)]
    assert [end.text for end in ends] == ["aaaaaa"] * 3
    assert sum(rows) == 3 * (30 + 5)
    later = collect(engine.submit(plain(range(1, 41))))[1][0]
    assert later.reason == "length"
    assert max(rows) <= 10


def test_a_row_that_memory_does_not_suffice_for_ends_its_request(scripted):
    def hook(entries):
        if any(entry.sequence.params.seed == 1 for entry in entries):
            raise MemoryError

    engine = scripted(Script(hook))
    bad, good = engine.submit(plain(seed=1)), engine.submit(plain(seed=2))
    (end,) = collect(bad)[1]
    assert (end.reason, end.error.kind) == ("error", "memory")
    assert collect(good)[1][0].text == "aaaaaa"


def test_an_engine_that_stops_says_why_to_everyone(scripted):
    def hook(entries):
        raise SystemExit("the device is gone")

    engine = scripted(Script(hook))
    (end,) = collect(engine.submit(plain()))[1]
    assert (end.reason, end.error.kind) == ("error", "engine")
    assert "the device is gone" in str(end.error)
    with pytest.raises(EngineError, match="the device is gone"):
        engine.submit(plain())
    engine.close()
    with pytest.raises(EngineError) as caught:
        engine.submit(plain())
    assert caught.value.kind == "closed"


def test_an_engine_that_cannot_start_says_so_at_once(tiny):
    with pytest.raises(EngineError, match="100000 threads"):
        Engine(tiny, EngineConfig(threads=100_000))


def test_limits_that_do_not_fit_are_refused(tiny):
    with pytest.raises(EngineError, match="max_len=513 is more than the 512"):
        Engine(tiny, EngineConfig(max_len=513))
    with pytest.raises(EngineError, match="max_len=512 tokens does not fit") as caught:
        Engine(tiny, EngineConfig(max_len=512, num_blocks=2))
    assert caught.value.hint.startswith("Use max_len=128 or less")


def test_more_than_the_context_holds_is_refused_and_none_fills_it(start):
    engine = start(max_len=32)
    with pytest.raises(EngineError, match="3 tokens and max_tokens=30 are more than the 32"):
        engine.submit(plain(max_tokens=30))
    (end,) = collect(engine.submit(plain(max_tokens=None, ignore_eos=True)))[1]
    assert (end.reason, len(end.ids)) == ("length", 29)


def test_a_constraint_without_max_tokens_may_use_the_context(start, tiny):
    engine = start(max_len=32)
    request = plain(max_tokens=None, constraint=Digits(tiny, low=20, high=29))
    (end,) = collect(engine.submit(request))[1]
    assert end.reason == "stop"
    assert 20 <= len(end.text) <= 29
    with pytest.raises(EngineError, match="needs 30 tokens") as caught:
        engine.submit(plain(max_tokens=None, constraint=Digits(tiny, low=30, high=30)))
    assert "Shorten the prompt" in caught.value.hint


def test_a_constraint_that_only_the_empty_text_meets_ends_at_once(start, tiny):
    engine = start()
    (end,) = collect(engine.submit(plain(constraint=Digits(tiny, low=0, high=0))))[1]
    assert (end.reason, end.text, end.ids) == ("stop", "", ())
    assert engine.stats().steps == 0


def test_ignored_end_of_text_does_not_break_a_complete_text(start, tiny):
    """With end-of-text banned and no budget for more, an accepting text ends."""

    class Stuck(Digits):
        def mask(self, state, budget):
            mask = super().mask(state, budget)
            return mask & 0 if state == 3 else mask

    request = plain(max_tokens=20, ignore_eos=True, constraint=Stuck(tiny, low=2, high=9))
    (end,) = collect(start().submit(request))[1]
    assert (end.reason, len(end.ids)) == ("stop", 3)


def test_control_tokens_stay_banned_under_a_careless_constraint(start, tiny):
    class Everything(Digits):
        def mask(self, state, budget):
            return ~(super().mask(state, budget) & 0)

        def advance(self, state, token):
            return state + 1

    controls = {i for i, data in enumerate(tiny.tokenizer.token_bytes) if data is None}
    sampling = SamplerParams(
        seed=1, logit_bias=tuple((i, 50.0) for i in controls - set(tiny.tokenizer.eos_ids))
    )
    request = GenerationRequest(
        (1, 2), sampling, max_tokens=40, constraint=Everything(tiny, low=0, high=40)
    )
    (end,) = collect(start().submit(request))[1]
    assert not set(end.ids) & controls


@pytest.mark.parametrize("where", ["inside", "across"])
def test_stop_ids_and_stop_texts_end_the_output(scripted, where):
    engine = scripted(Script())
    stop = ("aaa",) if where == "across" else ("a",)
    (end,) = collect(engine.submit(plain(stop=stop)))[1]
    assert (end.reason, end.stop, end.text) == ("stop", stop[0], "")
    assert len(end.ids) == len(stop[0])
    (end,) = collect(engine.submit(plain(stop_ids=(97,))))[1]
    assert (end.reason, end.stop, end.ids) == ("stop", 97, ())


def test_min_tokens_holds_back_end_of_text_and_stop_ids(start, tiny):
    wanted = tiny.tokenizer.eos_ids[0]
    sampling = SamplerParams(seed=3, logit_bias=((wanted, 40.0), (7, 40.0)))
    request = GenerationRequest((1, 2), sampling, max_tokens=20, min_tokens=6, stop_ids=(7,))
    (end,) = collect(start().submit(request))[1]
    assert end.reason == "stop"
    assert len(end.ids) == 6
    assert not {wanted, 7} & set(end.ids)


def test_a_slow_consumer_gets_everything_merged(scripted):
    engine = scripted(Script(), stream_queue=4)
    handle = engine.submit(plain(max_tokens=200, ignore_eos=True))
    done = threading.Event()
    handle.add_listener(lambda: done.set() if handle.finished else None)
    assert done.wait(60)
    tokens, (end,) = collect(handle)
    assert len(tokens) < 10
    assert "".join(event.text for event in tokens) == end.text == "a" * 200
    assert tuple(i for event in tokens for i in event.ids) == end.ids


def test_nothing_is_logged_or_printed_by_default():
    logger = logging.getLogger("deepinfer_engine")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)


def test_a_process_ends_cleanly_with_a_busy_engine(tmp_path):
    """The engine is never closed, and busy when the main thread ends."""
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from deepinfer_engine import Engine, EngineConfig, GenerationRequest, load_model
from deepinfer_kernels.sampling import SamplerParams
from deepinfer_sdk.testing import write_tiny_model
folder = Path({str(tmp_path)!r})
write_tiny_model(folder)
engine = Engine(load_model(folder), EngineConfig(threads=1))
handle = engine.submit(GenerationRequest((1, 2), SamplerParams(), ignore_eos=True))
handle.next_event(timeout=60)
print("leaving")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_every_event_of_n_samples_names_its_sample(start):
    tokens, ends = collect(start().submit(plain(n=4, ignore_eos=True)), 4)
    assert [end.sample for end in ends] == [0, 1, 2, 3]
    assert len({end.ids for end in ends}) > 1
    for end in ends:
        assert isinstance(end, FinishEvent)
        mine = [event for event in tokens if event.sample == end.sample]
        assert tuple(i for event in mine for i in event.ids) == end.ids
        assert "".join(event.text for event in mine) == end.text
