"""What an engine used is free once it is closed, whoever still holds the engine or a handle."""

import gc
import logging
import weakref

import pytest
from deepinfer_engine import Engine, EngineConfig, EngineError, GenerationRequest
from deepinfer_engine.executor import Choice
from deepinfer_engine.loop import TokenTable
from deepinfer_kernels.sampling import Drawn, SamplerParams, Status
from engine_helpers import Immediate, collect

TABLE = TokenTable(tuple(bytes([byte]) for byte in range(256)), (0,))
REQUEST = GenerationRequest((1, 2), SamplerParams(seed=1), max_tokens=3, ignore_eos=True)


class Doomed(Immediate):
    """Stops the engine in its second step."""

    steps = 0

    def launch(self, entries):
        self.steps += 1
        if self.steps == 2:
            raise SystemExit("the device is gone")
        return [Choice(Drawn(token=97, status=Status.OK)) for e in entries if e.samples]


def test_a_closed_engine_and_its_old_handles_keep_no_cache(tiny):
    engine = Engine(tiny, EngineConfig(threads=1))
    cache = weakref.ref(engine._loop._executor._cache)
    handle = engine.submit(REQUEST)
    collect(handle)
    assert cache() is not None
    engine.close()
    gc.collect()
    assert cache() is None
    assert engine.stats().finished == 1
    handle.cancel()  # no effect any more
    assert handle.next_event(timeout=0) is None


def test_a_handle_of_a_forgotten_engine_keeps_no_cache(tiny):
    engine = Engine(tiny, EngineConfig(threads=1))
    cache, thread = weakref.ref(engine._loop._executor._cache), engine._thread
    handle = engine.submit(REQUEST)
    collect(handle)
    del engine
    gc.collect()
    thread.join(timeout=60)
    assert cache() is None
    assert handle.finished


def test_a_failed_engine_lets_go_before_it_is_closed(monkeypatch):
    # Records of the log hold the traceback, and pytest keeps the records.
    monkeypatch.setattr(logging.getLogger("deepinfer_engine"), "disabled", True)
    executor = Doomed()
    device = weakref.ref(executor)
    engine = Engine.over(executor, TABLE, EngineConfig(), num_blocks=4, max_len=256)
    del executor
    (end,) = collect(engine.submit(REQUEST))[1]
    assert (end.reason, end.error.kind) == ("error", "engine")
    with pytest.raises(EngineError, match="the device is gone"):
        engine.submit(REQUEST)
    gc.collect()
    assert device() is None
    engine.close()
