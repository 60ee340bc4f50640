"""What people get wrong: each mistake has its words, leaves nothing behind, and spoils nothing.

The `session` fixture asks the session for one more answer after every test.
"""

import shutil

import pytest
from pydantic import BaseModel, Field, field_validator

from deepinfer_sdk import (
    BudgetTooSmall,
    ImpossibleSchema,
    InvalidArgument,
    InvalidSchema,
    ModelError,
    ModelFileError,
    ModelNotFound,
    ModelNotSupported,
    OutputRejected,
    PromptTooLong,
    SamplingParams,
    Schema,
    Session,
    UnknownArgument,
)
from deepinfer_sdk.testing import FakeSession, write_tiny_model


class Pair(BaseModel):
    a: int = Field(ge=0, le=99)
    b: str = Field(max_length=5)


class Picky(BaseModel):
    a: int = Field(ge=0, le=9)

    @field_validator("a")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise ValueError("never good enough")


CALLS = [
    (lambda s: s.generate(""), InvalidArgument, "prompt is empty", "Name a city"),
    (lambda s: s.generate(" \n"), InvalidArgument, "prompt is empty", "Name a city"),
    (lambda s: s.generate(["a"]), InvalidArgument, "prompt is a list", "session.map"),
    (lambda s: s.generate(None), InvalidArgument, "prompt is a NoneType", "one str"),
    (lambda s: s.generate(b"a"), InvalidArgument, "prompt is a bytes", "one str"),
    (lambda s: s.generate("a\ud800"), InvalidArgument, "position 1, which is half", "UTF-8"),
    (
        lambda s: s.chat([{"role": "user", "content": "\ud800"}]),
        InvalidArgument,
        "content of message 0 has",
        "UTF-8",
    ),
    (lambda s: s.generate("a " * 600), PromptTooLong, "context holds 512", "at most 511 tokens"),
    (lambda s: s.generate("a", Pair), InvalidArgument, "positional", "by keyword"),
    (lambda s: s.generate("a", shema=Pair), UnknownArgument, "'shema'", "Did you mean 'schema'"),
    (
        lambda s: s.generate("a", temperature=0.5),
        UnknownArgument,
        "'temperature'",
        "SamplingParams(temperature=...)",
    ),
    (lambda s: s.stream("a", schem=Pair), UnknownArgument, "'schem'", "'schema'"),
    (lambda s: s.map(["a"], onerror="raise"), UnknownArgument, "'onerror'", "'on_error'"),
    (lambda s: s.map(["a"], on_error="skip"), InvalidArgument, "'skip'", '"return"'),
    (lambda s: s.map(7), InvalidArgument, "got a int", "Pass a list"),
    (
        lambda s: s.generate("a", sampling={"top_k": 1}),
        InvalidArgument,
        "a dict",
        "SamplingParams(",
    ),
    (lambda s: s.generate("a", schema="[0-9]"), InvalidSchema, "neither", "Schema.regex"),
    (lambda s: s.generate("a", schema={"type": "null"}), InvalidSchema, "neither", "Schema.json"),
    (lambda s: s.generate("a", timeout_s=0), InvalidArgument, "timeout_s=0", "above 0"),
    (
        lambda s: s.generate("a", schema=Pair, sampling=SamplingParams(stop="}")),
        InvalidArgument,
        "cut the output off",
        "Drop the stop texts",
    ),
    (
        lambda s: s.generate("a", sampling=SamplingParams(logit_bias={10**6: 1.0})),
        InvalidArgument,
        "token 1000000",
        "from 0 to",
    ),
    (lambda s: s.chat("hello"), InvalidArgument, "messages is a str", '"role": "user"'),
    (lambda s: s.chat([]), InvalidArgument, "messages is empty", '"role": "user"'),
    (lambda s: s.chat([{"role": "user"}]), InvalidArgument, "message 0", '"content"'),
    (
        lambda s: s.chat([{"role": "robot", "content": "a"}]),
        InvalidArgument,
        "the role 'robot'",
        '"assistant"',
    ),
    (
        lambda s: s.chat([{"role": "user", "content": 5}]),
        InvalidArgument,
        "message 0 is a int",
        '"role": "user"',
    ),
    (
        lambda s: s.generate("a", schema=Schema.json({"type": "integer", "enum": ["x"]})),
        ImpossibleSchema,
        "nothing can satisfy",
        "contradict",
    ),
    (lambda s: Schema.choice("\ud800"), InvalidSchema, "half a character", "whole character"),
    (lambda s: Schema.regex("[a"), InvalidSchema, "not closed in the pattern '[a'", "backslash"),
    (lambda s: Schema.json({"$ref": "#/x"}), InvalidSchema, "leads nowhere at #/$ref", "Mend it"),
]


