"""Hostile constraints end in bounded time and memory, with the right answer or a clear error.

Each runs in a process of its own with limits on its memory and processor time, so that a case that
has no end fails instead of hanging.
"""

# ruff: noqa: E501  (a case is one expression on one line)

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMORY = 2 << 30
CPU_SECONDS = 90

PRELUDE = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))
sys.path[:0] = {[str(ROOT / "grammars"), str(ROOT)]!r}
from deepinfer_grammars import *
from deepinfer_grammars.compose import *

def words(count):
    return [f"w{{i * 7919 % 1_000_003}}x" for i in range(count)]

def nested_arrays(depth):
    schema = {{"type": "integer"}}
    for _ in range(depth):
        schema = {{"type": "array", "items": schema}}
    return schema

def nested_objects(depth):
    schema = {{"type": "integer"}}
    for _ in range(depth):
        schema = {{"type": "object", "properties": {{"a": schema}}, "required": ["a"],
                   "additionalProperties": False}}
    return schema

def chain(count, sign):
    rules = "\\n".join(f'r{{i}} {{sign}} "a" r{{i + 1}} | "b"' for i in range(count))
    return f'{{rules}}\\nr{{count}} {{sign}} "c"'

def left_cycle(count, steps):
    return "root ::= r0\\n" + "\\n".join(
        f'r{{i}} ::= "b" | ' + " | ".join(f'r{{(i + j + 1) % count}} "a"' for j in range(steps))
        for i in range(count)
    )

def properties(count):
    each = {{f"property_{{i}}": {{"type": "string", "description": "x" * 40, "maxLength": i}}
            for i in range(count)}}
    return {{"type": "object", "properties": each, "additionalProperties": False}}

try:
    print(CASE())
except GrammarError as error:
    assert str(error) and "Traceback" not in str(error)
    print(type(error).__name__)
