"""Opening, sharing, closing and forgetting sessions; Ctrl-C."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest

from deepinfer_sdk import SamplingParams, SessionClosed
from deepinfer_sdk.testing import FakeSession

PARAMS = SamplingParams(seed=7, max_tokens=10)


def engine_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.daemon}


def test_a_closed_session_says_so_and_closes_twice():
    session = FakeSession(seed=2)
    session.close()
    session.close()
    assert session.closed
    assert repr(session) == "Session(closed)"
    for call in (
        lambda: session.generate("a"),
        lambda: session.stream("a"),
        lambda: session.map(["a"]),
        lambda: session.chat([{"role": "user", "content": "a"}]),
        lambda: session.stats(),
        lambda: session.model,
        lambda: session.__enter__(),
    ):
        with pytest.raises(SessionClosed, match="closed") as caught:
            call()
        assert "Session(...)" in caught.value.hint


def test_sessions_on_the_same_model_share_it_until_the_last_one_closes():
    first, second = FakeSession(seed=2), FakeSession(seed=2)
    assert second.stats().sessions == 2
    assert first._runtime is second._runtime
    first.close()
    assert second.generate("a", sampling=PARAMS).text
    second.close()


def test_other_engine_settings_share_the_weights_only():
    with FakeSession(seed=2) as first, FakeSession(seed=2, max_len=64) as second:
        assert first._runtime is not second._runtime
        assert first._runtime.model is second._runtime.model
        assert second.model.context == 64


def test_sessions_on_other_models_share_nothing():
    with FakeSession(seed=2) as first, FakeSession(seed=3) as second:
        assert first.model.digest != second.model.digest
        texts = {s.generate("a", sampling=PARAMS).text for s in (first, second)}
        assert len(texts) == 2


def test_the_same_model_opened_again_gives_the_same_bytes():
    with FakeSession(seed=2) as session:
        text = session.generate("a", sampling=PARAMS).text
    with FakeSession(seed=2) as session:
        assert session.generate("a", sampling=PARAMS).text == text


def test_opening_and_closing_leaves_no_thread_behind():
    before = engine_threads()
    for _ in range(5):
        with FakeSession(seed=4) as session:
            session.generate("a", sampling=PARAMS)
    assert engine_threads() == before


def test_a_forgotten_session_is_closed_silently(capfd):
    before = engine_threads()
    session = FakeSession(seed=5)
    session.generate("a", sampling=PARAMS)
    runtime = weakref.ref(session._runtime)
    del session
    gc.collect()
    for thread in engine_threads() - before:
        thread.join(timeout=20)
    gc.collect()
    assert engine_threads() == before
    assert runtime() is None
    assert capfd.readouterr() == ("", "")


def test_a_stream_keeps_its_session_open():
    stream = FakeSession(seed=5).stream("a", sampling=PARAMS)
    gc.collect()
    list(stream)
    assert stream.result.usage.completion_tokens <= 10


def test_a_result_does_not_keep_the_session():
    session = FakeSession(seed=5)
    result = session.generate("a", sampling=PARAMS)
    ghost = weakref.ref(session)
    del session
    gc.collect()
    assert ghost() is None
    assert result.seed == 7


INTERRUPTED = """
import os, signal, sys, threading
from deepinfer_sdk import SamplingParams
from deepinfer_sdk.testing import FakeSession

# Programs started in the background by a shell ignore Ctrl-C from birth.
signal.signal(signal.SIGINT, signal.default_int_handler)
long = SamplingParams(seed=7, max_tokens=100, ignore_eos=True)
with FakeSession() as session:
    session.generate("warm up", sampling=SamplingParams(max_tokens=2))
    whole = session.generate("hello", sampling=long)
    runtime = session._runtime
    submit = runtime.engine.submit
    seen = []

    def submit_and_interrupt(request):
        handle = submit(request)

        def on_event():
            seen.append(1)
            if len(seen) == 5:
                os.kill(os.getpid(), signal.SIGINT)

        handle.add_listener(on_event)
        return handle

    runtime.engine.submit = submit_and_interrupt
    try:
        CALL
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("not interrupted")
    runtime.engine.submit = submit
    kept = session.last_interrupted
    assert kept is not None and kept.seeds[0] == 7, kept
    assert whole.text.startswith(kept.text.rstrip("\\ufffd")), (kept.text, whole.text)
    assert 0 < len(kept.text) < len(whole.text), kept.text
    assert session.generate("hello", sampling=long).ids == whole.ids
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("fine")
"""


@pytest.mark.parametrize(
    "call",
    [
        'session.generate("hello", sampling=long)',
        'session.map(["hello", "again"], sampling=long)',
        '[None for _ in session.stream("hello", sampling=long)]',
    ],
)
def test_ctrl_c_stops_the_call_keeps_the_text_and_leaves_the_session_usable(call, environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED.replace("CALL", call)],
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"
    assert done.stderr == ""
