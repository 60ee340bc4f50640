"""Recorded cases: what each constraint must take, refuse, or be refused for."""

import json
from pathlib import Path

import pytest
from deepinfer_grammars import (
    GrammarError,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
)

DATA = Path(__file__).parent / "data"


def cases(name):
    with (DATA / name).open(encoding="utf-8") as lines:
        return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


def compiled(case):
    if case["kind"] == "json_schema":
        most = case.get("options", {}).get("max_whitespace", 16)
        return compile_json_schema(case["constraint"], whitespace="flexible", max_whitespace=most)
    if case["kind"] == "regex":
        return compile_regex(case["constraint"])
    return compile_ebnf(case["constraint"])


@pytest.mark.parametrize(
    "case",
    cases("regex_cases.jsonl") + cases("grammar_cases.jsonl") + cases("field_cases.jsonl"),
)
def test_recorded_case(case):
    if case["expect"] == "error":
        with pytest.raises(GrammarError) as caught:
            compiled(case)
        if case["kind"] != "json_schema":
            assert caught.value.position is not None
        return
    try:
        grammar = compiled(case)
    except GrammarError:
        assert case["expect"] in ("works_or_error", "error_or_empty")
        return
    for text in case["accepts"]:
        assert grammar.accepts(text), text
        assert grammar.first_error(text) is None
    for text in case["rejects"]:
        assert not grammar.accepts(text), text
