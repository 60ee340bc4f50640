"""SamplingParams: frozen, validated, with the legal range in every message."""

import pickle

import pytest
from pydantic import ValidationError

from deepinfer_sdk import InvalidArgument, SamplingParams, UnknownArgument

OUT_OF_RANGE = [
    ("temperature", -0.1, "from 0"),
    ("temperature", float("nan"), "from 0"),
    ("top_p", 0.0, "above 0 and at most 1"),
    ("top_p", 1.5, "above 0 and at most 1"),
    ("top_k", -1, "from 0 (off)"),
    ("min_p", 2.0, "to 1"),
    ("max_tokens", 0, "from 1"),
    ("max_tokens", 1.5, "whole number"),
    ("min_tokens", -1, "from 0"),
    ("stop", ("",), "none of them empty"),
    ("seed", -1, "2**64 - 1"),
    ("seed", 2**64, "2**64 - 1"),
    ("seed", True, "2**64 - 1"),
    ("n", 0, "from 1"),
    ("logprobs", 21, "to 20"),
    ("presence_penalty", 2.1, "from -2 to 2"),
    ("frequency_penalty", -2.1, "from -2 to 2"),
    ("repetition_penalty", 0.0, "above 0"),
    ("logit_bias", {5: 101.0}, "-100 to 100"),
    ("draw", "cdf", "gumbel"),
    ("logprobs_mode", "odd", "processed"),
    ("temperature", "hot", "from 0"),
]


@pytest.mark.parametrize(("name", "value", "words"), OUT_OF_RANGE)
def test_a_bad_value_is_refused_with_the_value_and_the_legal_range(name, value, words):
    with pytest.raises(InvalidArgument) as caught:
        SamplingParams(**{name: value})
    assert name in caught.value.message
    assert words in caught.value.hint
    assert any(words in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("temprature", "temperature"), ("max_token", "max_tokens"), ("topp", "top_p")],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(wrong, right):
    with pytest.raises(UnknownArgument, match=wrong) as caught:
        SamplingParams(**{wrong: 1})
    assert f"Did you mean '{right}'" in caught.value.hint
    assert isinstance(caught.value, TypeError)


def test_with_changes_some_values_and_checks_them():
    params = SamplingParams(temperature=0.5, stop="x", seed=7)
    changed = params.with_(temperature=0)
    assert (changed.temperature, changed.stop, changed.seed) == (0, ("x",), 7)
    assert params.temperature == 0.5
    with pytest.raises(InvalidArgument, match="top_p"):
        params.with_(top_p=7.0)
    with pytest.raises(UnknownArgument, match="tempo"):
        params.with_(tempo=1)


def test_params_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        SamplingParams().temperature = 2.0


def test_stop_takes_one_text_or_several():
    assert SamplingParams(stop="end").stop == ("end",)
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")


def test_seq_seed_is_the_seed_under_its_older_name():
    assert SamplingParams(seq_seed=9) == SamplingParams(seed=9)
    with pytest.raises(InvalidArgument, match="disagree"):
        SamplingParams(seq_seed=9, seed=8)


def test_so_args_are_checked():
    params = SamplingParams(so_args={"schema_type": "regex", "schema": "[0-9]+"})
    assert params.so_args.schema_type == "regex"
    with pytest.raises(InvalidArgument, match="so_args"):
        SamplingParams(so_args={"schema_type": "xml", "schema": ""})


def test_more_least_tokens_than_most_are_refused():
    with pytest.raises(InvalidArgument, match="min_tokens=9 is more than max_tokens=3"):
        SamplingParams(min_tokens=9, max_tokens=3)


def test_params_survive_json_and_pickle():
    params = SamplingParams(
        temperature=0.3, stop=["a"], logit_bias={5: -1.5}, seed=2**64 - 1, stop_token_ids=[3]
    )
    assert SamplingParams.model_validate_json(params.model_dump_json()) == params
    assert pickle.loads(pickle.dumps(params)) == params
