"""Token automata: masks against brute force, budgets, sharing, and outlines-core as an oracle."""

import json
import random
import threading

import numpy as np
import outlines_core
import pytest
from deepinfer_grammars import (
    EmptyConstraint,
    Grammar,
    TokenAutomaton,
    Vocabulary,
    compile_choice,
    compile_json_schema,
    compile_union,
)
from hypothesis import given, settings
from hypothesis import strategies as st

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", "é"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def ids_of(mask):
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


def brute_force(automaton, state):
    tokens = automaton.vocabulary.tokens
    allowed = {i for i, token in enumerate(tokens) if token and automaton.walk(state, token)}
    if automaton.accepting(state):
        allowed |= set(automaton.vocabulary.eos_ids)
    return sorted(allowed)


@pytest.mark.parametrize(
    "schema",
    [
        PERSON,
        {"type": "string", "minLength": 30, "maxLength": 40},
        {"type": "array", "items": {"type": "number"}, "minItems": 2},
        {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"},
        {},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_masks_equal_trying_every_token(schema, seed, vocabulary, walker):
    walk = walker(compile_json_schema(schema), seed)
    automaton = walk.automaton
    text = walk.text(60)
    assert compile_json_schema(schema).accepts(text)
    fresh = TokenAutomaton(automaton.grammar, vocabulary)
    state = fresh.start
    for byte in text:
        assert ids_of(fresh.mask(state, 10_000)) == brute_force(fresh, state)
        state = fresh.advance(state, byte)  # ids 0..255 are the single bytes


def test_every_budget_from_the_least_upward_ends_in_a_valid_text(walker):
    grammar = compile_json_schema(PERSON)
    walk = walker(grammar)
    least = walk.automaton.fewest_tokens(walk.automaton.start)
    for budget in range(least, least + 41):
        for seed in range(3):
            walk.random.seed(seed)
            value = json.loads(walk.text(budget))
            assert set(value) <= {"name", "age", "tags"}
            assert len(value["name"]) <= 12
            assert 0 <= value["age"] <= 130


def test_the_least_budget_is_met_exactly_and_below_it_the_mask_is_empty(walker):
    walk = walker(compile_choice(["name", "abc123"]))
    automaton = walk.automaton
    assert automaton.fewest_tokens(automaton.start) == 1
    assert walk.text(1) == b"name"
    assert ids_of(automaton.mask(automaton.start, 0)) == []


def test_narrowed_says_whether_the_budget_removed_tokens(walker):
    automaton = walker(compile_json_schema(PERSON)).automaton
    least = automaton.fewest_tokens(automaton.start)
    assert not automaton.narrowed(automaton.start, 500)
    assert automaton.narrowed(automaton.start, least)
    wide = set(ids_of(automaton.mask(automaton.start, 500)))
    assert set(ids_of(automaton.mask(automaton.start, least))) < wide


def test_masks_are_shared_between_positions_of_a_long_string(vocabulary):
    automaton = TokenAutomaton(
        compile_json_schema({"type": "string", "maxLength": 500}), vocabulary
    )
    state = automaton.advance(automaton.start, ord('"'))
    rows = set()
    for _ in range(300):
        rows.add(id(automaton.mask(state, 10_000)))
        state = automaton.advance(state, ord("x"))
    assert len(rows) == 1


def test_twins_are_allowed_together_and_special_tokens_never(vocabulary):
    automaton = TokenAutomaton(compile_choice(["ab"]), vocabulary)
    same = [i for i, token in enumerate(vocabulary.tokens) if token == b"ab"]
    assert len(same) == 2
    assert set(same) <= set(ids_of(automaton.mask(automaton.start, 9)))
    assert automaton.advance(automaton.start, same[0]) == automaton.advance(
        automaton.start, same[1]
    )
    special = len(vocabulary.tokens) - 2
    with pytest.raises(ValueError, match="not allowed"):
        automaton.advance(automaton.start, special)


def test_the_end_is_allowed_exactly_where_the_text_is_complete(vocabulary):
    automaton = TokenAutomaton(compile_choice(["a", "abc"]), vocabulary)
    eos = vocabulary.eos_ids[0]
    state = automaton.start
    assert eos not in ids_of(automaton.mask(state, 5))
    state = automaton.advance(state, ord("a"))
    assert eos in ids_of(automaton.mask(state, 5))
    assert not automaton.complete(state)
    state = automaton.advance(automaton.advance(state, ord("b")), ord("c"))
    assert automaton.complete(state)
    assert ids_of(automaton.mask(state, 5)) == [eos]


def test_bytes_without_a_token_of_their_own_are_never_needed():
    tokens = [b"a", b"b", b"ac", b"c", None]
    assert Vocabulary(tokens, [4]).alphabet == sum(1 << b for b in b"abc")
    short = Vocabulary([b"a", b"b", b"ac", None], [3])
    automaton = TokenAutomaton(compile_choice(["ab", "acb"]), short)
    assert ids_of(automaton.mask(automaton.start, 9)) == [0]
    with pytest.raises(EmptyConstraint, match="vocabulary"):
        TokenAutomaton(compile_choice(["c"]), short)


def test_union_accepts_what_either_accepts():
    grammar = compile_union([compile_choice(["yes", "no"]), compile_json_schema({"type": "null"})])
    assert grammar.accepts("null")
    assert grammar.accepts("yes")
    assert not grammar.accepts("maybe")
    assert grammar.first_error("yez") == 2
    assert grammar.first_error("ye") == 2


def test_contradictions_are_refused():
    with pytest.raises(EmptyConstraint):
        compile_choice([])
    with pytest.raises(EmptyConstraint):
        Grammar(lambda pool: pool.never, "test")


def test_many_threads_get_the_same_masks(vocabulary):
    grammar = compile_json_schema(PERSON)
    reference = TokenAutomaton(grammar, vocabulary)
    shared = TokenAutomaton(grammar, vocabulary)
    text = b'{"name": "abc", "age": 12, "tags": ["a", "ab"]}'
    expected = []
    state = reference.start
    for byte in text:
        expected.append(reference.mask(state, 999).tobytes())
        state = reference.advance(state, byte)
    failures = []

    def run():
        state = shared.start
        for byte, mask in zip(text, expected, strict=True):
            if shared.mask(state, 999).tobytes() != mask:
                failures.append(byte)
            state = shared.advance(state, byte)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


WORDS = st.text("ab1 é", min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=30), st.integers(0, 99))
def test_random_vocabularies_agree_with_outlines_core(words, extra, seed):
    """Choices of words: the same tokens at every state of a random walk.

    The words are prefix-free: outlines-core 0.2.14 loses the longer of `a` and `abc`.
    """
    words = [w for w in set(words) if not any(o != w and w.startswith(o) for o in words)]
    singles = [bytes([byte]) for byte in range(256)]
    longer = sorted({w.encode() for w in extra} - set(singles))
    vocabulary = Vocabulary([*singles, *longer, None], [256 + len(longer)])
    automaton = TokenAutomaton(compile_choice(words), vocabulary)
    oracle_vocabulary = outlines_core.Vocabulary(
        256 + len(longer), {token: [i] for i, token in enumerate([*singles, *longer])}
    )
    pattern = "|".join(words)
    index = outlines_core.Index(f"({pattern})", oracle_vocabulary)
    rng = random.Random(seed)
    state, other = automaton.start, index.get_initial_state()
    for _ in range(6):
        allowed = ids_of(automaton.mask(state, 99))
        theirs = set(index.get_allowed_tokens(other))
        ends = set(vocabulary.eos_ids)
        assert set(allowed) - ends == theirs - ends
        assert index.is_final_state(other) == automaton.accepting(state)
        choices = [token for token in allowed if token not in ends]
        if not choices:
            break
        token = rng.choice(choices)
        state, other = automaton.advance(state, token), index.get_next_state(other, token)


def test_masks_are_read_only(vocabulary):
    automaton = TokenAutomaton(compile_choice(["a"]), vocabulary)
    mask = automaton.mask(automaton.start, 5)
    assert mask.dtype == np.uint32
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = 1
