"""Results are plain data: frozen, pickled, and the same again after a trip through JSON."""

import json
import pickle

import pytest
from pydantic import BaseModel, Field, ValidationError

from deepinfer_sdk import (
    BudgetTooSmall,
    DiskFull,
    InvalidArgument,
    OutputRejected,
    Result,
    SamplingParams,
    Schema,
)


class Pair(BaseModel):
    a: int = Field(ge=0, le=99)
    b: str = Field(max_length=5)


PARAMS = SamplingParams(seed=7, max_tokens=60, n=2, logprobs=2)


@pytest.fixture
def result(session):
    return session.generate("hello", schema=Pair, sampling=PARAMS)


def test_a_result_cannot_be_changed(result):
    with pytest.raises(ValidationError, match="frozen"):
        result.text = "other"


def test_a_result_survives_pickling(result):
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert isinstance(again.value, Pair)


def test_a_typed_result_survives_json(result):
    again = Result[Pair].model_validate_json(result.model_dump_json())
    assert again == result
    assert again.more_samples[0].value == result.more_samples[0].value


def test_without_the_type_the_value_comes_back_as_data(result):
    again = Result.model_validate_json(result.model_dump_json())
    assert again.value == {"a": result.value.a, "b": result.value.b}
    assert again.text == result.text
    assert again.recipe == result.recipe


@pytest.mark.parametrize(
    "schema", [None, int, Schema.choice("a", "b"), Schema.any_of(Pair, int), Schema.regex("x+")]
)
def test_every_kind_of_schema_makes_plain_data(session, schema):
    params = SamplingParams(seed=3, max_tokens=40)
    result = session.generate("hello", schema=schema, sampling=params)
    assert pickle.loads(pickle.dumps(result)) == result
    json.loads(result.model_dump_json())


def test_the_recipe_holds_what_the_output_depends_on(session, result):
    recipe = result.recipe
    assert recipe.model_digest == session.model.digest
    assert recipe.params.seed == result.seed == 7
    assert recipe.schema_spec == Schema(Pair).spec
    assert len(recipe.prompt_ids) == result.usage.prompt_tokens
    assert set(recipe.versions) == {"deepinfer-sdk", "numba", "numpy", "tokenizers"}
    assert recipe.device == "cpu"


def test_the_repr_shows_the_value_the_end_and_the_seed(result):
    shown = repr(result)
    assert shown.startswith("Result(Pair(a=")
    assert "seed=7" in shown
    assert "samples=2" in shown
    assert str(result) == result.text


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("what", hint="do this"),
        BudgetTooSmall("what", least=5, hint="do this"),
        OutputRejected("what", text="half", hint="do this"),
        DiskFull("what", needed=5, free=3, hint="do this"),
    ],
)
def test_errors_survive_pickling_with_their_hints(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "what"
    assert again.__dict__ == error.__dict__
    assert again.__notes__ == ["  -> do this"]
