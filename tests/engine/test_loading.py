"""Models that cannot be loaded say which file and what is wrong; control texts stay text."""

import json
import shutil

import gguf
import numpy as np
import pytest
import torch
from deepinfer_engine import EngineError, load_model
from deepinfer_engine.llama import LlamaCache, LlamaModel, Rows
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from deepinfer_sdk.testing import write_tiny_model


@pytest.fixture
def folder(tmp_path):
    write_tiny_model(tmp_path, seed=1)
    return tmp_path


def edit(path, **changes):
    record = json.loads(path.read_text(encoding="utf-8"))
    record.update(changes)
    path.write_text(json.dumps(record), encoding="utf-8")


def refused(path, *words):
    with pytest.raises(EngineError) as caught:
        load_model(path)
    assert caught.value.kind == "model"
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return caught.value


def test_a_missing_file_is_named(folder, tmp_path):
    refused(tmp_path / "nowhere", "nowhere", "does not exist")
    (folder / "config.json").unlink()
    refused(folder, "config.json")


def test_missing_weights_name_both_spellings(folder):
    (folder / "model.safetensors").unlink()
    refused(folder, "model.safetensors", "index.json")


def test_truncated_weights_are_named(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(folder, "model.safetensors", "truncated")


def test_corrupt_header_and_json(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)
    refused(folder, "model.safetensors", "damaged")
    (folder / "config.json").write_text("{", encoding="utf-8")
    refused(folder, "config.json", "JSON")


def test_an_unknown_architecture_lists_the_known_ones(folder):
    edit(folder / "config.json", architectures=["MambaForCausalLM"])
    error = refused(folder, "MambaForCausalLM")
    assert "LlamaForCausalLM" in error.hint


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"num_key_value_heads": 3}, "3 kv heads"),
        ({"hidden_size": None}, "hidden_size"),
        ({"vocab_size": 100}, "tokenizer"),
    ],
)
def test_settings_that_are_not_supported_are_named(folder, change, word):
    edit(folder / "config.json", **change)
    refused(folder, word)


def test_wrong_shapes_and_missing_tensors_are_named(folder):
    edit(folder / "config.json", intermediate_size=64)
    refused(folder, "model.layers.0.mlp.gate_proj.weight", "64")
    edit(folder / "config.json", intermediate_size=128, num_hidden_layers=3)
    refused(folder, "model.layers.2.self_attn.q_proj.weight")


def test_a_missing_shard_is_named(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file(weights, folder / "model-00001-of-00002.safetensors")
    names = dict.fromkeys(weights, "model-00001-of-00002.safetensors")
    names["lm_head.weight"] = "model-00002-of-00002.safetensors"
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}), encoding="utf-8")
    refused(folder, "model-00002-of-00002.safetensors")


def test_a_damaged_tokenizer_is_named(folder):
    (folder / "tokenizer.json").write_text("[]", encoding="utf-8")
    refused(folder, "tokenizer.json")


def write_gguf(path, *, architecture="llama", kind=None, drop=None):
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in {"block_count": 0, "context_length": 64, "embedding_length": 32,
                        "feed_forward_length": 32}.items():  # fmt: skip
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_uint32(f"{architecture}.attention.head_count", 2)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["a", "b", "ab", "<|im_end|>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(3)
    table = np.ones((4, 32), np.float32)
    if kind == "Q2_K":
        writer.add_tensor(
            "token_embd.weight",
            np.zeros((4, 84), np.uint8),
            raw_dtype=gguf.GGMLQuantizationType.Q2_K,
        )
    else:
        writer.add_tensor("token_embd.weight", table)
    if drop != "norm":
        writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_faults_are_named(tmp_path):
    good = tmp_path / "good.gguf"
    write_gguf(good)
    assert load_model(good).tokenizer.eos_ids == (3,)
    other = tmp_path / "other.gguf"
    write_gguf(other, architecture="mamba")
    assert "llama" in refused(other, "other.gguf", "mamba", "architecture").hint
    missing = tmp_path / "missing.gguf"
    write_gguf(missing, drop="norm")
    refused(missing, "output_norm.weight")
    short = tmp_path / "short.gguf"
    short.write_bytes(good.read_bytes()[:-64])
    refused(short, "short.gguf")
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"PK\x03\x04" + good.read_bytes()[4:])
    refused(wrong, "wrong.gguf", "not a GGUF file")
    empty = tmp_path / "empty.gguf"
    empty.write_bytes(b"")
    refused(empty, "empty.gguf")


