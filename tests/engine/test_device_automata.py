"""Token automata on the device against the automata they come from."""

from tests.kernels.gpu_sampler_support import DEVICE  # isort: skip - chooses the interpreter

import numpy as np
import pytest
import torch
from deepinfer_engine import EngineError
from deepinfer_engine.device_automata import OPAQUE, DeviceAutomata
from deepinfer_grammars import Expansion, TokenAutomaton, Vocabulary, compile_regex
from engine_helpers import Digits

TOKENS = (
    None,
    b"",
    *(bytes([i]) for i in range(256)),
    *(a + b for a in (b"ab", b"cc", b"0", b"12") for b in (b"a", b"bc", b"1", b"0.5", b" c")),
)
EOS = (0,)


def automaton(pattern, tokens=TOKENS):
    return TokenAutomaton(compile_regex(pattern), Vocabulary(tokens, EOS))


def automata(*, tokens=TOKENS, slots=2, max_bytes=1 << 20):
    return DeviceAutomata(tokens, EOS, torch.device(DEVICE), slots=slots, max_bytes=max_bytes)


def device_mask(held, place):
    """Words and least budget that a sampler finds at a global state; None if it finds none."""
    row = int(held.tables.state_row[place])
    if row < 0:
        return None
    return held.tables.rows[row].cpu().numpy().view(np.uint32), int(held.tables.state_enough[place])


def known_states(source):
    assert Expansion(source, max_states=300).wait(60)
    return source.found_since(0).states.tolist()


@pytest.mark.parametrize("pattern", ["(ab|c){2,5}[0-9]*", "[a-c ]{0,70}x?", "a.*b", "12(0.5)+"])
def test_tables_and_masks_are_those_of_the_automaton(pattern):
    source, held = automaton(pattern), automata()
    states = known_states(source)
    held.acquire(source)
    places = [held.place(source, state) for state in states]
    for state in states[:9]:
        assert held.serve(source, state, 1000, 0) == (places[states.index(state)], -1, False)
    held.flush()
    assert len(set(places)) == len(states)
    assert [held.host_state(place) for place in places] == states
    edges, offsets = held.tables.edges.tolist(), held.tables.state_edges.tolist()
    for state, place in zip(states, places, strict=True):
        for byte in b"abc012.5 x\xff":
            after = source.walk(state, bytes([byte]))
            found = edges[offsets[place] + int(source.byte_class[byte])]
            assert found == (held.place(source, after) if after else 0)
    for state in states[:9]:
        words, enough = device_mask(held, places[states.index(state)])
        assert np.array_equal(words, source.mask(state, 1000))
        assert np.array_equal(words, source.mask(state, enough))


def test_masks_made_by_the_device_are_published_and_counted():
    source, held = automaton("(ab|c){2,5}[0-9]*"), automata()
    states = known_states(source)
    held.acquire(source)
    held.place(source, source.start)
    for _ in range(3):  # asks, and takes what was made
        held.refresh()
    found = [device_mask(held, held.place(source, state)) for state in states]
    assert all(one is not None for one in found)
    for state, (words, enough) in zip(states, found, strict=True):
        assert np.array_equal(words, source.mask(state, enough))
    stats = held.stats()
    assert (stats.rows_built, stats.rows_used, stats.rows_uploaded) == (*[len(states)] * 2, 0)


def test_a_narrow_budget_gets_the_mask_of_the_slot():
    source, held = automaton("(ab|c){4}"), automata()
    held.acquire(source)
    place, row, narrowed = held.serve(source, source.start, 4, 1)
    held.flush()
    assert (row, narrowed) == (1, source.narrowed(source.start, 4))
    words = held.tables.rows[1].cpu().numpy().view(np.uint32)
    assert np.array_equal(words, source.mask(source.start, 4))
    assert device_mask(held, place) is None


def test_equal_constraints_share_and_opaque_ones_have_no_states():
    source, held = automaton("a+"), automata()
    held.acquire(source)
    first, states = held.place(source, source.start), held.stats().states
    held.acquire(source)
    assert (held.place(source, source.start), held.stats().states) == (first, states)

    class Model:
        class tokenizer:
            token_bytes, eos_ids = TOKENS, EOS

    digits = Digits(Model)
    held.acquire(digits)
    assert held.place(digits, digits.start) == OPAQUE
    assert held.host_state(OPAQUE) is None


def test_what_nobody_uses_makes_room_and_what_is_used_stays():
    held = automata(max_bytes=400_000)
    room = len(held.tables.state_row)
    kept = automaton("k{3}a")
    held.acquire(kept)
    place, _, _ = held.serve(kept, kept.start, 1000, 0)
    for i in range(room // 64 + 3):
        other = automaton(f"b{{{i + 1}}}")
        held.acquire(other)
        at, _, _ = held.serve(other, other.start, 1000, 1)
        held.flush()
        words, _ = device_mask(held, at)
        assert np.array_equal(words, other.mask(other.start, 1000))
        assert held.host_state(at) == other.start
        held.release(other)
    assert held.place(kept, kept.start) == place
    assert held.stats().states <= room


def test_masks_make_room_for_each_other():
    tokens = TOKENS + tuple(f"x{i}".encode() for i in range(20_000))
    source = automaton("[a-c]{0,60}", tokens)
    held = automata(tokens=tokens, slots=1, max_bytes=200_000)
    states = known_states(source)
    rows = len(held.tables.rows) - 1
    assert 2 <= rows < len(states)
    held.acquire(source)
    for state in states:
        place, _, _ = held.serve(source, state, 1000, 0)
        held.flush()
        words, _ = device_mask(held, place)
        assert np.array_equal(words, source.mask(state, 1000))
    assert held.stats().rows_used <= rows


def test_too_little_memory_is_refused_with_a_figure():
    with pytest.raises(EngineError, match="automata_bytes=100 holds 2 masks") as caught:
        automata(max_bytes=100)
    assert "Use automata_bytes=228" in caught.value.hint
    automata(max_bytes=228)


def test_more_than_fits_is_refused_until_somebody_ends():
    held = automata(max_bytes=100_000)
    used = [automaton(f"b{{{i + 1}}}") for i in range(3)]
    for fits in used[:2]:
        held.acquire(fits)
        held.place(fits, fits.start)
    held.acquire(used[2])
    with pytest.raises(EngineError, match="need more than") as caught:
        held.place(used[2], used[2].start)
    assert caught.value.kind == "memory"
    assert "Raise automata_bytes" in caught.value.hint
    held.release(used[0])
    assert held.place(used[2], used[2].start) > OPAQUE
