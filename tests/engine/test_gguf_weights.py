"""GGUF files of every supported kind compute what their dequantised weights compute."""

import gguf
import numpy as np
import pytest
from deepinfer_engine import EngineError, load_model
from deepinfer_engine.gguf_header import read_header
from deepinfer_engine.llama import LlamaCache, LlamaModel, Rows
from hypothesis import given, settings
from hypothesis import strategies as st

HIDDEN, INNER, HEADS, KV_HEADS, LAYERS, VOCAB = 64, 96, 4, 2, 2, 40
KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")
SHAPES = {
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
    "attn_v": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_gate": (INNER, HIDDEN),
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}


def interleaved(matrix, heads):
    """The row order of GGUF: the two rotary halves of each head take turns."""
    dim = len(matrix) // heads
    order = [h * dim + half * (dim // 2) + i
             for h in range(heads) for i in range(dim // 2) for half in (0, 1)]  # fmt: skip
    return matrix[order]


def random_weights(seed=3):
    random = np.random.default_rng(seed)
    weights = {}
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            values = random.standard_normal(shape) * 1.5 * shape[1] ** -0.5
            weights[f"blk.{layer}.{name}.weight"] = values.astype(np.float32)
        for name in ("attn_norm", "ffn_norm"):
            values = 1 + 0.1 * random.standard_normal(HIDDEN)
            weights[f"blk.{layer}.{name}.weight"] = values.astype(np.float32)
    weights["token_embd.weight"] = random.standard_normal((VOCAB, HIDDEN)).astype(np.float32)
    weights["output.weight"] = random.standard_normal((VOCAB, HIDDEN)).astype(np.float32)
    weights["output_norm.weight"] = np.ones(HIDDEN, np.float32)
    return weights


def write(path, weights, kinds, *, skip=(), **metadata):
    """Write a GGUF file; returns the weights as a reader would dequantise them.

    `weights` has rotary halves in the usual order; `kinds` is called with a matrix's name.
    """
    writer = gguf.GGUFWriter(path, "llama")
    sizes = {
        "block_count": LAYERS, "context_length": 64, "embedding_length": HIDDEN,
        "feed_forward_length": INNER, "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS, "vocab_size": VOCAB, **metadata,
    }  # fmt: skip
    for name, value in sizes.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*"abcdefghijklmnopqrstuvwxyz", "ab", "<|end|>"])
    writer.add_token_types([1] * 27 + [3])
    writer.add_token_merges(["a b"])
    exact = {}
    for name, values in weights.items():
        if name in skip:
            continue
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        stored = interleaved(values, heads) if heads else values
        if values.ndim == 1:
            writer.add_tensor(name, stored)
            exact[name] = values
            continue
        kind = gguf.GGMLQuantizationType[kinds(name)]
        data = gguf.quantize(stored, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        plain = gguf.dequantize(data, kind)
        if heads:  # back to halves, by the inverse of what was written
            back = np.empty_like(plain)
            back[interleaved(np.arange(len(plain)), heads)] = plain
            plain = back
        exact[name] = plain
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return exact


def logits_of(model):
    count = 12
    rows = Rows(
        ids=np.arange(count) * 7 % VOCAB,
        positions=np.arange(count),
        slots=np.arange(count),
        sequences=np.zeros(count, np.int64),
        tables=np.array([[0]]),
        wanted=np.arange(count),
    )
    return LlamaModel(model.config, model.weights, 16).forward(
        rows, LlamaCache(model.config, 1, 16)
    )


def test_kinds_compute_what_their_dequantised_weights_compute(tmp_path):
    for kind in KINDS:
        path, plain = tmp_path / f"{kind}.gguf", tmp_path / f"{kind}-plain.gguf"
        exact = write(path, random_weights(), lambda name, kind=kind: kind)
        write(plain, exact, lambda name: "F32")
        found, expected = logits_of(load_model(path)), logits_of(load_model(plain))
        assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max(), kind


def test_a_file_of_mixed_kinds(tmp_path):
    """Fused matrices of different kinds too."""
    mixed = {"attn_q": "Q4_0", "attn_k": "Q8_0", "attn_v": "F16", "ffn_gate": "Q4_1",
             "ffn_up": "Q4_1", "ffn_down": "Q8_0", "attn_output": "BF16"}  # fmt: skip
    path, plain = tmp_path / "mixed.gguf", tmp_path / "plain.gguf"
    exact = write(path, random_weights(), lambda name: mixed.get(name.split(".")[-2], "Q4_0"))
    write(plain, exact, lambda name: "F32")
    found, expected = logits_of(load_model(path)), logits_of(load_model(plain))
    assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max()


def test_without_a_head_the_embedding_is_the_head(tmp_path):
    weights = random_weights()
    tied, untied = tmp_path / "tied.gguf", tmp_path / "untied.gguf"
    write(tied, weights, lambda name: "Q8_0", skip=("output.weight",))
    write(untied, {**weights, "output.weight": weights["token_embd.weight"]}, lambda name: "Q8_0")
    tied_model = load_model(tied)
    assert tied_model.weights.head is tied_model.weights.embedding
    assert (logits_of(tied_model) == logits_of(load_model(untied))).all()


def test_frequency_factors_stretch_the_rotary_embedding(tmp_path):
    """Frequencies that are all halved move as fast as positions that are all halved."""
    plain, slow = tmp_path / "plain.gguf", tmp_path / "slow.gguf"
    factors = np.full(HIDDEN // HEADS // 2, 2.0, np.float32)
    write(plain, random_weights(), lambda name: "F32")
    write(slow, random_weights() | {"rope_freqs.weight": factors}, lambda name: "F32")
    tables = [
        LlamaModel(load_model(path).config, load_model(path).weights, 32)._tables
        for path in (plain, slow)
    ]
    for normal, stretched in zip(*tables, strict=True):
        assert (stretched[::2] == normal[:16]).all()
        assert (stretched[1] != normal[1]).any()


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ("blk.0.attn_q.bias", "blk.0.attn_q.bias"),
        ("blk.1.ffn_gate_inp.weight", "ffn_gate_inp"),
        ("rope_freqs.weight", r"rope_freqs.weight .*\[64\], expected \[8\]"),
    ],
)
def test_tensors_that_would_change_the_model_are_refused(tmp_path, extra, word):
    weights = random_weights() | {extra: np.ones(HIDDEN, np.float32)}
    path = tmp_path / "extra.gguf"
    write(path, weights, lambda name: "F32")
    with pytest.raises(EngineError, match=word) as caught:
        load_model(path)
    assert caught.value.kind == "model"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"feed_forward_length": 128}, r"blk\.0\.ffn_gate\.weight .*\[96, 64\], expected \[128"),
        ({"attention.head_count_kv": 3}, "4 heads over 3 kv heads"),
        ({"block_count": 3}, r"lacks the tensor blk\.2"),
        ({"block_count": 1}, r"blk\.1\..* which a Llama model does not have"),
        ({"context_length": 0}, "max_len is 0"),
        ({"vocab_size": 20}, "28 token ids, the model only 20"),
    ],
)
def test_metadata_that_does_not_fit_is_named(tmp_path, metadata, words):
    path = tmp_path / "wrong.gguf"
    write(path, random_weights(), lambda name: "F32", **metadata)
    with pytest.raises(EngineError, match=words) as caught:
        load_model(path)
    assert caught.value.kind == "model"
    assert "wrong.gguf" in str(caught.value) or "tokenizer" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_file_cut_anywhere_is_refused(tmp_path, share):
    path = tmp_path / "cut.gguf"
    write(path, random_weights(), lambda name: "Q4_1")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(EngineError, match=r"cut\.gguf") as caught:
        load_model(path)
    assert caught.value.kind == "model"


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    write(path, random_weights(), lambda name: "Q8_0")
    return path


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 3200), st.integers(0, 255), st.integers(1, 9))
def test_changed_bytes_are_refused_or_make_another_model(small_file, at, value, count):
    """Nothing but our own error comes out of a header that lies."""
    data = small_file.read_bytes()
    path = small_file.with_name("changed.gguf")
    path.write_bytes(data[:at] + bytes([value]) * count + data[at + count :])
    refused = None
    try:
        load_model(path)
    except EngineError as error:
        refused = error
    if refused is not None:
        assert refused.kind in ("model", "memory")
        assert refused.hint


def test_the_header_is_read_as_the_gguf_package_reads_it(smollm2_path):
    fields, tensors = read_header(smollm2_path)
    reader = gguf.GGUFReader(smollm2_path)
    names = ("general.architecture", "llama.rope.freq_base", "tokenizer.ggml.merges",
             "tokenizer.ggml.token_type", "llama.block_count")  # fmt: skip
    for name in names:
        assert fields[name] == reader.fields[name].contents()
    for tensor in reader.tensors[:40]:
        mine = tensors[tensor.name]
        assert (list(mine.shape), mine.kind) == (
            tensor.shape.tolist()[::-1],
            tensor.tensor_type.name,
        )
        assert mine.data.tobytes() == tensor.data.tobytes()
