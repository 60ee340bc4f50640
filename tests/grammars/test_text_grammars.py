"""GBNF and Lark grammars; Lark's own parser is the oracle."""

import random

import pytest
from deepinfer_grammars import (
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
    TokenAutomaton,
    compile_ebnf,
)
from deepinfer_grammars.lark_grammar import guess_syntax
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from tests.grammars.lark_oracle import parses

PROGRAM = r"""
start: stmt+
stmt: NAME "=" expr ";"          // a comment
?expr: term (("+"|"-") term)*
?term: NUMBER | NAME | "(" expr ")" | "if"i expr "then" expr
list{item}: "[" item ("," item)* "]"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS
%ignore WS
"""
CALLS = r"""
start: call ("\n" call)*
call: /[a-z_]+/ "(" [arg ("," arg)*] ")"
arg: "-"? /\d+/ | string | "true" | "nil"
string: "'" /[^'\n]*x/? "'"
"""


@pytest.mark.parametrize("text", [PROGRAM, CALLS])
def test_whatever_is_generated_is_parsed_by_lark(text, vocabulary):
    automaton = TokenAutomaton(compile_ebnf(text), vocabulary)
    parser = Lark(text)
    for seed in range(40):
        rng = random.Random(seed)
        state, out, left = automaton.start, b"", automaton.fewest_tokens(automaton.start) + seed
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            assert allowed, f"dead end after {out!r}"
            token = rng.choice(allowed)
            if token in vocabulary.eos_ids:
                break
            state, left = automaton.advance(state, token), left - 1
            out += vocabulary.tokens[token]
        assert parses(parser, out.decode()), out


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (PROGRAM, "a = 1;"),
        (PROGRAM, "  a=1+(b-3.5e3);\n x = IF a then b; "),
        (PROGRAM, "a=ifathenb;"),
        (PROGRAM, "a 1"),
        (PROGRAM, "a=1"),
        (PROGRAM, ""),
        (CALLS, "f()\ng(1,-2,'ax',true,nil)"),
        (CALLS, "f(nil"),
        (CALLS, "f('ab')"),
    ],
)
def test_single_texts_are_judged_as_lark_judges_them(grammar, text):
    assert compile_ebnf(grammar).accepts(text) == parses(Lark(grammar), text)


# Small random grammars over single letters: every kind of left recursion turns up.
SYMBOLS = st.sampled_from(["a", "b", "c", '"x"', '"y"', '"z"'])
OPTIONS = st.lists(SYMBOLS, max_size=3).map(" ".join)  # an empty option is allowed
BODIES = st.lists(OPTIONS, min_size=1, max_size=3).map(" | ".join)


@settings(max_examples=80, deadline=None)
@given(BODIES, BODIES, BODIES, st.lists(st.text("xyz", max_size=5), min_size=1, max_size=15))
def test_random_grammars_with_left_recursion_agree_with_lark(first, second, third, texts):
    rules = {"a": first, "b": second, "c": third}
    lark = "start: a\n" + "\n".join(f"{name}: {body}" for name, body in rules.items())
    gbnf = "root ::= a\n" + "\n".join(
        f"{name} ::= " + " | ".join(option.strip() or '""' for option in body.split("|"))
        for name, body in rules.items()
    )
    try:
        oracle = Lark(lark, lexer="dynamic_complete", ambiguity="resolve")
    except LarkError:
        return
    try:
        grammars = [compile_ebnf(lark), compile_ebnf(gbnf)]
    except EmptyConstraint:
        grammars = []
    for text in texts:
        expected = parses(oracle, text)
        if not grammars:
            assert not expected
        for grammar in grammars:
            assert grammar.accepts(text) == expected, (lark, text)


def test_ignored_text_and_keywords():
    grammar = compile_ebnf('start: "if" NAME\nNAME: /[a-z]+/\n%ignore " "')
    assert grammar.accepts("if a")
    assert grammar.accepts(" if  abc ")
    assert not grammar.accepts("i f a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: missing", "missing"),
        ("start: /(a)\\1/", "backreference"),
        ("start: A\n%declare A", "declared"),
        ('start: /a*/ "b"', "empty|zero"),
        ("start: (", "Lark"),
        ('beginning: "a"', "start"),
    ],
)
def test_lark_refusals(text, message):
    with pytest.raises((InvalidConstraint, SchemaNotSupported), match=message):
        compile_ebnf(text, syntax="lark")


