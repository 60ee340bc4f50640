"""Expressions and derivatives against Python's `re` on random expressions and texts."""

import re

import pytest
from deepinfer_grammars.derivative import finish_rules, moves
from deepinfer_grammars.distance import UNREACHABLE, Distance
from deepinfer_grammars.errors import EmptyConstraint
from deepinfer_grammars.expr import Pool
from deepinfer_grammars.utf8 import char_set, intersect, invert, normalise
from hypothesis import given, settings
from hypothesis import strategies as st


def matches(pool, node, data):
    for byte in data:
        for mask, target in moves(pool, node):
            if mask >> byte & 1:
                node = target
                break
        else:
            return False
    return bool(node.nullable)


def shape(depth):
    """(builder of a node, equivalent pattern for `re`)."""
    leaf = st.sampled_from("abc").map(
        lambda c: (lambda pool: pool.literal(c), c)
    ) | st.sampled_from(["ab", "bc", "ac"]).map(
        lambda s: (lambda pool: pool.byte_set(sum(1 << ord(c) for c in s)), f"[{s}]")
    )
    if depth == 0:
        return leaf
    below = shape(depth - 1)
    spans = st.tuples(st.integers(0, 3), st.integers(-1, 3))

    def seq(pair):
        (a, x), (b, y) = pair
        return lambda pool: pool.seq(a(pool), b(pool)), f"(?:{x}{y})"

    def alt(parts):
        return (
            lambda pool: pool.alt([build(pool) for build, _ in parts]),
            "(?:" + "|".join(text for _, text in parts) + ")",
        )

    def repeat(pair):
        (a, x), (low, extra) = pair
        high = -1 if extra < 0 else low + extra
        return (
            lambda pool: pool.repeat(a(pool), low, high),
            f"(?:{x}){{{low},{'' if high < 0 else high}}}",
        )

    def both(pair):
        (a, x), (b, y) = pair
        return (
            lambda pool: pool.all_of((a(pool), b(pool))),
            f"(?:(?={x}$)(?:{y}))" if depth == 3 else None,
        )

    combined = (
        st.tuples(below, below).map(seq)
        | st.lists(below, min_size=1, max_size=3).map(alt)
        | st.tuples(below, spans).map(repeat)
    )
    return combined if depth < 3 else combined | st.tuples(below, below).map(both)


@settings(max_examples=300, deadline=None)
@given(shape(3), st.lists(st.text("abc", max_size=7), min_size=1, max_size=20))
def test_random_expressions_match_what_re_matches(built, texts):
    build, pattern = built
    pool = Pool()
    node = build(pool)
    finish_rules(pool, node)
    for text in texts:
        assert matches(pool, node, text.encode()) == bool(re.fullmatch(pattern, text)), pattern


@settings(max_examples=200, deadline=None)
@given(shape(2), shape(2), st.lists(st.text("abc", max_size=6), min_size=1, max_size=20))
def test_complement_and_intersection_are_boolean(first, second, texts):
    pool = Pool()
    a, b = first[0](pool), second[0](pool)
    node = pool.all_of((a, pool.complement(b)))
    finish_rules(pool, node)
    for text in texts:
        expected = bool(re.fullmatch(first[1], text)) and not re.fullmatch(second[1], text)
        assert matches(pool, node, text.encode()) == expected


@settings(max_examples=150, deadline=None)
@given(shape(2), shape(2))
def test_distance_is_the_length_of_the_shortest_match(first, second):
    pool = Pool()
    node = pool.all_of((first[0](pool), pool.complement(second[0](pool))))
    finish_rules(pool, node)
    distance = Distance(pool)
    frontier, steps = {node}, 0
    while frontier and steps < 12 and not any(n.nullable for n in frontier):
        frontier = {target for n in frontier for _, target in moves(pool, n)}
        steps += 1
    if any(n.nullable for n in frontier):
        assert distance(node) == steps
    elif not frontier:
        assert distance(node) == UNREACHABLE
    else:  # longer than this breadth-first search goes, or a loop that never ends
        assert distance(node) >= 12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=6), max_size=30), st.lists(st.binary(max_size=6), max_size=10))
def test_words_accept_exactly_the_words(words, others):
    pool = Pool()
    node = pool.words(words)
    finish_rules(pool, node)
    for text in [*words, *others]:
        assert matches(pool, node, text) == (text in words)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 3000)), max_size=6),
    st.lists(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
)
def test_char_sets_accept_exactly_their_characters(pairs, characters):
    ranges = normalise([(a, min(a + b, 0x10FFFF)) for a, b in pairs])
    pool = Pool()
    node, other = char_set(pool, ranges), char_set(pool, invert(ranges))
    finish_rules(pool, pool.alt((node, other)))
    edges = [chr(p) for r in ranges for p in r if not 0xD800 <= p <= 0xDFFF]
    for character in characters + edges:
        inside = any(first <= ord(character) <= last for first, last in ranges)
        assert matches(pool, node, character.encode()) == inside
        assert matches(pool, other, character.encode()) == (not inside)
    assert intersect(ranges, invert(ranges)) == ()


def test_utf8_refuses_surrogates_overlong_and_out_of_range_bytes():
    pool = Pool()
    node = char_set(pool, [(0, 0x10FFFF)])
    for data in (
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xff",
        b"\x80",
    ):
        assert not matches(pool, node, data)


def test_counted_repeats_stay_one_node_and_ambiguous_ones_stay_small():
    pool = Pool()
    a = pool.literal("a")
    node = pool.repeat(pool.alt((a, pool.literal("aa"))), 0, 10_000)
    finish_rules(pool, node)
    before = len(pool.nodes)
    for _ in range(2000):
        ((_, node),) = moves(pool, node)
    assert len(pool.nodes) - before < 20_000


def test_recursion_is_a_stack():
    pool = Pool()
    value = pool.rule("value")
    pool.define(value, pool.seq(pool.literal("("), pool.repeat(value, 0), pool.literal(")")))
    finish_rules(pool, value)
    assert matches(pool, value, b"(" * 5000 + b")" * 5000)
    assert not matches(pool, value, b"(" * 5000 + b")" * 4999)
    assert matches(pool, value, b"(()(()))")


def test_left_recursion_becomes_iteration():
    pool = Pool()
    a, b = pool.rule("a"), pool.rule("b")
    pool.define(a, pool.alt((pool.seq(b, pool.literal("x")), pool.literal("p"))))
    pool.define(b, pool.alt((pool.seq(a, pool.literal("y")), pool.literal("q"))))
    finish_rules(pool, a)
    assert [t for t in ("p", "qx", "pyx", "pyxyx", "qxyx") if matches(pool, a, t.encode())]
    assert not [t for t in ("x", "py", "qxx", "q", "") if matches(pool, a, t.encode())]


def test_an_undefined_rule_is_named():
    pool = Pool()
    with pytest.raises(EmptyConstraint, match="ghost"):
        finish_rules(pool, pool.seq(pool.literal("a"), pool.rule("ghost")))


def test_a_growing_terminal_may_not_end_while_it_can_grow():
    pool = Pool()
    word = pool.greedy(pool.repeat(pool.byte_range(97, 122), 1))
    node = pool.seq(word, pool.alt((pool.literal("b"), pool.literal(" b"))))
    finish_rules(pool, node)
    assert matches(pool, node, b"aab b")
    assert not matches(pool, node, b"aab")
    assert Distance(pool)(node) == 3
