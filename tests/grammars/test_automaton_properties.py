"""Token automata on random patterns and real schemas: masks, splits into tokens, no dead ends."""

import gzip
import json
import re
from itertools import islice
from pathlib import Path

import numpy as np
import outlines_core
import pytest
from deepinfer_grammars import (
    GrammarError,
    TokenAutomaton,
    Vocabulary,
    compile_choice,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"
PLENTY = 1 << 30
SINGLES = [bytes([byte]) for byte in range(256)]


def ids_of(mask):
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


def one_by_one(automaton, state):
    """The mask by trying every token alone."""
    tokens = automaton.vocabulary.tokens
    allowed = {i for i, token in enumerate(tokens) if token and automaton.walk(state, token)}
    if automaton.accepting(state):
        allowed |= set(automaton.vocabulary.eos_ids)
    return sorted(allowed)


def vocabulary_of(pieces):
    longer = sorted(set(pieces) - set(SINGLES) - {b""})
    return Vocabulary([*SINGLES, *longer, None], [256 + len(longer)])


ATOMS = st.sampled_from(["a", "b", "c", "ab", "ba", "[ab]", "[^a]", ".", "é", "[a-c]", "x"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,20}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
TEXTS = st.text("abcxé", max_size=8)


@settings(max_examples=80, deadline=None)
@given(PATTERNS, TEXTS, st.lists(st.text("abcxé", min_size=2, max_size=5), max_size=20))
def test_a_text_fits_in_every_split_into_tokens_exactly_if_the_pattern_matches(
    pattern, text, pieces
):
    grammar = compile_regex(pattern)
    automaton = TokenAutomaton(grammar, vocabulary_of(piece.encode() for piece in pieces))
    data = text.encode()
    reached = [automaton.start]
    for byte in data:
        reached.append(automaton.walk(reached[-1], bytes([byte])))
    for begin, state in enumerate(reached):
        if not state:
            continue
        mask = set(ids_of(automaton.mask(state, PLENTY)))
        for token, piece in enumerate(automaton.vocabulary.tokens):
            if piece and data.startswith(piece, begin):
                end = reached[begin + len(piece)]
                assert (token in mask) == bool(end), (pattern, text, piece)
                if end:
                    assert automaton.advance(state, token) == end
    matches = re.fullmatch(pattern, text) is not None
    assert (bool(reached[-1]) and automaton.accepting(reached[-1])) == matches, (pattern, text)


@settings(max_examples=60, deadline=None)
@given(PATTERNS, st.lists(st.text("abcxé", min_size=2, max_size=5), max_size=20))
def test_masks_equal_trying_every_token_on_random_patterns(pattern, pieces):
    vocabulary = vocabulary_of(piece.encode() for piece in pieces)
    automaton = TokenAutomaton(compile_regex(pattern), vocabulary)
    other = TokenAutomaton(compile_regex(pattern), vocabulary)
    todo = [(automaton.start, other.start)]
    seen = set(todo)
    for state, twin in islice(todo, 60):  # grows while it is read
        allowed = ids_of(automaton.mask(state, PLENTY))
        assert allowed == one_by_one(other, twin), pattern
        for token in allowed[:8]:
            if token not in vocabulary.eos_ids:
                pair = (automaton.advance(state, token), other.advance(twin, token))
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)


@settings(max_examples=60, deadline=None)
@given(PATTERNS)
def test_every_reachable_state_ends_within_the_fewest_bytes_it_claims(pattern):
    automaton = TokenAutomaton(compile_regex(pattern), vocabulary_of([]))
    table = automaton.table
    todo = [automaton.start]
    for state in islice(todo, 100):  # grows while it is read
        table.expand((state,))
        todo += [s for s in np.unique(table.transitions[state]).tolist() if s and s not in todo]
    for state in todo[:100]:
        fewest, steps = int(table.fewest[state]), 0
        while not automaton.accepting(state):
            byte, after = table.nearest(state)
            assert byte in ids_of(automaton.mask(state, fewest - steps))
            state, steps = after, steps + 1
        assert steps == fewest, pattern


@settings(max_examples=25, deadline=None)
@given(PATTERNS, st.lists(st.text("abcxé", min_size=2, max_size=5), max_size=12), st.randoms())
def test_every_budget_from_the_least_upward_ends_in_a_match(pattern, pieces, rng):
    automaton = TokenAutomaton(
        compile_regex(pattern), vocabulary_of(piece.encode() for piece in pieces)
    )
    least = automaton.fewest_tokens(automaton.start)
    for budget in range(least, least + 6):
        state, out, left = automaton.start, b"", budget
        while not automaton.complete(state):
            allowed = ids_of(automaton.mask(state, left))
            assert allowed, (pattern, out, left)
            token = rng.choice(allowed)
            if token in automaton.vocabulary.eos_ids:
                break
            state = automaton.advance(state, token)
            out += automaton.vocabulary.tokens[token]
            left -= 1
        assert left >= 0
        assert re.fullmatch(pattern, out.decode()), (pattern, out)


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-c]{1,3}d",
        "(ab|cd)*e",
        "[ab]+c[ab]+",
        "a{2,40}b",
        "[^x]{0,30}x",
        "(é|ü|a){3,9}z",
        r"-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,3})?x",
    ],
)
def test_masks_equal_the_index_of_outlines_core_in_all_states(pattern):
    pieces = [b"ab", b"abab", b"cd", b"aaa", b"bx", b"ba", b"12", b"123", b".5", b"-1", b"cde"]
    pieces += ["éa".encode(), "üé".encode(), b"aaaaaaaa", b"xx", b"ad", b"bc", b"0."]
    vocabulary = vocabulary_of(pieces)
    eos = vocabulary.eos_ids[0]
    automaton = TokenAutomaton(compile_regex(pattern), vocabulary)
    theirs = outlines_core.Vocabulary(
        eos, {token: [i] for i, token in enumerate(vocabulary.tokens) if token}
    )
    index = outlines_core.Index(pattern, theirs)
    todo = [(automaton.start, index.get_initial_state())]
    seen = set(todo)
    for state, other in islice(todo, 300):  # grows while it is read
        allowed = set(ids_of(automaton.mask(state, PLENTY)))
        assert allowed - {eos} == set(index.get_allowed_tokens(other)) - {eos}
        assert automaton.accepting(state) == index.is_final_state(other) == (eos in allowed)
        for token in allowed - {eos}:
            pair = (automaton.advance(state, token), index.get_next_state(other, token))
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)


