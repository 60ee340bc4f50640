"""A small Llama with everything switched on that SmolLM2 lacks, made from a seed.

Grouped queries, llama3 rotary scaling, an untied head, a head size of its own, two shards, and
bfloat16 next to float32. Needs no transformers; the recorder and the tests build the same folder.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "vocab_size": 259,
    "bos_token_id": 256,
    "eos_token_id": [257, 258],
}


def weights(config=CONFIG, seed=11):
    """Float32 tensors by their Hugging Face names, all exact in bfloat16."""
    random = np.random.default_rng(seed)
    hidden, inner, size = (
        config["hidden_size"],
        config["intermediate_size"],
        config["vocab_size"],
    )
    wide = config["num_attention_heads"] * config["head_dim"]
    narrow = config["num_key_value_heads"] * config["head_dim"]

    def normal(*shape, scale, mean=0.0):
        values = (mean + random.standard_normal(shape) * scale).astype(np.float32)
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    tensors = {
        "model.embed_tokens.weight": normal(size, hidden, scale=0.5),
        "lm_head.weight": normal(size, hidden, scale=0.3),
        "model.norm.weight": normal(hidden, scale=0.1, mean=1.0),
    }
    for index in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{index}."
        for name, rows, columns in (
            ("self_attn.q_proj", wide, hidden),
            ("self_attn.k_proj", narrow, hidden),
            ("self_attn.v_proj", narrow, hidden),
            ("self_attn.o_proj", hidden, wide),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ):
            tensors[f"{prefix}{name}.weight"] = normal(rows, columns, scale=1.5 * columns**-0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = normal(hidden, scale=0.1, mean=1.0)
    return tensors


def write_tokenizer(folder: Path):
    """Byte-level, one token per byte, and three control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("<|begin|>", "<|end|>", "<|eot_id|>")
    tokenizer.add_special_tokens([AddedToken(n, special=True, normalized=False) for n in names])
    tokenizer.save(str(folder / "tokenizer.json"))


def write_folder(folder: Path, config=CONFIG, *, shards=2, bfloat16=False):
    """Write the model folder; `bfloat16` stores the matrices so."""
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = weights(config)
    names = sorted(tensors)
    if shards == 1:
        _save({name: tensors[name] for name in names}, folder / "model.safetensors", bfloat16)
        return
    places = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        _save(part, folder / file, bfloat16)
        places.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _save(tensors, file, bfloat16):
    if not bfloat16:
        save_file(tensors, file)
        return
    header, data = {}, b""
    for name, values in tensors.items():
        raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)