@pytest.mark.parametrize(
    ("text", "takes", "refuses"),
    [
        ('root ::= "a" | "b" # c\n', ["a", "b"], ["ab", ""]),
        ('root ::= [a-c]{2,3} "\\n" .', ["ab\nx", "abc\n😀"], ["a\nx"]),
        ('root ::= (x | "q")*\nx ::= "\\x41" "\\u00e9"?\n', ["", "AqAé"], ["é"]),
        ('root ::= [^"\\\\\\n]+', ["héllo"], ['a"', "a\n"]),
        ('root ::=\n  "a"\n  | "b"\nother ::= "c"', ["a", "b"], ["c"]),
        ('root ::= root "a" | ""', ["", "aaa"], ["b"]),
    ],
)
def test_gbnf(text, takes, refuses):
    grammar = compile_ebnf(text)
    for accepted in takes:
        assert grammar.accepts(accepted), accepted
    for refused in refuses:
        assert not grammar.accepts(refused), refused


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("root ::= b", 9),
        ('a ::= "x"', 0),
        ('root ::= "x', 9),
        ("root ::= [a", 9),
        ('root ::= ("x"', 9),
        ('root ::= "x" ]', 13),
        ('root ::= "a"\nroot ::= "b"', 13),
        ('root = "a"', 5),
        ('root ::= "\\q"', 10),
        ('root ::= "a"{2,1}', 9),
        ('root ::= "a"{x}', 12),
        ('root ::= "a" b | ', 13),
        ('root ::= "\ud800"', 10),
    ],
)
def test_gbnf_errors_name_the_position(text, position):
    with pytest.raises(InvalidConstraint) as caught:
        compile_ebnf(text, syntax="gbnf")
    assert caught.value.position == position


def test_gbnf_errors_name_the_rule():
    with pytest.raises(InvalidConstraint, match="rule 'second' of the GBNF grammar"):
        compile_ebnf('root ::= second\nsecond ::= "a" ]')


@pytest.mark.parametrize(
    "text", ['root ::= "a"{1,' + "9" * 5000 + "}", "start: /a{" + "9" * 5000 + "}/"]
)
def test_absurd_counts_are_clear_errors(text):
    with pytest.raises(GrammarError):
        compile_ebnf(text)


def test_surrogates_in_lark_strings_are_malformed():
    with pytest.raises(InvalidConstraint, match="surrogate"):
        compile_ebnf('start: "\\ud800"', syntax="lark")


def test_syntax_is_guessed_outside_quotes_and_comments():
    assert guess_syntax('root ::= "a"') == "gbnf"
    assert guess_syntax('start: "::="') == "lark"
    assert guess_syntax('start: "a" // ::=') == "lark"
    assert guess_syntax("start: /a ::= b/") == "lark"
    assert guess_syntax('# c\n\n  root\n  ::= [^"] x\nx ::= "b"') == "gbnf"


def test_deep_nesting_is_refused_or_works():
    for text in (
        "root ::= " + "(" * 5000 + '"a"' + ")" * 5000,
        "start: " + "(" * 3000 + '"a"' + ")" * 3000,
    ):
        try:
            grammar = compile_ebnf(text)
        except GrammarError:
            continue
        assert grammar.accepts("a")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=3),
        min_size=8,
        max_size=9,
    ),
    st.lists(st.text("xyz", max_size=5), min_size=1, max_size=12),
)
def test_large_groups_of_left_recursive_rules_agree_with_lark(bodies, texts):
    def symbol(number):
        return f"r{number % len(bodies)}" if number < 9 else f'"{"xyz"[number - 9]}"'

    # A cycle through all rules makes them one group.
    rules = [
        [[f"r{(i + 1) % len(bodies)}", '"x"'], *([symbol(n) for n in option] for option in body)]
        for i, body in enumerate(bodies)
    ]
    lines = [" | ".join(" ".join(option) for option in options) for options in rules]
    lark = "start: r0\n" + "\n".join(f"r{i}: {line}" for i, line in enumerate(lines))
    try:
        oracle = Lark(lark, lexer="dynamic_complete", ambiguity="resolve")
    except LarkError:
        return
    try:
        grammar = compile_ebnf(lark)
    except EmptyConstraint:
        grammar = None
    for text in texts:
        assert (grammar is not None and grammar.accepts(text)) == parses(oracle, text), lark
