"""Terminals of Lark grammars match what `re` finds first; Lark's own parser is the oracle."""

import random
import re

import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    GrammarError,
    SchemaNotSupported,
    TokenAutomaton,
    compile_ebnf,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from tests.grammars.lark_oracle import parses

JSON = r"""
?start: value
?value: object | array | ESCAPED_STRING | SIGNED_NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: ESCAPED_STRING ":" value
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""
SCRIPT = r"""
start: (stmt _NL)+
stmt: NAME "=" expr | "if" expr ":" stmt
?expr: STRING | LONG | NUMBER | NAME | expr "+" expr | "lambda" NAME ":" expr
STRING: /[ubf]?r?("(?!"").*?(?<!\\)(\\\\)*?"|'(?!'').*?(?<!\\)(\\\\)*?')/i
LONG: /r?(\"\"\".*?(?<!\\)(\\\\)*?\"\"\")/is
NAME: /(?!(if|lambda)\b)[^\W\d]\w*/
NUMBER: /0|[1-9]\d*/i | /((\d+\.[\d_]*|\.[\d_]+)([eE][-+]?\d+)?|\d+([eE][-+]?\d+))/
COMMENT: /\/\*(.|\n)*?\*\// | /#[^\n]*/
_NL: /(\r?\n[\t ]*)+/
%ignore /[\t \f]+/
%ignore COMMENT
"""


@pytest.mark.parametrize("text", [JSON, SCRIPT])
def test_generated_programs_are_parsed_by_lark(text, vocabulary):
    automaton = TokenAutomaton(compile_ebnf(text), vocabulary)
    parser = Lark(text)
    for seed in range(30):
        rng = random.Random(seed)
        state, out = automaton.start, b""
        left = automaton.fewest_tokens(state) + seed
        while not automaton.complete(state):
            allowed = vocabulary.unpack(automaton.mask(state, left))
            likely = [t for t in allowed if (vocabulary.tokens[t] or b"x")[:1] in b"\"'\\ab1.e+/*"]
            token = rng.choice(likely if likely and rng.random() < 0.8 else allowed)
            if token in vocabulary.eos_ids:
                break
            state, left = automaton.advance(state, token), left - 1
            out += vocabulary.tokens[token]
        assert parses(parser, out.decode()), out


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (JSON, ' {"a" : [1, -2.5e3, "x\\"y", null] }'),
        (JSON, '"\\\\\\""'),
        (JSON, '"a\\"'),
        (JSON, '"a"b"'),
        (SCRIPT, 'x = "a\\"b" + 3.5\n'),
        (SCRIPT, 'x = """a\n"b"""\n'),
        (SCRIPT, "x = f'' /* c ** \n*/ + \"\" + 7\n"),
        (SCRIPT, "if x: y = lambda z: 1e5 # c\n"),
        (SCRIPT, "if = 1\n"),
        (SCRIPT, "iff = é\n"),
        (SCRIPT, 'x = """\n'),
        ("start: /a|ab/", "ab"),
        ('start: /a|ab/ "c"', "abc"),
        ('start: /ab|a/ "b"?', "ab"),
        ('start: /a+?/ "a"*', "aaa"),
        (r"start: /if\b/ /[x ]+/", "ifx"),
        (r"start: /if\b/ /[^a]+/", "if x"),
        (r'start: /\w+/ "é"?', "aé"),
        (r"start: /a.*$/m", "ab"),
    ],
)
def test_single_texts_are_judged_as_lark_judges_them(grammar, text):
    ours = compiled(grammar)
    assert (ours is not None and ours.accepts(text)) == parses(Lark(grammar), text)


ATOMS = st.sampled_from(["a", "b", "c", "ab", ".", "[ab]", "[^a]", "é", r"\w", r"\n?", "è"])
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "+?", "??", "{1,2}?"])


def patterns(below):
    return st.one_of(
        st.tuples(below, below).map("".join),
        st.tuples(below, below).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        st.tuples(below, QUANTIFIERS).map(lambda p: f"(?:{p[0]}){p[1]}"),
        st.tuples(below, below).map(lambda p: f"(?!{p[0]}){p[1]}"),
        st.tuples(below, below).map(lambda p: f"{p[0]}(?!{p[1]})"),
        st.tuples(below, below).map(lambda p: rf"{p[0]}\b{p[1]}"),
        st.tuples(below, st.sampled_from(["(?<!a)", "(?<=[ab])"])).map("".join),
    )


PATTERNS = st.recursive(ATOMS, patterns, max_leaves=6)
TEXTS = st.lists(st.text("aabbcéè\n", max_size=6), min_size=1, max_size=15)


def compiled(grammar):
    """The grammar, or None if it matches nothing."""
    try:
        return compile_ebnf(grammar, syntax="lark")
    except EmptyConstraint:
        return None


@settings(max_examples=150, deadline=None)
@given(
    PATTERNS,
    st.sampled_from(["T U", "T+", "(T|U)+", "T U?"]),
    st.sampled_from(['"b"', '"c"', "/[ab]+/", "/é|a/", "/b(?!c)/"]),
    st.sampled_from(["", "\n%ignore /c+?/", '\n%ignore "c"']),
    TEXTS,
)
def test_accepted_texts_are_parsed_by_lark(pattern, body, other, ignored, texts):
    grammar = f"start: {body}\nT: /{pattern}/\nU: {other}{ignored}"
    try:
        parser = Lark(grammar)
        ours = compiled(grammar)
    except (LarkError, SchemaNotSupported):
        return
    for text in texts:
        if ours is not None and ours.accepts(text):
            assert parses(parser, text), (grammar, text)


@settings(max_examples=150, deadline=None)
@given(PATTERNS, TEXTS)
def test_a_single_terminal_matches_exactly_what_re_takes(pattern, texts):
    grammar = f"start: /{pattern}/"
    try:
        Lark(grammar)
        ours = compiled(grammar)
    except (LarkError, SchemaNotSupported):
        return
    for text in texts:
        found = re.match(pattern, text)
        expected = found is not None and found.group() == text
        assert (ours is not None and ours.accepts(text)) == expected, (pattern, text)


@pytest.mark.parametrize(
    ("terminal", "message"),
    [
        (r"\ba", "before"),
        (r"(?<=b)a", "before"),
        (r"a\Z", "end of the text"),
        (r"a(?=b)", "followed"),
        (r"(?!a(?!bb))[ab]+", "lookahead"),
        (r"(a)\1", "backreference"),
    ],
)
def test_terminals_that_depend_on_text_around_them_are_refused(terminal, message):
    with pytest.raises(SchemaNotSupported, match=message):
        compile_ebnf(f"start: /{terminal}/", syntax="lark")


def test_large_counters_stay_counted_or_are_refused():
    grammar = compile_ebnf("start: /[a-z]{1,100000}/", syntax="lark")
    assert grammar.accepts("a" * 300)
    assert len(grammar.pool.nodes) < 1000
    for pattern in ("[a-z]{1,5000}(?:x|xy)", "(?:a|ab)" + "x" * 50_000):
        with pytest.raises(ConstraintTooLarge):
            compile_ebnf(f"start: /{pattern}/", syntax="lark")


def test_any_pattern_is_a_terminal_or_a_clear_error():
    rng = random.Random(7)
    for _ in range(200):
        pattern = "".join(rng.choice("ab|()[]*+?{1,2}^$\\wb.!=<:") for _ in range(8))
        try:
            compile_ebnf(f"start: /{pattern}/", syntax="lark")
        except GrammarError:
            continue
