"""Sequences, repeats, free text and tags; definitions over all short texts are the oracle."""

import itertools
import re

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    InvalidConstraint,
    TokenAutomaton,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
    compile_union,
)
from deepinfer_grammars.compose import (
    TaggedBlock,
    compile_repeat,
    compile_sequence,
    compile_tagged_text,
    compile_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TAGS = st.text("ab", min_size=1, max_size=4)
ANSWER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def short_texts(letters, longest):
    for size in range(longest + 1):
        yield from map("".join, itertools.product(letters, repeat=size))


@settings(max_examples=60, deadline=None)
@given(TAGS, st.none() | st.integers(0, 4))
def test_text_ends_at_the_first_place_of_its_tag(tag, max_chars):
    grammar = compile_text(until=tag, max_chars=max_chars)
    for text in short_texts("abé", 6):
        expected = text.find(tag) == len(text) - len(tag) and tag in text
        if max_chars is not None:
            expected = expected and len(text) - len(tag) <= max_chars
        assert grammar.accepts(text) == expected, (tag, max_chars, text)


def test_free_text_is_any_text_of_whole_characters():
    assert compile_text().accepts("a\x00\n😀")
    assert not compile_text().accepts(b"\xff")
    assert not compile_text().accepts("\ud800")
    assert compile_text(max_chars=2).accepts("😀😀")
    assert not compile_text(max_chars=2).accepts("😀😀a")


def tagged(text, blocks, at_least, at_most):
    """Whether tags and contents fit, read from the left with backtracking."""
    found = [(at, begin) for begin, _, _ in blocks if (at := text.find(begin)) >= 0]
    if not found:
        return at_least <= 0
    if at_most == 0:
        return False
    at, begin = min(found)
    return any(
        re.fullmatch(content, text[at + len(begin) : end])
        and text.startswith(closing, end)
        and tagged(
            text[end + len(closing) :],
            blocks,
            at_least - 1,
            None if at_most is None else at_most - 1,
        )
        for first, content, closing in blocks
        if first == begin
        for end in range(at + len(begin), len(text) + 1)
    )


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["<", "<b", "ab", "aab", "bb", "<<a"]),
            st.sampled_from(["a*", "b?", "<a|b", "(ab)*", ""]),
            st.sampled_from(["", ">", "b", "<"]),
        ),
        min_size=1,
        max_size=2,
    ),
    st.sampled_from([(0, None), (1, None), (0, 0), (0, 1), (1, 2), (2, 2), (2, None)]),
    st.lists(st.text("<ab>", max_size=9), max_size=60),
)
def test_tagged_text_is_free_text_and_blocks(blocks, counts, texts):
    begins = {begin for begin, _, _ in blocks}
    made = [TaggedBlock(begin, compile_regex(content), end) for begin, content, end in blocks]
    if any(one != other and one in other for one in begins for other in begins):
        with pytest.raises(InvalidConstraint, match="holds the tag"):
            compile_tagged_text(made)
        return
    grammar = compile_tagged_text(made, at_least=counts[0], at_most=counts[1])
    for text in [*texts, *short_texts("<ab>", 4)]:
        assert grammar.accepts(text) == tagged(text, blocks, *counts), (blocks, counts, text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["a*", "b", "ab?", "(a|ba)", "é"]), min_size=1, max_size=3),
    st.sampled_from([(0, None), (0, 0), (1, 1), (2, 3), (0, 2), (3, None)]),
    st.sampled_from(["", ",", "b"]),
)
def test_sequences_and_repeats_are_those_of_re(patterns, counts, separator):
    item = compile_sequence([compile_regex(pattern) for pattern in patterns])
    grammar = compile_repeat(item, low=counts[0], high=counts[1], separator=separator)
    unit = "".join(f"(?:{pattern})" for pattern in patterns)
    low, high = counts
    if low == 0:
        oracle = f"(?:{unit}(?:{separator}{unit}){{0,{'' if high is None else max(high - 1, 0)}}})?"
        oracle = "" if high == 0 else oracle
    else:
        most = "" if high is None else high - 1
        oracle = f"{unit}(?:{separator}{unit}){{{low - 1},{most}}}"
    for text in short_texts("ab,é", 5):
        assert grammar.accepts(text) == bool(re.fullmatch(oracle, text)), (oracle, text)


