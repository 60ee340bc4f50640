"""The embedded model against what `transformers` computes with the same weights (recorded)."""

import json
from pathlib import Path

import numpy as np
import pytest
from deepinfer_engine import Engine, EngineConfig, GenerationRequest, load_model
from deepinfer_engine.llama import LlamaCache, LlamaModel, Rows
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import collect

from deepinfer_sdk.hub import embedded_model_path

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="module")
def model():
    return load_model(embedded_model_path())


@pytest.fixture(scope="module")
def recorded():
    return json.loads((GOLDEN / "smollm2_logits.json").read_text(encoding="utf-8"))


def test_token_ids_equal_those_of_transformers(model):
    cases = json.loads((GOLDEN / "smollm2_tokens.json").read_text(encoding="utf-8"))
    assert len(cases) == 15
    for case in cases:
        ids = model.tokenizer.encode(case["text"])
        assert ids == case["ids"], case["text"]
        assert model.tokenizer.decode(ids) == case["text"]


def test_chat_prompts_equal_those_of_transformers(model, recorded):
    for run in recorded["runs"]:
        text = f"<|im_start|>user\n{run['prompt']}<|im_end|>\n<|im_start|>assistant\n"
        assert model.tokenizer.encode(text, parse_special=True) == run["ids"]


def test_logits_equal_those_of_transformers(model, recorded):
    cache = LlamaCache(model.config, 2, 64)
    forward = LlamaModel(model.config, model.weights, 128)
    for run in (run for run in recorded["runs"] if "columns" in run):
        count = len(run["ids"])
        rows = Rows(
            ids=np.array(run["ids"]),
            positions=np.arange(count),
            slots=np.arange(count),
            sequences=np.zeros(count, np.int64),
            tables=np.array([[0, 1]]),
            wanted=np.arange(count),
        )
        logits = forward.forward(rows, cache)
        assert np.abs(logits[:, recorded["columns"]] - np.array(run["columns"])).max() < 2e-3
        top = np.take_along_axis(logits, np.array(run["top_ids"]), axis=1)
        assert np.abs(top - np.array(run["top_logits"])).max() < 2e-3
        assert (logits.argmax(axis=1) == np.array(run["top_ids"])[:, 0]).all()


def test_64_greedy_tokens_equal_those_of_transformers_on_ten_prompts(model, recorded):
    engine = Engine(model, EngineConfig(threads=1))
    eos = model.tokenizer.eos_ids[0]
    handles = [
        engine.submit(
            GenerationRequest(tuple(run["ids"]), SamplerParams(temperature=0.0), max_tokens=64)
        )
        for run in recorded["runs"]
    ]
    for handle, run in zip(handles, recorded["runs"], strict=True):
        expected = run["greedy"]
        if eos in expected:
            expected = expected[: expected.index(eos)]
        assert list(collect(handle)[1][0].ids) == expected, run["prompt"]
    engine.close()
