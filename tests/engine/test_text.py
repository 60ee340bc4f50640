"""Text assembly and the event queue, against naive oracles."""

import codecs
import threading

from deepinfer_engine import FinishEvent, RequestHandle, TokenEvent, Usage
from deepinfer_engine.text import TextAssembler
from hypothesis import example, given, settings
from hypothesis import strategies as st

STOPS = st.lists(st.text("abé\ufffd", min_size=1, max_size=4), max_size=3)
PIECES = st.lists(
    st.one_of(st.binary(max_size=3), st.text("abé😀", max_size=4).map(str.encode)), max_size=12
)


def cut(text, stops):
    """Read letter by letter; the first stop text that is complete ends it, a longer one first."""
    for end in range(len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


@settings(max_examples=500, deadline=None)
@given(STOPS, PIECES)
@example(["aba", "b"], [b"aba"])
@example(["aba", "b"], [b"a", b"ba"])
@example(["ab", "b"], [b"xab"])
def test_streamed_text_is_the_decoded_whole_cut_at_the_earliest_stop(stops, pieces):
    assembler = TextAssembler(stops)
    longest = max((len(stop) for stop in stops), default=1)
    out = ""
    for count, piece in enumerate(pieces, 1):
        out += assembler.push(piece)
        if assembler.stop is None:
            so_far = codecs.getincrementaldecoder("utf-8")("replace").decode(
                b"".join(pieces[:count])
            )
            assert len(so_far) - len(out) < longest, "more was withheld than could be a stop text"
        if assembler.stop is not None:
            break
    else:
        out += assembler.finish()
    whole = b"".join(pieces).decode("utf-8", "replace")
    assert (out, assembler.stop) == cut(whole, stops)
    assert assembler.text == out


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_what_is_released_is_never_taken_back(pieces):
    assembler = TextAssembler(["stop"])
    whole = b"".join(pieces).decode("utf-8", "replace")
    out = ""
    for piece in pieces:
        out += assembler.push(piece)
        assert whole.startswith(out)


def finish(sample):
    return FinishEvent(sample, "stop", None, None, (), "", (), Usage(1, 1), None, False)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.text("ab", max_size=2)), max_size=60),
    st.integers(0, 9),
)
def test_a_slow_consumer_loses_nothing(tokens, read_every):
    handle = RequestHandle(3, 5, lambda handle: None)
    seen = []
    for index, (sample, text) in enumerate(tokens):
        handle.put(TokenEvent(sample, (index,), text))
        if read_every and index % (read_every + 1) == 0:
            seen.append(handle.next_event(timeout=0))
    for sample in range(3):
        handle.put(finish(sample))
    assert handle.finished
    while (event := handle.next_event(timeout=0)) is not None:
        seen.append(event)
    for sample in range(3):
        mine = [event for event in seen if event.sample == sample]
        assert isinstance(mine[-1], FinishEvent)
        assert "".join(e.text for e in mine[:-1]) == "".join(t for s, t in tokens if s == sample)
        ids = [i for e in mine[:-1] for i in e.ids]
        assert ids == [i for i, (s, _) in enumerate(tokens) if s == sample]


def test_listeners_are_told_and_waiting_can_time_out():
    handle = RequestHandle(1, 5, lambda handle: None)
    assert handle.next_event(timeout=0.01) is None
    calls = []
    handle.put(TokenEvent(0, (1,), "a"))
    handle.add_listener(lambda: calls.append("told"))
    assert calls == ["told"]
    threading.Thread(target=handle.put, args=(finish(0),)).start()
    assert handle.next_event(timeout=5).text == "a"
    assert isinstance(handle.next_event(timeout=5), FinishEvent)
    assert calls == ["told", "told"]