def test_thinking_then_json_is_completed_within_every_budget(vocabulary, walker):
    answer = compile_json_schema(ANSWER)
    grammar = compile_sequence(
        [compile_regex("<think>"), compile_text(until="</think>"), compile_regex("\n{0,2}"), answer]
    )
    automaton = TokenAutomaton(grammar, vocabulary)
    fewest = automaton.fewest_tokens(automaton.start)
    walk = walker(grammar, seed=3)
    for budget in range(fewest, fewest + 40):
        text = walk.text(budget).decode()
        thought, _, rest = text.removeprefix("<think>").partition("</think>")
        assert text.startswith("<think>")
        assert "</think>" not in thought
        assert answer.accepts(rest.lstrip("\n"))


def test_tool_calls_are_completed_within_every_budget(vocabulary, walker):
    call = TaggedBlock("<tool_call>", compile_json_schema(ANSWER), "</tool_call>")
    for at_least in (0, 1, 2):
        grammar = compile_tagged_text([call], at_least=at_least)
        automaton = TokenAutomaton(grammar, vocabulary)
        fewest = automaton.fewest_tokens(automaton.start)
        walk = walker(grammar, seed=at_least)
        for budget in range(max(fewest, 1), fewest + 40):
            text = walk.text(budget).decode()
            assert text.count("<tool_call>") == text.count("</tool_call>") >= at_least


def test_a_budget_leads_through_a_tag_that_was_begun_by_chance(vocabulary):
    grammar = compile_sequence([compile_text(until="</t>"), compile_regex("x{3}")])
    automaton = TokenAutomaton(grammar, vocabulary)
    state = automaton.walk(automaton.start, b"abc</")
    allowed = vocabulary.unpack(automaton.mask(state, automaton.fewest_tokens(state)))
    assert [vocabulary.tokens[token] for token in allowed] == [b"t"]


def test_unions_recursive_rules_and_grammars_are_parts_too():
    nested = compile_ebnf('root ::= "(" root ")" | "x"')
    lark = compile_ebnf("start: /[a-z]+/ NUMBER?\nNUMBER: /[0-9]+/")
    either = compile_union([nested, lark])
    grammar = compile_sequence([either, compile_regex("; "), compile_repeat(nested, low=1)])
    assert grammar.accepts("((x)); x(x)")
    assert grammar.accepts("ab12; (x)")
    assert not grammar.accepts("((x); x")
    assert not grammar.accepts("12; x")


def test_ends_are_where_a_text_of_the_grammar_ends():
    grammar = compile_regex("a(bc)*")
    assert grammar.ends(b"xabcbcb", 1) == [2, 4, 6]
    assert grammar.ends(b"x", 0) == []
    assert compile_regex("a*").ends(b"aa") == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: compile_text(until=""), InvalidConstraint),
        (lambda: compile_text(until="\ud800"), InvalidConstraint),
        (lambda: compile_text(max_chars=-1), InvalidConstraint),
        (lambda: compile_text(until="a" * 100_000), ConstraintTooLarge),
        (lambda: compile_repeat(compile_regex("a"), low=3, high=2), InvalidConstraint),
        (lambda: compile_repeat(compile_regex("a"), separator="\udfff"), InvalidConstraint),
        (lambda: compile_tagged_text([]), InvalidConstraint),
        (
            lambda: compile_tagged_text([TaggedBlock("a", compile_regex("b"), "c")], at_most=10**9),
            ConstraintTooLarge,
        ),
        (
            lambda: compile_tagged_text(
                [
                    TaggedBlock("<a", compile_regex("b"), "c"),
                    TaggedBlock("<ab", compile_regex("b"), ""),
                ]
            ),
            InvalidConstraint,
        ),
    ],
)
def test_what_has_no_sense_is_refused(make, error):
    with pytest.raises(error) as caught:
        make()
    assert not isinstance(caught.value, EmptyConstraint)