@pytest.mark.parametrize(("call", "kind", "words", "hint"), CALLS)
def test_a_mistake_is_refused_in_words(session, call, kind, words, hint):
    with pytest.raises(kind) as caught:
        call(session)
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert any(hint in note for note in caught.value.__notes__)


def test_a_budget_too_small_for_the_schema_names_the_least_that_does(session):
    schema = Schema.regex("[0-9]{20}")
    with pytest.raises(BudgetTooSmall, match="max_tokens=3 cannot hold") as caught:
        session.generate("a", schema=schema, sampling=SamplingParams(max_tokens=3))
    least = caught.value.least
    assert f"max_tokens={least}" in caught.value.hint
    enough = SamplingParams(max_tokens=least)
    assert schema.check(session.generate("a", schema=schema, sampling=enough).text)


def test_a_prompt_that_leaves_no_room_for_the_schema_is_refused(session):
    with pytest.raises(PromptTooLong, match="leaves room for") as caught:
        session.generate("a " * 220, schema=Schema.regex("[0-9]{90}"))
    assert "Shorten the prompt" in caught.value.hint


def test_validators_that_refuse_raise_an_error_with_the_text(session):
    with pytest.raises(OutputRejected, match="never good enough") as caught:
        session.generate("a", schema=Picky)
    assert Schema(Picky).grammar().accepts(caught.value.text)


def test_unknown_session_arguments_name_the_nearest_one():
    with pytest.raises(UnknownArgument, match="'max_slot'") as caught:
        Session("smollm2-135m", max_slot=3)
    assert "'max_slots'" in caught.value.hint
    with pytest.raises(UnknownArgument) as caught:
        Session(temperature=1.0)
    assert "SamplingParams(temperature=...)" in caught.value.hint


@pytest.mark.parametrize("value", [0, -3, 2.5, "8", True])
def test_session_sizes_must_be_whole_numbers(value):
    with pytest.raises(InvalidArgument, match="max_len"):
        FakeSession(max_len=value)


def test_an_unknown_device_and_too_long_a_context_are_refused(tmp_path):
    write_tiny_model(tmp_path)
    with pytest.raises(InvalidArgument, match="'abacus'") as caught:
        Session(tmp_path, device="abacus")
    assert '"cpu"' in caught.value.hint
    with pytest.raises(InvalidArgument, match="max_len=9999") as caught:
        Session(tmp_path, max_len=9999)
    assert "max_len=512" in caught.value.hint


def test_a_session_needs_a_name_or_a_path():
    with pytest.raises(InvalidArgument, match="model is a int"):
        Session(5)


@pytest.mark.parametrize("name", ["smollm3", "no/such/folder", "missing.gguf", "/missing/folder"])
def test_an_unknown_model_names_the_choices(name):
    with pytest.raises(ModelNotFound, match=name) as caught:
        Session(name)
    assert "'smollm2-135m'" in caught.value.hint
    assert "owner/name" in caught.value.hint


@pytest.fixture
def folder(tmp_path):
    write_tiny_model(tmp_path)
    return tmp_path


def test_a_truncated_weights_file_is_named(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        Session(folder)


def test_a_corrupt_weights_file_is_named(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 5000)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        Session(folder)


def test_a_missing_weights_file_is_named(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="safetensors"):
        Session(folder)


def test_a_corrupt_config_is_named(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"config\.json"):
        Session(folder)


def test_a_corrupt_gguf_file_is_named(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    with pytest.raises(ModelFileError, match=r"broken\.gguf"):
        Session(path)


def test_an_empty_folder_is_no_model(tmp_path):
    with pytest.raises(ModelError):
        Session(tmp_path)


def test_an_unknown_architecture_names_the_known_ones(folder):
    config = folder / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "MysteryForCausalLM"))
    with pytest.raises(ModelNotSupported, match="MysteryForCausalLM") as caught:
        Session(folder)
    assert "Llama" in f"{caught.value.message} {caught.value.hint}"


def test_after_a_failed_open_the_mended_model_opens(folder, tmp_path_factory):
    weights = folder / "model.safetensors"
    kept = tmp_path_factory.mktemp("kept") / "weights"
    shutil.copy(weights, kept)
    weights.write_bytes(b"")
    with pytest.raises(ModelError):
        Session(folder)
    shutil.copy(kept, weights)
    with Session(folder) as session:
        assert session.generate("a", schema=int).value is not None


def test_a_model_without_a_chat_template_takes_prompts_but_no_messages(folder):
    settings = folder / "tokenizer_config.json"
    settings.write_text("{}")
    with Session(folder) as session:
        assert isinstance(session.generate("a", schema=int).value, int)
        with pytest.raises(InvalidArgument, match="no chat template") as caught:
            session.chat([{"role": "user", "content": "a"}])
        assert "session.generate" in caught.value.hint
