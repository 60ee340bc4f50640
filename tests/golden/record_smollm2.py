"""Record what `transformers` computes with the embedded model; run once, needs transformers.

    python tests/golden/record_smollm2.py MODEL.gguf

The oracle is independent of our loader: the tokenizer is built by transformers from vocabulary and
merges, and the model is `LlamaForCausalLM` in float32 with weights dequantised by the gguf package.
The prompts and texts are those of the files recorded before.
"""

import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import GPT2TokenizerFast, LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
TOKENS, LOGITS = HERE / "smollm2_tokens.json", HERE / "smollm2_logits.json"


def read(path):
    """Metadata and tensors of a GGUF file."""
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {tensor.name: tensor for tensor in reader.tensors}


def tokenizer_of(fields):
    """GPT-2's tokenizer class over the vocabulary, with SmolLM2's single digits in front."""
    texts = fields["tokenizer.ggml.tokens"]
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = json.dumps({text: index for index, text in enumerate(texts)})
        Path(folder, "vocab.json").write_text(vocabulary, encoding="utf-8")
        merges = "\n".join(["#version: 0.2", *fields["tokenizer.ggml.merges"]])
        Path(folder, "merges.txt").write_text(merges, encoding="utf-8")
        tokenizer = GPT2TokenizerFast.from_pretrained(folder)
    inner = tokenizer.backend_tokenizer
    digits = pre_tokenizers.Digits(individual_digits=True)
    inner.pre_tokenizer = pre_tokenizers.Sequence([digits, inner.pre_tokenizer])
    return tokenizer


def model_of(fields, tensors):
    """The float32 model."""

    def get(name):
        return fields[f"llama.{name}"]

    heads, kv = int(get("attention.head_count")), int(get("attention.head_count_kv"))
    config = LlamaConfig(
        vocab_size=int(get("vocab_size")),
        hidden_size=int(get("embedding_length")),
        intermediate_size=int(get("feed_forward_length")),
        num_hidden_layers=int(get("block_count")),
        num_attention_heads=heads,
        num_key_value_heads=kv,
        max_position_embeddings=int(get("context_length")),
        rms_norm_eps=float(get("attention.layer_norm_rms_epsilon")),
        rope_theta=float(get("rope.freq_base")),
        tie_word_embeddings=True,
    )

    def weight(name, rotary_heads=0):
        tensor = tensors[name]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if rotary_heads:  # GGUF interleaves the rotary pairs
            rows = values.shape[0]
            values = values.reshape(rotary_heads, rows // rotary_heads // 2, 2, -1)
            values = values.swapaxes(1, 2).reshape(rows, -1)
        return torch.from_numpy(np.ascontiguousarray(values))

    state = {
        "model.embed_tokens.weight": weight("token_embd.weight"),
        "model.norm.weight": weight("output_norm.weight"),
        "lm_head.weight": weight("token_embd.weight"),
    }
    sources = {
        "self_attn.q_proj": ("attn_q", heads),
        "self_attn.k_proj": ("attn_k", kv),
        "self_attn.v_proj": ("attn_v", 0),
        "self_attn.o_proj": ("attn_output", 0),
        "mlp.gate_proj": ("ffn_gate", 0),
        "mlp.up_proj": ("ffn_up", 0),
        "mlp.down_proj": ("ffn_down", 0),
        "input_layernorm": ("attn_norm", 0),
        "post_attention_layernorm": ("ffn_norm", 0),
    }
    for layer in range(config.num_hidden_layers):
        for name, (source, rotary) in sources.items():
            target = f"model.layers.{layer}.{name}.weight"
            state[target] = weight(f"blk.{layer}.{source}.weight", rotary)
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(state)
    return model


def chat_ids(tokenizer, prompt):
    """A user turn and the start of the answer; 1 and 2 are the control tokens of the template."""
    user = tokenizer.encode(f"user\n{prompt}", add_special_tokens=False)
    between = tokenizer.encode("\n", add_special_tokens=False)
    answer = tokenizer.encode("assistant\n", add_special_tokens=False)
    return [1, *user, 2, *between, 1, *answer]


def greedy(model, ids, count):
    """The next `count` tokens."""
    found, cache, feed = [], None, ids
    for _ in range(count):
        out = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        feed = [int(out.logits[0, -1].argmax())]
        found += feed
    return found


def main(path):
    """Write both golden files anew."""
    fields, tensors = read(path)
    tokenizer = tokenizer_of(fields)
    cases = json.loads(TOKENS.read_text(encoding="utf-8"))
    for case in cases:
        case["ids"] = tokenizer.encode(case["text"], add_special_tokens=False)
    TOKENS.write_text(json.dumps(cases, indent=1), encoding="utf-8")
    golden = json.loads(LOGITS.read_text(encoding="utf-8"))
    model = model_of(fields, tensors)
    with torch.inference_mode():
        for run in golden["runs"]:
            run["ids"] = chat_ids(tokenizer, run["prompt"])
            run["greedy"] = greedy(model, run["ids"], 64)
            if "columns" in run:
                logits = model(torch.tensor([run["ids"]])).logits[0]
                top = logits.topk(16)
                run["top_ids"] = top.indices.tolist()
                run["top_logits"] = [[round(v, 5) for v in row] for row in top.values.tolist()]
                columns = logits[:, golden["columns"]].tolist()
                run["columns"] = [[round(value, 5) for value in row] for row in columns]
    LOGITS.write_text(json.dumps(golden), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
