"""The names and signatures people build on, pinned; and what importing them costs."""

import inspect
import json
import subprocess
import sys

import deepinfer_sdk
from deepinfer_sdk import DeepInferError, SamplingParams, Schema, Session, errors

NAMES = {
    "AsyncStream", "BudgetTooSmall", "Check", "DeepInferError", "DiskFull", "EngineFailure",
    "Finished", "GenerationCancelled", "GenerationTimeout", "ImpossibleSchema", "Interrupted",
    "InvalidArgument", "InvalidSchema", "Message", "ModelError", "ModelFileError", "ModelInfo",
    "ModelNotFound", "ModelNotSupported", "OutputError", "OutputRejected", "PromptTooLong",
    "Recipe", "ReplayReport", "Result", "Sample", "SamplingParams", "Schema", "SchemaError",
    "SchemaNotSupported", "SchemaTooLarge", "Session", "SessionClosed", "SessionStats", "Settings",
    "Stream", "StreamEvent", "Tag", "TagValue", "TextDelta", "Thought", "Timings", "TokenLogprob",
    "ToolCall", "UnknownArgument", "Usage",
}  # fmt: skip

PARAMETERS = {
    "generate": ["prompt", "schema", "sampling", "raw", "timeout_s"],
    "stream": ["prompt", "schema", "sampling", "raw", "timeout_s"],
    "map": ["prompts", "schema", "sampling", "raw", "timeout_s", "on_error"],
    "chat": ["messages", "schema", "sampling", "timeout_s"],
    "__init__": ["model", "sampling", "device", "max_len", "max_slots", "settings"],
}

SAMPLING = [
    "temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens", "stop", "stop_token_ids",
    "ignore_eos", "seed", "n", "logprobs", "logprobs_mode", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "logit_bias", "draw", "so_args",
]  # fmt: skip

HEAVY = ["torch", "triton", "transformers", "numba", "numpy", "tokenizers", "huggingface_hub"]


def test_the_public_names_are_these():
    assert set(deepinfer_sdk.__all__) == NAMES | {"__version__"}
    assert all(hasattr(deepinfer_sdk, name) for name in NAMES)


def test_everything_after_the_first_argument_is_keyword_only():
    for verb, expected in PARAMETERS.items():
        parameters = list(inspect.signature(getattr(Session, verb)).parameters.values())[1:]
        assert [p.name for p in parameters] == expected, verb
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters[1:]), verb


def test_the_sampling_parameters_are_these():
    assert list(SamplingParams.model_fields) == SAMPLING


def test_the_ways_to_make_a_schema_are_these():
    public = {name for name in vars(Schema) if not name.startswith("_")}
    makers = {"json", "regex", "ebnf", "choice", "any_of", "from_spec"}
    composers = {"sequence", "repeat", "optional", "text", "thinking", "tagged", "tools"}
    assert public == makers | composers | {"check", "parse", "grammar"}


def test_every_error_has_one_base_and_is_drawn_in_the_tree():
    kinds = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    for kind in kinds:
        assert issubclass(kind, DeepInferError)
        assert not issubclass(kind, ValueError), "Pydantic would swallow it"
        assert kind.__name__ in errors.__doc__
        assert kind.__name__ in deepinfer_sdk.__all__


def test_importing_the_package_loads_nothing_heavy(environment):
    loaded = f"[name for name in {HEAVY} if name in sys.modules]"
    code = f"import deepinfer_sdk, json, sys; print(json.dumps({loaded}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert json.loads(done.stdout) == []
    assert done.stderr == ""
