"""Regular expressions against Python's `re`."""

import re
import unicodedata

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    Grammar,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
    compile_regex,
)
from deepinfer_grammars.char_sets import ignore_case, property_set
from deepinfer_grammars.json_text import json_chars
from deepinfer_grammars.regex import regex_node
from hypothesis import given, settings
from hypothesis import strategies as st

ATOMS = st.sampled_from(
    ["a", "b", "c", ".", r"\w", r"\d", "[ab]", "[^a]", r"\s", "1", " ", r"\n", r"\W", "[a-c1]", "_"]
)
PLACES = st.sampled_from(["^", "$", r"\b", r"\B", r"\Z", "(?=a)", "(?!b)"])


def patterns(below):
    return st.one_of(
        st.tuples(below, below).map("".join),
        st.tuples(below, below).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        st.tuples(below, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{,2}"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        below.map(lambda p: f"({p})"),
        st.tuples(below, below).map(lambda p: f"(?={p[0]}){p[1]}"),
        st.tuples(below, below).map(lambda p: f"(?!{p[0]}){p[1]}"),
    )


PATTERNS = st.recursive(ATOMS | PLACES, patterns, max_leaves=8)
FLAGS = st.sampled_from(["", "", "(?i)", "(?s)", "(?m)", "(?a)"])
LETTERS = "aAbc1 \n\r_é٦\x1c\u2028\u212a\u017fk\u00d7"


@settings(max_examples=200, deadline=None)
@given(FLAGS, PATTERNS, st.booleans(), st.lists(st.text("aAbc1 \n_", max_size=6), max_size=12))
def test_random_patterns_match_what_re_matches(flags, pattern, search, texts):
    pattern = flags + pattern
    try:
        oracle = re.compile(pattern)
    except re.error:
        return
    try:
        grammar = Grammar(lambda pool: regex_node(pool, pattern, search=search), "regex")
    except EmptyConstraint:
        grammar = None
    except SchemaNotSupported:
        return  # a repeat with places inside stands in a negative lookahead
    for text in texts:
        if text.endswith("\n") and "$" in pattern:
            continue  # `$` before a final line end is Python's own
        expected = oracle.search(text) if search else oracle.fullmatch(text)
        accepted = grammar is not None and grammar.accepts(text)
        assert accepted == bool(expected), (pattern, text)


@settings(max_examples=150, deadline=None)
@given(FLAGS, PATTERNS, st.booleans(), st.lists(st.text(LETTERS, max_size=6), max_size=12))
def test_the_python_dialect_is_re_on_any_text(flags, pattern, search, texts):
    pattern = flags + pattern
    try:
        oracle = re.compile(pattern)
    except re.error:
        return
    try:
        grammar = Grammar(
            lambda pool: regex_node(pool, pattern, search=search, dialect="python"), "regex"
        )
    except EmptyConstraint:
        grammar = None
    except SchemaNotSupported:
        return  # a repeat with places inside stands in a negative lookahead
    for text in texts:
        expected = oracle.search(text) if search else oracle.fullmatch(text)
        accepted = grammar is not None and grammar.accepts(text)
        assert accepted == bool(expected), (pattern, text)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.booleans(), st.lists(st.text(LETTERS, max_size=6), max_size=12))
def test_the_common_dialect_is_sound_for_re_on_any_text(pattern, search, texts):
    try:
        oracle = re.compile(pattern)
        grammar = Grammar(lambda pool: regex_node(pool, pattern, search=search), "regex")
    except (re.error, EmptyConstraint, SchemaNotSupported):
        return
    for text in texts:
        if grammar.accepts(text):
            assert oracle.search(text) if search else oracle.fullmatch(text), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "takes", "refuses"),
    [
        (r"\d{4}-\d{2}-\d{2}", ["2026-12-01"], ["2026-1-1", "\u0662026-12-01"]),
        (r"(?u)\d", ["7", "\u0667"], ["x"]),
        (r"[^\d]", ["x", "é"], ["7", "\u0667"]),
        (r"\p{Lu}\p{Ll}*", ["Éa", "A"], ["a", "1"]),
        (r"(?i)straße|\u017f", ["STRAßE", "s", "S"], ["x"]),
        (r"(?x) a b # comment", ["ab"], ["a b"]),
        (r"(?P<year>\d+)(?<rest>x)?", ["12", "12x"], ["x"]),
        (r"\x41\u00e9\u{1F600}\cA\0\t", ["Aé😀\x01\x00\t"], ["A"]),
        (r"a{0,100000}", ["", "a" * 500], ["b"]),
        (r"(?i:a)b", ["Ab", "ab"], ["AB"]),
        ("(|a|b)c", ["c", "ac"], ["a"]),
        (r"a{,3}b{x}", ["aab{x}"], ["bx"]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"[a\-z]", ["-", "z"], ["b"]),
    ],
)
def test_construct(pattern, takes, refuses):
    grammar = compile_regex(pattern)
    for text in takes:
        assert grammar.accepts(text), text
    for text in refuses:
        assert not grammar.accepts(text), text


