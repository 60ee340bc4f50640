"""Settings of the rotary embedding: honoured as transformers and GGUF mean them, or refused."""

import json
import re

import pytest
from deepinfer_engine import EngineError, load_model
from test_gguf_weights import random_weights, write

from deepinfer_sdk.testing import write_tiny_model

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip


def gguf_config(path, **metadata):
    write(path, random_weights(), lambda name: "F32", **metadata)
    return load_model(path).config


def folder_config(path, **changes):
    write_tiny_model(path, seed=1)
    file = path / "config.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    for name in ("rope_theta", "rope_scaling"):
        record.pop(name, None)
    file.write_text(json.dumps(record | changes), encoding="utf-8")
    return load_model(path).config


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"rope.dimension_count": 8}, "rotates 8 of the 16 channels"),
        ({"rope.scaling.factor": 4}, "scales its rotary embedding by 'linear'"),
        ({"rope.scale_linear": 4}, "scales its rotary embedding by 'linear'"),
    ],
)
def test_gguf_settings_that_would_change_the_model_are_refused(tmp_path, metadata, words):
    with pytest.raises(EngineError, match=words) as caught:
        gguf_config(tmp_path / "a.gguf", **metadata)
    assert (caught.value.kind, "a.gguf" in str(caught.value)) == ("model", True)
    assert caught.value.hint


@pytest.mark.parametrize(
    "metadata", [{"rope.dimension_count": 16}, {"rope.scaling.factor": 1}, {"rope.scale_linear": 1}]
)
def test_gguf_settings_that_change_nothing_are_taken(tmp_path, metadata):
    assert gguf_config(tmp_path / "a.gguf", **metadata) == gguf_config(tmp_path / "b.gguf")


@pytest.mark.parametrize(
    ("changes", "theta"),
    [
        ({}, 10_000.0),
        ({"rope_theta": None}, 10_000.0),
        ({"rope_theta": 7e4}, 7e4),
        ({"rope_parameters": {"rope_theta": 5e5}}, 5e5),
        ({"rope_theta": 7e4, "rope_parameters": {"rope_theta": 5e5}}, 5e5),
        ({"rope_theta": 7e4, "rope_parameters": {"rope_type": "default"}}, 7e4),
        ({"rope_scaling": LLAMA3, "rope_parameters": {"rope_theta": 5e5}}, 10_000.0),
    ],
)
def test_the_base_comes_from_where_transformers_takes_it(tmp_path, changes, theta):
    config = folder_config(tmp_path, **changes)
    assert config.rope_theta == theta
    assert config.rope_scaling == changes.get("rope_scaling")


@pytest.mark.parametrize(
    "changes",
    [
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": LLAMA3 | {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    ],
)
def test_a_partly_rotated_head_is_refused(tmp_path, changes):
    words = re.escape("partial_rotary_factor to 0.5")
    with pytest.raises(EngineError, match=words) as caught:
        folder_config(tmp_path, **changes)
    assert caught.value.kind == "model"
