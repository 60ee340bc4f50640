"""Rules of Lark grammars in every notation; Lark's own parser is the oracle."""

import random

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
    TokenAutomaton,
    compile_ebnf,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from tests.grammars.lark_oracle import parses

TEMPLATES = r"""
start: _list{number, ","} ";" pair{number, word} _wrap{_list, word}
number: /[0-9]+/ -> digits
word: LETTER~2..3
_list{item, separator}: item (separator item)*
pair{left, right}: "(" left "=" right ")"
_wrap{template, item}: "<" template{item, "|"} ">"
%import common.LETTER
"""
EXTENDED = r"""
start: (WORD | NUMBER)+ end
end: "." | "!"
?extra: "zzz"
WORD: /[a-z]+/
NUMBER.2: DIGIT+
%import common.DIGIT
%import common.WS_INLINE -> BLANK
%ignore BLANK
%override end: "?" | "!!"
%extend WORD: "A" | /B+/
"""
QUERY = r"""
start: "SELECT"i [DISTINCT] columns "FROM"i NAME join* ["WHERE"i condition] ["LIMIT"i NUMBER]
DISTINCT: "DISTINCT"i
columns: "*" | column ("," column)*
!column: NAME ["." NAME] ["AS"i NAME]
join: ["LEFT"i | "INNER"i] "JOIN"i NAME "ON"i NAME "=" NAME
?condition: condition "AND"i test | condition "OR"i test | test
test: NAME ("=" | "<>" | "<" | ">") (NUMBER | STRING) | "(" condition ")"
NAME: /(?!(select|from|where|join|left|inner|on|as|and|or|limit|distinct)\b)[a-z_]\w*/i
NUMBER: /\d+/
STRING: /'[^']*'/
%import common.WS
%ignore WS
"""


def mutations(chance, text, count):
    """The text with characters removed, doubled, swapped or replaced."""
    for _ in range(count):
        at = chance.randrange(len(text) + 1)
        other = text[chance.randrange(len(text))] if text else "x"
        yield chance.choice(
            [
                text[:at] + text[at + 1 :],
                text[:at] + other + text[at:],
                text[:at] + other + text[at + 1 :],
                text[:at],
                text[at:] + text[:at],
            ]
        )


@pytest.mark.parametrize("text", [TEMPLATES, EXTENDED, QUERY])
def test_generated_texts_and_their_mutations_are_judged_as_lark_judges_them(text, vocabulary):
    grammar, parser = compile_ebnf(text, syntax="lark"), Lark(text)
    automaton = TokenAutomaton(grammar, vocabulary)
    for seed in range(15):
        chance = random.Random(seed)
        state, out = automaton.start, b""
        left = automaton.fewest_tokens(state) + seed
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            token = chance.choice(allowed)
            if token in vocabulary.eos_ids:
                break
            state, left = automaton.advance(state, token), left - 1
            out += vocabulary.tokens[token]
        made = out.decode()
        assert parses(parser, made), made
        for other in mutations(chance, made, 10):
            assert grammar.accepts(other) == parses(parser, other), other


ATOMS = st.sampled_from(['"x"', '"y"', '"z"', "a", "b", 'pair{"x", b}', 'many{"z"}', "/y/"])


def parts(below):
    return st.one_of(
        st.tuples(below, below).map(" ".join),
        st.tuples(below, below).map(lambda p: f"({p[0]} | {p[1]})"),
        below.map(lambda p: f"[{p}]"),
        st.tuples(below, st.sampled_from(["?", "*", "+", "~2", "~1..3", "~0..2"])).map(
            lambda p: f"({p[0]}){p[1]}"
        ),
    )


PARTS = st.recursive(ATOMS, parts, max_leaves=5)
BODIES = st.lists(PARTS, min_size=1, max_size=2).map(" | ".join)