@pytest.mark.parametrize(
    ("pattern", "error", "position"),
    [
        (r"(a)\1", SchemaNotSupported, 3),
        (r"a(?<=ba)", SchemaNotSupported, 1),
        (r"a(?<!bc)", SchemaNotSupported, 1),
        (r"(?(1)a|b)", SchemaNotSupported, 0),
        (r"(?:ab)++", SchemaNotSupported, 6),
        (r"b(?>a|ab)", SchemaNotSupported, 1),
        (r"(?:(?!a)b){1,100}", SchemaNotSupported, 0),
        (r"a[[:alpha:]]", SchemaNotSupported, 2),
        (r"[a-z&&[^b]]", SchemaNotSupported, 4),
        (r"a|{2}", InvalidConstraint, 2),
        (r"\N{NO SUCH NAME}", InvalidConstraint, 0),
        (r"ab)", InvalidConstraint, 2),
        (r"(ab", InvalidConstraint, 0),
        (r"[a", InvalidConstraint, 0),
        (r"[z-a]", InvalidConstraint, 1),
        (r"*a", InvalidConstraint, 0),
        (r"a**", InvalidConstraint, 2),
        (r"\q", InvalidConstraint, 0),
        (r"a{3,2}", InvalidConstraint, 1),
        (r"\x4", InvalidConstraint, 0),
        (r"\p{Nonsense}", SchemaNotSupported, 0),
        (r"\p{Script=Nonsense}", SchemaNotSupported, 0),
    ],
)
def test_refusals_name_the_position(pattern, error, position):
    with pytest.raises(error) as caught:
        compile_regex(pattern)
    assert type(caught.value) is error
    assert caught.value.position == position


@pytest.mark.parametrize(
    "pattern",
    ["(" * 10_000 + ")" * 10_000, "a{2000000}", "(a*)*" * 20_000, "x" * (1 << 21)],
)
def test_hostile_patterns_end_in_bounded_time(pattern):
    try:
        grammar = compile_regex(pattern)
    except ConstraintTooLarge:
        return
    assert grammar.accepts("aaa")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "([a-zA-Z]+)*", "(.*a){20}"])
def test_classic_regex_bombs_are_linear(pattern):
    grammar = compile_regex(pattern)
    text = "a" * 3000
    assert grammar.accepts(text) == (pattern != "(a|aa)+b")


def test_ignore_case_is_that_of_re():
    cased = [c for c in range(0x20000) if chr(c).swapcase() != chr(c) or chr(c).lower() != chr(c)]
    letters = "".join(map(chr, [*cased, 0x131, 0x17F, 0x1E9E, 0x212A]))
    for code in [*cased[::9], *range(0x180), *range(0x390, 0x3D8), 0x1E9E, 0x1FD3, 0x212A, 0xFB05]:
        expected = {*re.findall(re.escape(chr(code)), letters, re.IGNORECASE), chr(code)}
        ranges = ignore_case(((code, code),))
        assert {chr(c) for low, high in ranges for c in range(low, high + 1)} == expected


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("Greek", "Ωλ", "a1"),
        ("Script=Han", "漢字", "かa"),
        ("sc=Cyrillic", "Яж", "Ra"),
        ("Script_Extensions=Hiragana", "かー", "a"),
        ("Alphabetic", "aéЖ漢", "1 -"),
        ("White_Space", " \t\u2003", "a"),
        ("Emoji_Presentation", "😀🚀", "a1"),
        ("Uppercase", "AÉΩ", "aé"),
        ("General_Category=Decimal_Number", "1٣", "a"),
        ("gc=Sc", "$€", "a"),
        ("Currency_Symbol", "$€", "a"),
        ("L", "aÉ漢", "1"),
    ],
)
def test_unicode_properties(name, inside, outside):
    takes, refuses = compile_regex(rf"\p{{{name}}}"), compile_regex(rf"[\P{{{name}}}]")
    for letter in inside:
        assert takes.accepts(letter)
        assert not refuses.accepts(letter)
    for letter in outside:
        assert not takes.accepts(letter)
        assert refuses.accepts(letter)


def test_scripts_are_those_of_the_names_of_characters():
    for script, word in (("Greek", "GREEK"), ("Thai", "THAI"), ("Hebrew", "HEBREW")):
        held = {code for low, high in property_set(script) or () for code in range(low, high + 1)}
        letters = [c for c in range(0x3000) if unicodedata.category(chr(c)) in ("Lu", "Ll", "Lo")]
        named = {c for c in letters if unicodedata.name(chr(c)).startswith(f"{word} ")}
        assert named
        # Beside them only letters of other names, such as the ohm sign, but of no other script.
        assert len(held & set(letters) - named) <= 2
        assert named <= held


def test_large_alternations_are_a_trie():
    words = [f"word{i * 7919 % 100_003}" for i in range(5000)]
    grammar = compile_regex("|".join(words))
    assert grammar.accepts(words[17])
    assert not grammar.accepts("wordx")
    assert len(grammar.pool.nodes) < 40_000


def test_patterns_inside_json_strings_are_escaped():
    grammar = Grammar(
        lambda pool: regex_node(pool, 'a["\\\\\n]', encode=json_chars), "pattern in a string"
    )
    assert grammar.accepts('a\\"')
    assert grammar.accepts("a\\n")
    assert not grammar.accepts('a"')


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_a_pattern_or_a_clear_error(pattern):
    try:
        grammar = compile_regex(pattern)
    except GrammarError:
        return
    grammar.accepts("abc")