def test_an_unsupported_quantisation_lists_the_supported_ones(tmp_path):
    path = tmp_path / "q2.gguf"
    write_gguf(path, kind="Q2_K")
    with pytest.raises(EngineError) as caught:
        load_model(path)
    assert "token_embd.weight" in str(caught.value)


def test_progress_reaches_the_total(folder):
    seen = []
    load_model(folder, progress=lambda label, done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert 0.9 < seen[-1][0] / seen[-1][1] <= 1


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30) | st.sampled_from(["<|im_end|>", "a<|im_start|>b", "<|im_end"]))
def test_user_text_never_becomes_a_control_token_and_round_trips(tiny, text):
    ids = tiny.tokenizer.encode(text)
    assert all(tiny.tokenizer.token_bytes[i] is not None for i in ids)
    if not any(0xD800 <= ord(c) < 0xE000 for c in text):
        assert tiny.tokenizer.decode(ids) == text


def test_control_tokens_are_recognised_on_request(tiny):
    ids = tiny.tokenizer.encode("a<|im_end|>", parse_special=True)
    assert ids[-1] == tiny.tokenizer.eos_ids[0]
    assert tiny.tokenizer.decode(ids) == "a"


def reference_logits(weights, config, ids):
    """Llama in float64 NumPy, straight from the paper's formulas."""
    w = {name: tensor.double().numpy() for name, tensor in weights.items()}
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    dim, eps = config["head_dim"], config["rms_norm_eps"]
    frequency = config["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    scaling = config.get("rope_scaling")
    if scaling:
        wave = 2 * np.pi / frequency
        ratio = scaling["original_max_position_embeddings"] / wave
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = np.clip((ratio - low) / (high - low), 0, 1)
        frequency = frequency * (smooth + (1 - smooth) / scaling["factor"])
    angle = np.outer(np.arange(len(ids)), frequency)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name]

    def rotate(x):
        a, b = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)

    x = w["model.embed_tokens.weight"][ids]
    causal = np.where(np.tri(len(ids)) > 0, 0, -np.inf)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(x, p + "input_layernorm.weight")
        q, k, v = (
            (h @ w[f"{p}self_attn.{n}_proj.weight"].T).reshape(len(ids), -1, dim) for n in "qkv"
        )
        q, k = rotate(q), np.repeat(rotate(k), heads // kv, axis=1)
        v = np.repeat(v, heads // kv, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) * dim**-0.5 + causal
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", share, v).reshape(len(ids), -1)
        x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, p + "post_attention_layernorm.weight")
        gate, up = h @ w[p + "mlp.gate_proj.weight"].T, h @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return norm(x, "model.norm.weight") @ head.T


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scaled", [False, True])
def test_folders_of_every_type_compute_what_the_formulas_say(folder, tmp_path, kind, scaled):
    weights = {n: t.to(kind) for n, t in load_file(folder / "model.safetensors").items()}
    generator = torch.Generator().manual_seed(5)
    shape = weights["model.embed_tokens.weight"].shape
    weights["lm_head.weight"] = (torch.randn(shape, generator=generator) * 0.3).to(kind)
    target = tmp_path / "sharded"
    shutil.copytree(folder, target)
    (target / "model.safetensors").unlink()
    names = sorted(weights)
    where = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name].contiguous() for name in part}, target / file)
        where.update(dict.fromkeys(part, file))
    index = target / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    edit(
        target / "config.json", tie_word_embeddings=False, rope_scaling=scaling if scaled else None
    )
    model = load_model(target)
    ids = np.array([3, 17, 200, 5, 5, 90, 41, 8, 255, 100])
    rows = Rows(
        ids=ids,
        positions=np.arange(10),
        slots=np.arange(10),
        sequences=np.zeros(10, np.int64),
        tables=np.array([[0, 1, 2]]),
        wanted=np.arange(10),
    )
    logits = LlamaModel(model.config, model.weights, 16).forward(
        rows, LlamaCache(model.config, 3, 4)
    )
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    expected = reference_logits(weights, config, ids)
    assert np.abs(logits - expected).max() < 2e-5 * np.abs(expected).max() + 1e-4