def real_cases(step):
    with gzip.open(DATA / "maskbench_public.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in list(lines)[::step]:
            case = json.loads(line)
            texts = [json.dumps(t["data"], ensure_ascii=False) for t in case["tests"] if t["valid"]]
            yield case["id"], lambda case=case: compile_json_schema(case["schema"]), texts
    for name in ("regex_cases.jsonl", "grammar_cases.jsonl"):
        with (DATA / name).open(encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                make = compile_regex if case["kind"] == "regex" else compile_ebnf
                source = case["constraint"]
                if case["expect"] == "works":
                    yield case["id"], lambda m=make, s=source: m(s), case["accepts"]


def test_masks_of_real_constraints_equal_trying_every_token(vocabulary):
    """In the states along their own texts, where masks are put together in all ways."""
    compared = 0
    for name, make, texts in real_cases(17):
        try:
            automaton, fresh = (TokenAutomaton(make(), vocabulary) for _ in range(2))
        except GrammarError:
            continue
        for text in texts[:2]:
            state, other = automaton.start, fresh.start
            for byte in text.encode()[:40]:
                mask = ids_of(automaton.mask(state, PLENTY))
                assert mask == one_by_one(fresh, other), (name, text)
                state = automaton.walk(state, bytes([byte]))
                other = fresh.walk(other, bytes([byte]))
                compared += 1
                if not state:
                    break
    assert compared > 1_000


def test_a_row_put_together_never_claims_less_than_the_farthest_state(vocabulary):
    """Else a small budget could let a token through that cannot be finished."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "n": {"type": "number"}},
        "required": ["n"],
    }
    automaton = TokenAutomaton(compile_json_schema(schema), vocabulary)
    state = automaton.start
    for byte in b'{"name": "abc", "n": 12.5, "other": [1, {"x": null}]}':
        least = automaton.fewest_tokens(state)
        for budget in range(least, least + 12):
            for token in ids_of(automaton.mask(state, budget)):
                if token not in vocabulary.eos_ids:
                    after = automaton.advance(state, token)
                    assert automaton.fewest_tokens(after) <= budget - 1
        state = automaton.walk(state, bytes([byte]))


def test_long_lists_of_words_equal_trying_every_token(vocabulary):
    words = [f"{a}{b}{c}" for a in "abcdefgh" for b in ("ge", "me", "12") for c in ("", "x", "é")]
    automaton, fresh = (TokenAutomaton(compile_choice(words), vocabulary) for _ in range(2))
    for text in words[::5]:
        data = text.encode()
        for end in range(len(data) + 1):
            state, other = (a.walk(a.start, data[:end]) for a in (automaton, fresh))
            assert ids_of(automaton.mask(state, PLENTY)) == one_by_one(fresh, other), data[:end]
        assert automaton.accepting(state)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[a-z]+@[a-z]+$", "maxLength": 40},
        {"type": "string", "pattern": "a.b", "minLength": 12, "maxLength": 45},
        {"type": "string", "pattern": "^(ab|c)+d$", "minLength": 7, "maxLength": 30},
        {"type": "string", "format": "email", "maxLength": 50},
    ],
)
def test_intersections_with_counters_equal_trying_every_token_up_to_the_limit(schema, vocabulary):
    automaton, fresh = (TokenAutomaton(compile_json_schema(schema), vocabulary) for _ in range(2))
    texts = [b"ab" * 30, b"a" * 20 + b"@" + b"b" * 30, b"axb" + b"the " * 11, b"c" * 29 + b"d"]
    compared = 0
    for text in texts:
        state, other = automaton.start, fresh.start
        for byte in b'"' + text + b'"':
            mask = ids_of(automaton.mask(state, PLENTY))
            assert mask == one_by_one(fresh, other), text
            compared += 1
            state, other = (
                a.walk(s, bytes([byte])) for a, s in ((automaton, state), (fresh, other))
            )
            if not state:
                break
    assert compared > 50
