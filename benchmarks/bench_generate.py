"""Decode speed with and without a schema, beside `transformers` on the same dequantised weights.

Every way of running gets the same prompt and writes as many tokens. Runs are interleaved,
so that a busy moment hits all of them; the median and the spread are reported. One JSON record is
appended to a file.

    python benchmarks/bench_generate.py --tokens 64 --runs 5 --out benchmarks/records.jsonl
"""

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from deepinfer_sdk import SamplingParams, Schema, Session
from deepinfer_sdk.hub import embedded_model_path

PROMPT = "Write a long list of whole numbers."
PACKAGES = ("deepinfer-sdk", "torch", "numpy", "tokenizers", "transformers", "gguf")


def deepinfer_runs(session, tokens):
    """Name to a function that returns (tokens per second, token count).

    Every run has a seed of its own, so that the text, and with it most states, are new each time.
    """
    integers = {"type": "integer", "minimum": 0}
    strings = {"type": "string", "minLength": 20, "maxLength": 60}

    def run(schema, **limits):
        seeds = iter(range(1, 1000))

        def measure():
            sampling = SamplingParams(temperature=1.0, seed=next(seeds), **limits)
            stream = session.stream(PROMPT, schema=schema, sampling=sampling)
            return timed((event.ids for event in stream if event.type == "text"), tokens)

        return measure

    runs = {"deepinfer": run(None, max_tokens=tokens, min_tokens=tokens, ignore_eos=True)}
    for name, items in (("integers", integers), ("strings", strings)):
        schema = Schema.json({"type": "array", "items": items, "minItems": tokens})
        budget = schema_budget(session, schema)
        runs[f"deepinfer, JSON Schema of {name}"] = run(schema, max_tokens=budget)
    return runs


def schema_budget(session, schema):
    """A budget that the schema's shortest output fits into with room to spare."""
    from deepinfer_sdk import BudgetTooSmall

    try:
        session.generate(PROMPT, schema=schema, sampling=SamplingParams(max_tokens=1))
    except BudgetTooSmall as error:
        return 2 * error.least
    return 1024


def timed(batches, tokens):
    """Tokens per second between the first and the last of `tokens` tokens."""
    count = 0
    started = first = 0.0
    for ids in batches:
        now = time.perf_counter()
        if count == 0:
            started, first = now, len(ids)
        count += len(ids)
        if count >= tokens:
            return (count - first) / (now - started), count
    raise RuntimeError(f"only {count} of {tokens} tokens came")


def transformers_run(path, prompt_ids, tokens):
    """The same for transformers, or None if it is not installed."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return None
    model = LlamaForCausalLM(LlamaConfig(**llama_config(path)))
    missing = model.load_state_dict(dequantised(path), strict=False)
    if missing.unexpected_keys or set(missing.missing_keys) - {"lm_head.weight"}:
        raise RuntimeError(f"the weights do not fit: {missing}")
    model.eval()
    ids = torch.tensor([prompt_ids])

    @torch.inference_mode()
    def measure():
        generator = torch.Generator().manual_seed(1)

        def steps():
            cache, step = None, ids
            for _ in range(tokens):
                out = model(step, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                weights = torch.softmax(out.logits[0, -1].float(), -1)
                step = torch.multinomial(weights, 1, generator=generator)[None]
                yield (int(step),)

        return timed(steps(), tokens)

    return measure


def llama_config(path):
    """The configuration in transformers' words, read from the GGUF file."""
    from gguf import GGUFReader

    fields = GGUFReader(path).fields

    def value(name):
        return fields[f"llama.{name}"].contents()

    heads = value("attention.head_count")
    return {
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base"),
        "max_position_embeddings": value("context_length"),
        "vocab_size": len(fields["tokenizer.ggml.tokens"].data),
        "tie_word_embeddings": True,
    }


def dequantised(path):
    """All weights in float32 under transformers' names."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    heads = reader.fields["llama.attention.head_count"].contents()
    kv_heads = reader.fields["llama.attention.head_count_kv"].contents()
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    outer = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    state = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            if parts[2] in {"attn_q", "attn_k"}:
                weight = unpermuted(weight, heads if parts[2] == "attn_q" else kv_heads)
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.weight"
        else:
            name = f"{outer[parts[0]]}.weight"
        state[name] = torch.from_numpy(np.ascontiguousarray(weight))
    return state


def unpermuted(weight, heads):
    """Undo the row order that GGUF uses for rotary embeddings."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def processor():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="append the record to this JSON-lines file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    with Session() as session:
        probe = session.generate(PROMPT, sampling=SamplingParams(max_tokens=1, seed=1))
        prompt_ids = list(probe.recipe.prompt_ids)
        runs = deepinfer_runs(session, arguments.tokens)
        other = transformers_run(embedded_model_path(), prompt_ids, arguments.tokens)
        if other is not None:
            runs["transformers, float32"] = other
        speeds = {name: [] for name in runs}
        for turn in range(arguments.runs + 1):  # the first turn warms up
            for name, measure in runs.items():
                gc.collect()
                speed, _ = measure()
                if turn:
                    speeds[name].append(speed)
        model = session.model

    record = {
        "subject": "decode, one request",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "model": model.name,
        "model_digest": model.digest,
        "device": f"{processor()}, {arguments.threads} threads",
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "prompt_tokens": len(prompt_ids),
        "tokens": arguments.tokens,
        "runs": arguments.runs,
        "tokens_per_second": {
            name: {
                "median": round(statistics.median(found), 2),
                "least": round(min(found), 2),
                "most": round(max(found), 2),
            }
            for name, found in speeds.items()
        },
    }
    for name, speed in record["tokens_per_second"].items():
        print(f"{name:28} {speed['median']:8.1f} tokens/s  ({speed['least']} to {speed['most']})")
    if other is None:
        print(f"{'transformers':28}   absent")
    if arguments.out:
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
