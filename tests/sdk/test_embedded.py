"""The embedded model, end to end: what a first-time user sees."""

import runpy
from pathlib import Path

from pydantic import BaseModel, Field

from deepinfer_sdk import SamplingParams, Schema

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_steps.py"


class Person(BaseModel):
    name: str = Field(max_length=40)
    age: int = Field(ge=0, le=130)
    city: str = Field(max_length=40)


PROMPT = "Write the name, age and city of this person as JSON: Anna Berg, 31, lives in Oslo."


def test_a_person_comes_out_of_a_sentence(embedded):
    params = SamplingParams(temperature=0, max_tokens=80)
    person = embedded.generate(PROMPT, schema=Person, sampling=params).value
    assert person == Person(name="Anna Berg", age=31, city="Oslo")


def test_the_same_seed_gives_the_same_bytes_alone_and_among_others(embedded):
    params = SamplingParams(temperature=0.7, seed=7, max_tokens=60)
    alone = embedded.generate(PROMPT, schema=Person, sampling=params)
    crowd = embedded.map([PROMPT, "Say something.", PROMPT, "1 + 1 ="], sampling=params)
    among = embedded.map([PROMPT, "Somebody: Li Wei, 4, Xi'an"], schema=Person, sampling=params)
    assert among[0].ids == alone.ids
    assert crowd[0].ids == crowd[2].ids
    assert embedded.replay(alone).same


def test_plain_text_ends_where_the_model_ends(embedded):
    params = SamplingParams(temperature=0, max_tokens=40)
    result = embedded.generate("What is the capital of France?", sampling=params)
    assert "Paris" in result.text
    assert result.finish_reason == "stop"
    assert "<|" not in result.text


def test_text_may_hold_any_character(embedded):
    schema = Schema.regex("Zürich, 東京 🙂!")
    params = SamplingParams(max_tokens=60, seed=1)
    stream = embedded.stream("Say it.", schema=schema, sampling=params)
    assert "".join(event.text for event in stream if event.type == "text") == stream.result.text
    assert stream.result.text == "Zürich, 東京 🙂!"


def test_the_example_runs_and_shows_the_object(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = capsys.readouterr().out
    assert "Person(name=" in shown
    assert "tokens per second" in shown
    assert "same bytes: True" in shown
