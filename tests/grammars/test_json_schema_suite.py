"""The JSON Schema Test Suite, draft 2020-12: every group is right, or refused with a reason."""

import gzip
import json
from pathlib import Path

import pytest
from deepinfer_grammars import EmptyConstraint, GrammarError, compile_json_schema

DATA = Path(__file__).parent / "data" / "json_schema_test_suite"

# Refused, and why. Everything else has to be right.
REFUSED = {
    "validate definition against metaschema": "uniqueItems",
    "dependencies with escaped characters": "minProperties",
    "float division = inf": "remainders",
    "collect annotations inside a 'not', even if collection is disabled": "negation",
    "remote ref, containing refs itself": "uniqueItems",
    "uniqueItems validation": "uniqueItems",
    "uniqueItems with an array of items": "uniqueItems",
    "schema that uses custom metaschema with with no validation vocabulary": "vocabulary",
    "\\a is not an ECMA 262 control escape": "format 'regex'",
    "validation of regular expressions": "format 'regex'",
    "validation of internationalized host names": "format 'idn-hostname'",
    "validation of separators in internationalized host names": "format 'idn-hostname'",
}


def read(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


REMOTES = {row["uri"]: row["schema"] for row in read("remotes.jsonl.gz")}
GROUPS = read("draft2020-12.jsonl.gz")
FILES = sorted({(group["part"], group["file"]) for group in GROUPS})


@pytest.mark.parametrize(("part", "file"), FILES, ids=lambda value: value)
def test_the_suite(part, file):
    refused = {}
    for group in GROUPS:
        if (group["part"], group["file"]) != (part, file):
            continue
        try:
            grammar = compile_json_schema(
                group["schema"],
                property_order="any",
                formats="assert" if part == "format" else "annotate",
                documents=REMOTES,
            )
        except EmptyConstraint:
            grammar = None  # nothing satisfies it
        except GrammarError as error:
            refused[group["description"]] = error
            continue
        for test in group["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            accepted = grammar is not None and grammar.accepts(text)
            assert accepted == test["valid"], (group["description"], test["description"])
    for description, error in refused.items():
        assert description in REFUSED, error
        assert REFUSED[description] in str(error)
        assert error.pointer is not None


def test_the_suite_is_whole():
    required = [group for group in GROUPS if group["part"] == "required"]
    assert len(required) == 368
    assert len(GROUPS) == 390
