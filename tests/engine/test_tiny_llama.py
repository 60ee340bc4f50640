"""A Llama folder with grouped queries, llama3 rotary scaling and an untied head.

Against what transformers computed with the same weights (tests/golden/record_tiny_llama.py).
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from deepinfer_engine import Engine, EngineConfig, GenerationRequest, load_model
from deepinfer_engine.llama import LlamaCache, LlamaModel, Rows
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import collect

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="module")
def tiny_llama():
    spec = importlib.util.spec_from_file_location("tiny_llama", GOLDEN / "tiny_llama.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded():
    with np.load(GOLDEN / "tiny_llama.npz") as file:
        return dict(file)


def all_logits(model, ids, *, chunk=None):
    """Logits at every position, the ids fed in chunks."""
    length, block = len(ids), 16
    blocks = -(-length // block)
    forward, cache = LlamaModel(model.config, model.weights, length), None
    cache = LlamaCache(model.config, blocks + 1, block)
    table = np.arange(blocks, 0, -1)  # blocks in reverse, and one that stays unused
    parts = []
    for start in range(0, length, chunk or length):
        positions = np.arange(start, min(start + (chunk or length), length))
        count = len(positions)
        slots = table[positions // block] * block + positions % block
        rows = Rows(
            ids=np.asarray(ids)[positions],
            positions=positions,
            slots=slots,
            sequences=np.zeros(count, np.int64),
            tables=table[None],
            wanted=np.arange(count),
        )
        parts.append(forward.forward(rows, cache))
    return np.concatenate(parts)


@pytest.mark.parametrize(("shards", "bfloat16"), [(1, False), (2, False), (3, True)])
def test_logits_equal_those_of_transformers(tmp_path, tiny_llama, recorded, shards, bfloat16):
    tiny_llama.write_folder(tmp_path, shards=shards, bfloat16=bfloat16)
    logits = all_logits(load_model(tmp_path), recorded["ids"])
    assert np.abs(logits[::9] - recorded["logits"]).max() < 2e-4
    assert (logits[::9].argmax(axis=1) == recorded["logits"].argmax(axis=1)).all()


def test_greedy_tokens_equal_those_of_transformers(tmp_path, tiny_llama, recorded):
    tiny_llama.write_folder(tmp_path)
    engine = Engine(load_model(tmp_path), EngineConfig(threads=1))
    request = GenerationRequest(
        tuple(recorded["ids"][:20].tolist()),
        SamplerParams(temperature=0.0),
        max_tokens=len(recorded["greedy"]),
        ignore_eos=True,
    )
    (end,) = collect(engine.submit(request))[1]
    engine.close()
    assert end.ids == tuple(recorded["greedy"].tolist())


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_bits_do_not_depend_on_the_chunks(tmp_path, tiny_llama, recorded, chunk):
    tiny_llama.write_folder(tmp_path)
    model = load_model(tmp_path)
    ids = recorded["ids"][:150]
    assert (all_logits(model, ids, chunk=chunk) == all_logits(model, ids)).all()


def test_end_of_text_ids_come_from_config_and_template(tmp_path, tiny_llama):
    tiny_llama.write_folder(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [258, 256]}')
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}<|eot_id|>")
    model = load_model(tmp_path)
    assert model.tokenizer.eos_ids == (257, 258, 256)
    assert model.chat_template == "{{ messages }}<|eot_id|>"


def test_a_tensor_that_a_llama_does_not_have_is_refused(tmp_path, tiny_llama):
    from deepinfer_engine import EngineError
    from safetensors.numpy import save_file

    tiny_llama.write_folder(tmp_path, shards=1)
    tensors = tiny_llama.weights()
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(192, np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(EngineError, match=r"q_proj\.bias") as caught:
        load_model(tmp_path)
    assert caught.value.kind == "model"