@settings(max_examples=120, deadline=None)
@given(BODIES, BODIES, BODIES, st.lists(st.text("xyz", max_size=6), min_size=1, max_size=12))
def test_random_rules_agree_with_lark(start, first, second, texts):
    grammar = (
        f'start: {start}\na: {first} | "x" "y"\nb: {second} | "y"\n'
        "pair{l, r}: l r | r l\nmany{item}: item+ | pair{item, item}"
    )
    try:
        oracle = Lark(grammar, ambiguity="resolve")
    except LarkError:
        return
    ours = compile_ebnf(grammar, syntax="lark")
    for text in texts:
        assert ours.accepts(text) == parses(oracle, text), (grammar, text)


@pytest.mark.parametrize(
    ("grammar", "takes", "refuses"),
    [
        ('start: "a".."f"~2', ["ab", "ff"], ["a", "ag"]),
        ('start: "ab"i "\\u00e9\\x41\\n"', ["aBéA\n"], ["abéa\n"]),
        ("start: /a.b/s /c/i", ["a\nbC"], ["a\nbd"]),
        ('start: A.."z"\nA: "x"', [], []),
        ("?start: a | b\n!a: \"1\"\nb: \"2\" -> two", ["1", "2"], ["3"]),
        ('start: A | B\nA.5: "ab"\nB.1: /a[a-z]/', ["ab", "ac"], ["a"]),
        ('start: x{"a"}\nx{p}: p p', ["aa"], ["a"]),
        ('start: "a"~100000', ["a" * 100_000], ["a" * 99_999]),
        ("start: ESCAPED_STRING SIGNED_FLOAT\n%import common (ESCAPED_STRING, SIGNED_FLOAT)",
         ['"a\\"b"-1.5e3'], ['"a"1', '"a" 1.5']),
    ],
)  # fmt: skip
def test_notation(grammar, takes, refuses):
    try:
        ours = compile_ebnf(grammar, syntax="lark")
    except InvalidConstraint:
        assert not takes
        return
    for text in takes:
        assert ours.accepts(text), text
    for text in refuses:
        assert not ours.accepts(text), text


@pytest.mark.parametrize(
    ("grammar", "error", "message", "position"),
    [
        ("start: a\n\na: missing", InvalidConstraint, "missing", 13),
        ("start: (", InvalidConstraint, "Lark", None),
        ('begin: "a"', InvalidConstraint, "start rule 'start'", 0),
        ("start: A\n%declare A", InvalidConstraint, "declared", 7),
        ('start: x{"a"}\nx{p, q}: p q', InvalidConstraint, "arguments|argument", None),
        ('start: "a"~3..2', InvalidConstraint, "swapped", 11),
        ('start: "a"\nstart: "b"', InvalidConstraint, "more than once", 0),
        ('start: "" "a"', InvalidConstraint, "Empty terminals", 7),
        ('start: A "a"\nA: "b"?', SchemaNotSupported, "empty", None),
        ("start: A\nA: /(a)\\1/", SchemaNotSupported, "backreference", None),
        ('start: x{"a"}\nx{p}: p | x{y{p}}\ny{p}: p "b"', ConstraintTooLarge, "templates", None),
        ("%import no.such.LIB\nstart: LIB", InvalidConstraint, "Lark", None),
        ("start: start", EmptyConstraint, "no text", None),
    ],
)
def test_refusals(grammar, error, message, position):
    with pytest.raises(error, match=message) as caught:
        compile_ebnf(grammar, syntax="lark")
    if position is not None:
        assert caught.value.position == position


def test_many_optional_parts_are_not_written_out():
    grammar = compile_ebnf("start: " + " ".join(f'["a{i}"] ("b"|"c")' for i in range(40)))
    assert grammar.accepts("a0" + "b" * 40)
    assert not grammar.accepts("a1a0" + "b" * 40)
    assert len(grammar.pool.nodes) < 2000


def test_any_text_is_a_grammar_or_a_clear_error():
    chance = random.Random(5)
    for _ in range(150):
        text = "".join(chance.choice('start: a|"b"\n/c+/()[]*?~1.{}%,->_AB') for _ in range(20))
        try:
            compile_ebnf("start: a\na: " + text, syntax="lark")
        except GrammarError:
            continue