"""

ACCEPTED, REFUSED = "True", "False"
TOO_LARGE, MALFORMED = "ConstraintTooLarge", "InvalidConstraint"
EMPTY, UNSUPPORTED = "EmptyConstraint", "SchemaNotSupported"

REGEX = {
    "counts of counts": ("'(a{1,1000}){1,1000}', 'a' * 3000", {ACCEPTED}),
    "counts of ambiguous counts": ("'((?:a|ab){1,1000}){1,1000}', 'aab' * 700", {ACCEPTED}),
    "three levels of counts": ("'((a{1,1000}b?){1,1000}c?){1,1000}', 'a' * 2000", {ACCEPTED}),
    "a count of a count": ("'x{100000}{100000}', ''", {MALFORMED}),
    "an astronomical count": ("'(x{100000}){100000}', ''", {TOO_LARGE}),
    "large optional counts": ("'((x{1,999999}y){1,999999}z){1,999999}', 'xyz' * 99", {ACCEPTED}),
    "equal branches in stars": ("'(a|a)*' * 200 + 'b', 'a' * 3000 + 'b'", {ACCEPTED}),
    "overlapping branches": ("'(a|aa|aaa)*' * 30 + 'b', 'a' * 2000 + 'b'", {ACCEPTED}),
    "stars of stars": ("'(' * 150 + 'a' + ')*' * 150, 'a' * 500", {ACCEPTED}),
    "a thousand optional letters": ("'(a?){1000}a{1000}', 'a' * 1500", {ACCEPTED}),
    "optional letters in a row": ("'a?' * 1000 + 'a' * 1000, 'a' * 1500", {ACCEPTED, TOO_LARGE}),
    "dots in a row": ("'(.*)' * 500 + 'x', 'a' * 500 + 'x'", {ACCEPTED}),
    "exponential when deterministic": ("'[ab]*a[ab]{200}', 'ab' * 499 + 'a' * 201", {ACCEPTED}),
    "equal lookaheads": ("'(?=.*a)' * 300 + '.*', 'xxa'", {ACCEPTED, TOO_LARGE}),
    "lookaheads in lookaheads": ("'(?=a' * 150 + ')' * 150 + 'a', 'a'", {ACCEPTED, TOO_LARGE}),
    "eight different lookaheads": (
        "''.join(f'(?=.*{c})' for c in 'abcdefgh') + '.*', 'hgfedcba'", {ACCEPTED},
    ),
    "26 different lookaheads": (
        "''.join(f'(?=.*{c})' for c in 'abcdefghijklmnopqrstuvwxyz') + '.*', "
        "'zyxwvutsrqponmlkjihgfedcba'", {ACCEPTED},
    ),
    "many negative lookaheads": (
        "''.join(f'(?!.*{c}x)' for c in 'abcdefghijkl') + '[a-z]*', 'abcdefx'", {REFUSED},
    ),
    "lookaheads inside loops": ("r'(?:(?!ab)\\w|\\bx\\b)*' * 3, 'b' * 50", {ACCEPTED, TOO_LARGE}),
    "word boundaries in loops": (r"r'(?:\b\w+\b ?)*' * 5, 'a b c ' * 50", {ACCEPTED}),
    "deep groups": ("'(' * 10_000 + 'a' + ')' * 10_000, 'a'", {TOO_LARGE}),
    "deep alternatives": ("'(?:a|' * 190 + 'b' + ')' * 190, 'b'", {ACCEPTED}),
    "a class of 10,000": (
        "'[' + ''.join(chr(0x4E00 + 2 * i) for i in range(10_000)) + ']+', '一'", {ACCEPTED},
    ),
    "all but 20,000, ignoring case": (
        "'(?i)[^' + ''.join(chr(0x100 + 2 * i) for i in range(20_000)) + ']+', 'ab'", {ACCEPTED},
    ),
    "50,000 words": ("'|'.join(words(50_000)), words(50_000)[-1]", {ACCEPTED}),
    "20,000 words, ignoring case": ("'(?i)' + '|'.join(words(20_000)), 'W0X'", {ACCEPTED}),
    "words in a loop": ("'(?:' + '|'.join(words(10_000)) + ')+', words(3)[2] * 20", {ACCEPTED}),
    "coprime loops": (
        "'(?=(?:a{13})*$)(?=(?:a{17})*$)(?=(?:a{19})*$)a+', 'a' * 13 * 17 * 19", {ACCEPTED},
    ),
    "half a character": ("'\\ud800', ''", {EMPTY}),
    "halves in a class": ("'[\\ud800-\\udfff]a|b', 'b'", {ACCEPTED}),
    "a half as text": ("'(?s).*', 'a\\ud800'", {REFUSED}),
    "bytes that are no text": ("'(?s).*', b'a\\xff'", {REFUSED}),
    "an overlong byte sequence": ("'(?s).*', b'\\xc0\\x80'", {REFUSED}),
    "a surrogate in UTF-8": ("'(?s).*', b'\\xed\\xa0\\x80'", {REFUSED}),
    "a text cut inside a character": ("'(?s).*', '😀'.encode()[:3]", {REFUSED}),
    "NUL": ("'a\\0[\\0-\\x02]', 'a\\0\\0'", {ACCEPTED}),
}  # fmt: skip

GRAMMARS = {
    "100,000 rules": ("'root ::= r0\\n' + chain(100_000, '::='), 'aab'", {ACCEPTED}),
    "20,000 unit rules": (
        "'root ::= r0\\n' + ''.join(f'r{i} ::= r{i + 1}\\n' for i in range(20_000)) + 'r20000 ::= \"c\"', "
        "'c'", {ACCEPTED},
    ),
    "10,000 parts that may be empty": (
        "'root ::= ' + ' '.join(f'r{i}' for i in range(10_000)) + '\\n' + "
        "'\\n'.join(f'r{i} ::= \"a{i}\" | \"\"' for i in range(10_000)), 'a3a7'", {ACCEPTED},
    ),
    "rules of two that may be empty": (
        "'root ::= r0\\n' + ''.join(f'r{i} ::= r{i + 1} r{i + 1}\\n' for i in range(5000)) + "
        "'r5000 ::= \"q\" | \"\"', 'q'", {ACCEPTED, TOO_LARGE},
    ),
    "doubling rules that may be empty": (
        "'root ::= r0\\n' + ''.join(f'r{i} ::= r{i + 1} r{i + 1} | \"\"\\n' for i in range(40)) + "
        "'r40 ::= \"c\"', 'c' * 10", {ACCEPTED},
    ),
    "1,000 rules left-recursive in a cycle": ("left_cycle(1000, 1), 'b' + 'a' * 7", {ACCEPTED}),
    "60 rules that all begin with others": ("left_cycle(60, 5), 'b' + 'a' * 7", {ACCEPTED}),
    "2,000 rules that all begin with others": ("left_cycle(2000, 9), 'baa'", {ACCEPTED, TOO_LARGE}),
    "a cycle of nothing": ("'root ::= a\\na ::= b\\nb ::= a', ''", {EMPTY}),
    "exponentially many parses": (
        "'root ::= root root | root root root | \"a\" | \"b\"', 'ab' * 60", {ACCEPTED},
    ),
    "nested counts": ("'root ::= (((\"a\"{1,999}){1,999}){1,999}){1,999}', 'a' * 300", {ACCEPTED}),
    "deep groups": ("'root ::= ' + '(' * 10_000 + '\"a\"' + ')' * 10_000, 'a'", {TOO_LARGE}),
    "100,000 open groups": ("'root ::= ' + '(' * 100_000, ''", {TOO_LARGE, MALFORMED}),
    "half a character": ("'root ::= \"\\ud800\"', ''", {MALFORMED}),
    "NUL in GBNF": ("'root ::= \"\\\\x00\" \"\\0\"', '\\0\\0'", {ACCEPTED}),
    "5,000 Lark rules": ("'start: r0\\n' + chain(5000, ':'), 'aab'", {ACCEPTED}),
    "100,000 Lark rules": ("'start: r0\\n' + chain(100_000, ':'), 'aab'", {TOO_LARGE}),
    "40 optional parts": (
        "'start: ' + ' '.join(f'[\"a{i}\"]' for i in range(40)), 'a3a39'", {ACCEPTED},
    ),
    "40 choices in a row": ("'start: ' + '(\"a\" | \"b\") ' * 40, 'ab' * 20", {ACCEPTED}),
    "doubling templates": (
        "'start: t16{\"a\"}\\nt0{x}: x\\n' + ''.join(f't{i}{{x}}: t{i - 1}{{x}} t{i - 1}{{x}}\\n' "
        "for i in range(1, 17)), 'a' * 2**16", {ACCEPTED},
    ),
    "templates of templates": ("'start: ' + 'p{' * 40 + '\"a\"' + '}' * 40 + '\\np{x}: x x', ''", {EMPTY}),
    "templates without end": ("'start: x{\"a\"}\\nx{p}: p | x{y{p}}\\ny{p}: p \"b\"', 'a'", {TOO_LARGE}),
    "doubling terminals": (
        "'start: T40\\nT0: \"a\"\\n' + ''.join(f'T{i}: T{i - 1} T{i - 1}\\n' for i in range(1, 41)), ''",
        {TOO_LARGE},
    ),
    "counts of counts in Lark": ("'start: (\"a\"~1..1000)~1..1000', 'a' * 50", {ACCEPTED}),
    "deep groups in Lark": ("'start: ' + '(' * 10_000 + '\"a\"' + ')' * 10_000, 'a'", {TOO_LARGE, MALFORMED}),
    "ambiguous terminals": ("'start: /(a|a)*b/ | /(a+)+c/', 'a' * 500 + 'c'", {ACCEPTED}),
}  # fmt: skip

OTHERS = {
    "a choice of 100,000 words": ("compile_choice(words(100_000)).accepts('w0x')", {ACCEPTED}),
    "half a character in a choice": ("compile_choice(['\\ud800'])", {MALFORMED}),
    "300 tags": (
        "compile_tagged_text([TaggedBlock(f'<{w}>', compile_regex('a*'), '</>') for w in words(300)])"
        ".accepts('x' * 2000 + '<w0x>aa</>')", {ACCEPTED},
    ),
    "a long tag that repeats itself": (
        "compile_text(until='a' * 900 + 'b').accepts('a' * 3000 + 'b')", {ACCEPTED},
    ),
    "an enum of 100,000 words": ("compile_json_schema({'enum': words(100_000)}).accepts('\"w0x\"')", {ACCEPTED}),
    "10,000 nested arrays": ("compile_json_schema(nested_arrays(10_000)).accepts('[]')", {ACCEPTED, TOO_LARGE}),
    "references in a circle": (
        "compile_json_schema({'$ref': '#/$defs/a', '$defs': {'a': {'$ref': '#/$defs/b'}, "
        "'b': {'$ref': '#/$defs/a'}}})", {EMPTY, UNSUPPORTED, MALFORMED},
    ),
    "an object that needs itself": (
        "compile_json_schema({'type': 'object', 'properties': {'a': {'$ref': '#'}}, 'required': ['a'], "
        "'additionalProperties': False})", {EMPTY},
    ),
    "a schema of a megabyte": ("compile_json_schema(properties(10_000)).accepts('{}')", {ACCEPTED, TOO_LARGE}),
}  # fmt: skip


def outcome(expression):
    """What a case prints, or how its process ended."""
    script = PRELUDE.replace("CASE()", expression)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.stdout.strip() or f"exit {done.returncode}: {done.stderr[-300:]}"


def cases(table):
    return [pytest.param(case, expected, id=name) for name, (case, expected) in table.items()]


@pytest.mark.parametrize(("case", "expected"), cases(REGEX))
def test_patterns(case, expected):
    assert outcome(f"(lambda p, t: compile_regex(p).accepts(t))({case})") in expected


@pytest.mark.parametrize(("case", "expected"), cases(GRAMMARS))
def test_grammars(case, expected):
    assert outcome(f"(lambda g, t: compile_ebnf(g).accepts(t))({case})") in expected


@pytest.mark.parametrize(("case", "expected"), cases(OTHERS))
def test_choices_tags_and_schemas(case, expected):
    assert outcome(case) in expected
