"""Generated patterns of every construct against Python's `re`, whole texts and searches."""

import re
import warnings

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    Grammar,
    SchemaNotSupported,
    TokenAutomaton,
)
from deepinfer_grammars.regex import regex_node
from hypothesis import given, settings
from hypothesis import strategies as st

LETTERS = "aAbB1_ -\n\ré٣😀Kk\u017f\u212aßİ\u0131"
SINGLE = [re.escape(letter) for letter in LETTERS] + [
    r"\x61", r"\u00e9", r"\U0001F600", r"\t", r"\141", r"\0", ".",
]  # fmt: skip
SETS = [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?<=a)", r"(?<!\w)", "(?<![ab])", r"(?<=\s)"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "{0}", "*?", "+?", "??", "{1,2}?"]


@st.composite
def classes(draw):
    members = draw(
        st.lists(
            st.sampled_from(
                [*SETS, "a", "b", "A-B", "a-b", "0-9", "_", "é", "😀", "Z-b", r"\-", r"\]", "^",
                 ".", "+", "(", "[", "😀-😎", "ß", "k",
                 r"\n", r"\b", "\u0130"]
            ),
            min_size=1,
            max_size=4,
        )
    )  # fmt: skip
    if members[0] == "^":
        members.reverse()
    members.sort(key=lambda member: member == "^")
    return (
        f"[{draw(st.sampled_from(['', '^']))}{''.join(members)}{draw(st.sampled_from(['', '-']))}]"
    )


ATOMS = st.one_of(st.sampled_from(SINGLE), st.sampled_from(SETS), classes())
LEAVES = st.one_of(ATOMS, ATOMS, ATOMS, st.sampled_from(PLACES))


def patterns(below):
    return st.one_of(
        st.lists(below, min_size=2, max_size=3).map("".join),
        st.lists(below | st.just(""), min_size=2, max_size=3).map(lambda p: f"(?:{'|'.join(p)})"),
        st.tuples(below, st.sampled_from(QUANTIFIERS)).map(lambda p: f"(?:{p[0]}){p[1]}"),
        st.tuples(ATOMS, st.sampled_from(["*+", "++", "?+", "{1,2}+"])).map("".join),
        st.tuples(ATOMS, st.sampled_from(QUANTIFIERS)).map(lambda p: f"(?>{p[0]}{p[1][0]})"),
        st.tuples(st.sampled_from(["i", "s", "m", "a", "is", "-i", "i-s"]), below).map(
            lambda p: f"(?{p[0]}:{p[1]})"
        ),
        st.tuples(st.sampled_from(["(?=", "(?!"]), below).map(lambda p: f"{p[0]}{p[1]})"),
        st.tuples(st.sampled_from(["(?=", "(?!"]), below, below).map(
            lambda p: f"(?:{p[0]}{p[1]}){p[2]})*"
        ),
        st.tuples(below, below).map(lambda p: f"(?:{p[0]}|(?={p[1]}))"),
        below.map(lambda p: f"({p})(?#note)"),
    )


PATTERNS = st.recursive(LEAVES, patterns, max_leaves=7)
FLAGS = st.sampled_from(["", "", "(?i)", "(?s)", "(?m)", "(?a)", "(?im)", "(?ia)"])
TEXTS = st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=12)


def oracle(pattern):
    """Python's reading, or None if it has none; its warnings concern future versions."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except re.error:
        return None


def compiled(pattern, *, search, dialect):
    """Our reading; False if nothing matches, None if it is refused."""
    try:
        return Grammar(
            lambda pool: regex_node(pool, pattern, search=search, dialect=dialect), "regex"
        )
    except EmptyConstraint:
        return False
    except (SchemaNotSupported, ConstraintTooLarge):
        return None


@settings(max_examples=300, deadline=None)
@given(FLAGS, PATTERNS, st.booleans(), TEXTS)
def test_the_python_dialect_is_re(flags, pattern, search, texts):
    expected = oracle(flags + pattern)
    ours = compiled(flags + pattern, search=search, dialect="python") if expected else None
    if ours is None:
        return
    for text in texts:
        found = expected.search(text) if search else expected.fullmatch(text)
        assert bool(ours and ours.accepts(text)) == bool(found), (flags + pattern, search, text)


@settings(max_examples=300, deadline=None)
@given(FLAGS, PATTERNS, st.booleans(), TEXTS)
def test_what_the_common_dialect_takes_re_takes(flags, pattern, search, texts):
    expected = oracle(flags + pattern)
    ours = compiled(flags + pattern, search=search, dialect="common") if expected else None
    if not ours:
        return
    for text in texts:
        if ours.accepts(text):
            found = expected.search(text) if search else expected.fullmatch(text)
            assert found, (flags + pattern, search, text)


@settings(max_examples=80, deadline=None)
@given(FLAGS, PATTERNS, st.randoms(use_true_random=False))
def test_what_is_generated_matches(vocabulary, flags, pattern, chance):
    expected = oracle(flags + pattern)
    ours = compiled(flags + pattern, search=False, dialect="common") if expected else None
    if not ours:
        return
    automaton = TokenAutomaton(ours, vocabulary)
    state, out, left = automaton.start, b"", automaton.fewest_tokens(automaton.start) + 4
    while not automaton.complete(state):
        allowed = vocabulary.unpack(automaton.mask(state, left))
        assert allowed, (pattern, out)
        token = chance.choice(allowed)
        if token in vocabulary.eos_ids:
            break
        state, left = automaton.advance(state, token), left - 1
        out += vocabulary.tokens[token]
    assert expected.fullmatch(out.decode()), (flags + pattern, out)


@pytest.mark.parametrize(
    "pattern",
    [
        r"((?!ab).)*", r"(?:(?!--)[a-z-])+", r"(\bfoo\b ?)+", r"(?:a(?=b)|b)*",
        r"(?:(?:a|b)(?=c))*c",
        r"(?:^a|b)*", r"(?:a$)*", r"(?m)(?:^a$\n?)*", r"(?:(?<=a)b|a)+", r"(?:(?<!a)a|b)*",
        r"(?:(?=a)a?)*b", r"(?:(?=(?!ab)a)\w)+", r"(?:x(?=.*y)|y)*", r"(?:(?!a{3})[ab]){2,}",
        r"(?:(?:(?!b)\w)+b)*", r"(?=(?:(?!b).)*c).*", r"(?:\B.|\b[ab])*", r"(?!(?:ab)*$)[ab]*",
    ],
)  # fmt: skip
def test_anchors_and_lookaheads_inside_loops(pattern):
    expected = re.compile(pattern)
    letters = "abcfoxy \n-"
    texts = [
        "", "a", "b", "c", "ab", "ba", "abc", "foo", "foo foo ", "foofoo", "aab", "abab", "acbc",
        "acc",
        "a\na", "a\n", "xy", "xxy", "yx", "x", "bbab", "aaa", "aabab", "a-b", "a--b", "acb", "bcac",
    ]  # fmt: skip
    texts += [one + two + three for one in letters for two in letters for three in "ab c"]
    for search in (False, True):
        ours = compiled(pattern, search=search, dialect="python")
        assert ours
        for text in texts:
            found = expected.search(text) if search else expected.fullmatch(text)
            assert ours.accepts(text) == bool(found), (search, text)
