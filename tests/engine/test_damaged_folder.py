"""Whatever is wrong with a model folder, our own error says so, and nothing is left behind."""

import gc
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from deepinfer_engine import EngineError, load_model
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from deepinfer_sdk.testing import write_tiny_model

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pristine")
    write_tiny_model(folder, seed=1)
    return folder


@pytest.fixture(scope="module")
def scratch(pristine, tmp_path_factory):
    """A folder that tests of this module change; its config.json is written anew each time."""
    folder = tmp_path_factory.mktemp("scratch") / "model"
    shutil.copytree(pristine, folder)
    return folder


def configure(folder, pristine, changes):
    record = json.loads((pristine / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(record | changes), encoding="utf-8")


def refusal(folder):
    with pytest.raises(EngineError) as caught:
        load_model(folder)
    assert caught.value.kind == "model"
    assert caught.value.hint
    return str(caught.value)


def attempt(folder):
    """The model, or our own error; anything else fails the test."""
    try:
        return load_model(folder), None
    except EngineError as error:
        return None, error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 0, "head_dim": None}, "heads is 0"),
        ({"hidden_size": float("inf")}, "something unexpected: OverflowError"),
        ({"rope_scaling": 3}, "something unexpected: AttributeError"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "factor is 0.0"),
        ({"rope_scaling": LLAMA3 | {"factor": 0}}, "factor is 0.0"),
        ({"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "high_freq_factor - low_freq"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0"),
        ({"rms_norm_eps": float("nan")}, "norm_eps is nan"),
        ({"max_position_embeddings": 0}, "max_len is 0"),
        ({"eos_token_id": 9999}, "the token 9999, which is not one of its 283 tokens"),
        ({"eos_token_id": [-1]}, "the token -1"),
        ({"eos_token_id": "<|im_end|>"}, "the token '<|im_end|>'"),
        ({"num_hidden_layers": 1}, "model.layers.1."),
        ({"architectures": None, "model_type": "mamba"}, "'mamba', which is not supported"),
    ],
)
def test_settings_that_cannot_be_are_named(pristine, scratch, changes, words):
    configure(scratch, pristine, changes)
    assert words in refusal(scratch)


def test_null_stands_for_the_default(pristine, scratch):
    configure(scratch, pristine, {"head_dim": None, "rope_scaling": None, "hidden_act": None})
    assert load_model(scratch).config == load_model(pristine).config


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**31, 2**70, -(2**63), 0.5, float("inf"), float("nan"), "", "x", [], {}]),
    st.sampled_from([LLAMA3, {"rope_type": None}, [None], [["x"]], {"type": "linear"}]),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_value_of_any_setting_loads_or_is_refused(pristine, scratch, data):
    keys = json.loads((pristine / "config.json").read_text(encoding="utf-8"))
    names = st.sampled_from([*keys, "rope_scaling", "rope_parameters", "mlp_bias"])
    configure(scratch, pristine, data.draw(st.dictionaries(names, VALUES, min_size=1, max_size=2)))
    model, error = attempt(scratch)
    if model is not None:
        assert all(0 <= i < model.tokenizer.vocab_size for i in model.tokenizer.eos_ids)
        assert model.max_len > 0
    else:
        assert error.kind == "model", error
        assert error.hint


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1600), st.integers(0, 255), st.integers(1, 9))
@example(0, 255, 8)
@example(8, 0, 1)
def test_changed_bytes_of_weights_are_refused_or_other_weights(pristine, scratch, at, value, count):
    """The first bytes are the header with names, types, shapes and offsets."""
    configure(scratch, pristine, {})
    data = (pristine / "model.safetensors").read_bytes()
    file = scratch / "model.safetensors"
    file.unlink()  # the maps of models loaded before keep the old file
    file.write_bytes(data[:at] + bytes([value]) * count + data[at + count :])
    try:
        _, error = attempt(scratch)
    finally:
        file.unlink()
        shutil.copy(pristine / "model.safetensors", file)
    if error is not None:
        assert error.kind == "model", error
        assert error.hint


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_weights_cut_anywhere_are_refused(pristine, tmp_path, share):
    folder = tmp_path / "cut"
    shutil.copytree(pristine, folder)
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: int(len(data) * share)])
    assert "model.safetensors is damaged or truncated" in refusal(folder)


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_a_type_that_is_not_supported_is_named_with_file_and_tensor(pristine, tmp_path, dtype):
    folder = tmp_path / "typed"
    shutil.copytree(pristine, folder)
    weights = load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    weights[name] = weights[name].astype(dtype)
    save_file(weights, folder / "model.safetensors")
    words = refusal(folder)
    assert name in words
    assert "model.safetensors" in words
    assert {"float64": "F64", "int8": "I8"}[np.dtype(dtype).name] in words


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 5}}', '{"weight_map": []}']
)
def test_a_damaged_index_of_shards_is_named(pristine, tmp_path, index):
    folder = tmp_path / "sharded"
    shutil.copytree(pristine, folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    assert "sharded" in refusal(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\ud800".encode("utf-8", "surrogatepass")])
def test_damaged_records_are_named(pristine, tmp_path, file, text):
    folder = tmp_path / "model"
    shutil.copytree(pristine, folder)
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert file in refusal(folder)


def open_files():
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_a_refused_folder_leaves_nothing_open_mapped_or_written(pristine, tmp_path):
    folder = tmp_path / "left-behind"
    shutil.copytree(pristine, folder)
    configure(folder, pristine, {"num_hidden_layers": 3})  # found out after most was read
    files = {path: path.read_bytes() for path in folder.iterdir()}
    threads = set(threading.enumerate())
    assert "model.layers.2." in refusal(folder)
    gc.collect()
    assert {path: path.read_bytes() for path in folder.iterdir()} == files
    assert list(tmp_path.iterdir()) == [folder]
    assert set(threading.enumerate()) <= threads
    assert str(folder) not in Path("/proc/self/maps").read_text()
    assert not any(name.startswith(str(folder)) for name in open_files())


def test_a_vocabulary_far_beyond_the_weights_costs_no_memory(pristine, scratch):
    configure(scratch, pristine, {"vocab_size": 1 << 45})
    model, error = attempt(scratch)
    assert model is None
    assert error.kind == "model"
