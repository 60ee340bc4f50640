"""The outlines-core engine: the same texts, masks and budgets as our own automata."""

import re

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
    TokenAutomaton,
    Vocabulary,
    compile_regex,
)
from deepinfer_grammars.outlines_engine import OutlinesAutomaton
from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer_sdk import SamplingParams, Schema
from deepinfer_sdk import SchemaNotSupported as Refused
from deepinfer_sdk.testing import FakeSession

ATOMS = st.sampled_from(["a", "b", "ab", ".", r"\w", r"\d", "[ab]", "[^a]", "é", "😀", "", r"\x00"])


def patterns(below):
    return st.one_of(
        st.tuples(below, below).map("".join),
        st.lists(below, min_size=2, max_size=4).map(lambda p: f"(?:{'|'.join(p)})"),
        st.tuples(below, st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "*?", "{2,}"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        below.map(lambda p: f"(?i:{p})"),
    )


PATTERNS = st.recursive(ATOMS, patterns, max_leaves=7)
# Every byte is a token, so our own automata may use all of them.
PIECES = [bytes([byte]) for byte in range(256)]
PIECES += [
    b"ab",
    b"aa",
    b"ba",
    b"aab",
    b"\xc3\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"b\xc3",
    b"ab",
    None,
]
SMALL = Vocabulary([*PIECES, None], [len(PIECES), len(PIECES) - 1])


@settings(max_examples=120, deadline=None)
@given(PATTERNS, st.integers(0, 5))
def test_masks_at_every_state_are_those_of_our_own_automata(pattern, budget):
    try:
        ours = TokenAutomaton(compile_regex(pattern), SMALL)
    except EmptyConstraint:
        with pytest.raises(EmptyConstraint):
            OutlinesAutomaton(pattern, SMALL)
        return
    theirs = OutlinesAutomaton(pattern, SMALL)
    pairs = [(ours.start, theirs.start)]
    seen = set(pairs)
    for own, other in pairs[:60]:
        assert ours.accepting(own) == theirs.accepting(other), pattern
        assert ours.complete(own) == theirs.complete(other), pattern
        allowed = SMALL.unpack(theirs.mask(other, 1000))
        assert SMALL.unpack(ours.mask(own, 1000)) == allowed, pattern
        # Ours keeps one completion per state in mind, so it may ask for a token more.
        assert theirs.fewest_tokens(other) <= ours.fewest_tokens(own)
        narrow = set(SMALL.unpack(ours.mask(own, budget)))
        assert narrow <= set(SMALL.unpack(theirs.mask(other, budget))) <= set(allowed)
        for token in allowed:
            if SMALL.tokens[token] is not None:
                pair = (ours.advance(own, token), theirs.advance(other, token))
                if pair not in seen:
                    seen.add(pair)
                    pairs.append(pair)


@pytest.mark.parametrize(
    "pattern", [r"\d{3}-\d{4}", "(a|b)*abb", "é{1,5}😀?", "(?i)yes|no", "abc|a", "a|abc", ".{0,9}"]
)
def test_outputs_match_at_every_budget(pattern, vocabulary):
    import random

    automaton = OutlinesAutomaton(pattern, vocabulary)
    fewest = automaton.fewest_tokens(automaton.start)
    for budget in range(fewest, fewest + 25):
        chance = random.Random(budget)
        state, out, left = automaton.start, b"", budget
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            assert allowed, f"dead end after {out!r}"
            assert automaton.narrowed(state, left) == (
                len(allowed) < len(vocabulary.unpack(automaton.mask(state, 10**6)))
            )
            token = chance.choice(allowed)
            if token in vocabulary.eos_ids:
                break
            state, left = automaton.advance(state, token), left - 1
            out += vocabulary.tokens[token]
        assert left >= 0
        assert re.fullmatch(pattern, out.decode()), out


def test_the_longer_of_two_words_is_not_lost(vocabulary):
    for pattern in ("abc|a", "a|abc"):
        automaton = OutlinesAutomaton(pattern, vocabulary)
        state = automaton.start
        for token in b"abc":
            state = automaton.advance(state, token)
        assert automaton.complete(state)


def test_tokens_that_do_not_fit_are_refused(vocabulary):
    automaton = OutlinesAutomaton("ab", vocabulary)
    for token in (ord("x"), -1, vocabulary.size, vocabulary.eos_ids[0]):
        with pytest.raises(ValueError, match="not allowed"):
            automaton.advance(automaton.start, token)


@pytest.mark.parametrize(
    ("pattern", "error", "message"),
    [
        ("(?=a)[ab]+", SchemaNotSupported, "lookahead"),
        (r"\bfoo\b", SchemaNotSupported, "anchor"),
        ("(^a|b)*", GrammarError, "anchor"),
        (r"(a)\1", SchemaNotSupported, "backreference"),
        ("a(", InvalidConstraint, "not closed"),
        ("a{1,100000}", ConstraintTooLarge, "100000"),
        ("[^\\s\\S]", EmptyConstraint, "nothing"),
    ],
)
def test_what_an_index_cannot_follow_is_refused(pattern, error, message, vocabulary):
    with pytest.raises(error, match=message):
        OutlinesAutomaton(pattern, vocabulary)


def test_anchors_around_the_whole_pattern_change_nothing(vocabulary):
    for pattern in ("^ab$", "(^ab$)", "^a|^b$"):
        automaton = OutlinesAutomaton(pattern, vocabulary)
        assert automaton.mask(automaton.start, 9).any()


def test_a_session_runs_with_either_engine():
    pattern = "[a-z]{3,8} [0-9]+|none"
    with FakeSession() as session:
        for seed in range(4):
            sampling = SamplingParams(max_tokens=9, seed=seed, temperature=1.0)
            texts = [
                session.generate("a", schema=schema, sampling=sampling).text
                for schema in (Schema.regex(pattern), Schema.regex(pattern, engine="outlines"))
            ]
            assert all(re.fullmatch(pattern, text) for text in texts)
        result = session.generate("a", schema=Schema.regex("x+", engine="outlines"))
        assert session.replay(result).same
    with pytest.raises(Refused, match="lookahead"):
        Schema.regex("(?!a)[ab]", engine="outlines")
