"""Decode speed on a GPU with every request constrained, beside the same without constraints.

Usage: PYTHONPATH=.:engine:kernels:grammars python benchmarks/bench_constrained.py [--out FOLDER]

A Llama of 1.5 B random parameters (the shape of Llama 3.2 1B with the DeepSeek vocabulary and a
head of its own) decodes in the engine; runs with and without constraints take turns. "shared" is
one constraint for all requests, "own" another one for each. Every text of a constrained run is
checked against Python's `re` afterwards.
"""

import argparse
import cProfile
import pstats
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from deepinfer_engine import Engine, EngineConfig, FinishEvent, GenerationRequest
from deepinfer_engine.llama import LlamaConfig, LlamaLayer, LlamaWeights
from deepinfer_engine.loop import TokenTable
from deepinfer_engine.torch_executor import TorchExecutor
from deepinfer_engine.torch_llama import TorchLlama
from deepinfer_grammars import Expansion, TokenAutomaton, Vocabulary, compile_regex
from deepinfer_kernels.cpu import Weight
from deepinfer_kernels.sampling import SamplerParams

from benchmarks.gpu_record import append_record, new_record
from benchmarks.grammar_libraries import tokenizer_of

BATCHES = (1, 32, 256)
LENGTH = 1024
BLOCK = 64
LINE = (
    r'(\{"id": [0-9]{1,6}, "level": "(info|warning|error)", "message": "[A-Za-z0-9 .,_-]{0,32}", '
    r'"source": "NAME", "ok": (true|false)\}\n)+'
)
"""Lines of JSON; they go on for as long as a request may not end."""


def model_of(vocab_size):
    """Random weights; layers hold equal values in memory of their own."""
    rng = np.random.default_rng(1)

    def matrix(rows, columns, scale):
        return Weight.from_float32(
            rng.standard_normal((rows, columns), np.float32) * np.float32(scale)
        ).tile()

    config = LlamaConfig(
        vocab_size=vocab_size, hidden=2048, inner=8192, layers=16, heads=32, kv_heads=8,
        head_dim=64, norm_eps=1e-5, rope_theta=5e5, rope_scaling=None, max_len=LENGTH,
    )  # fmt: skip
    ones = np.ones(2048, np.float32)
    layer = LlamaLayer(
        ones, matrix(3072, 2048, 0.02), matrix(2048, 2048, 0.02), ones,
        matrix(16384, 2048, 0.02), matrix(2048, 8192, 0.02),
    )  # fmt: skip
    # The head is scaled so that few tokens hold most of the mass, as in a trained model.
    weights = LlamaWeights(
        matrix(vocab_size, 2048, 0.02), (layer,) * 16, ones, matrix(vocab_size, 2048, 0.08)
    )
    blocks = max(BATCHES) * LENGTH // BLOCK
    return TorchLlama(config, weights, LENGTH, blocks, BLOCK, torch.device("cuda")), blocks


class Bench:
    """An engine over the model, and runs of it."""

    def __init__(self):
        tokenizer = tokenizer_of("deepseek")
        table = TokenTable(tokenizer.token_bytes, tokenizer.eos_ids)
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)
        model, blocks = model_of(len(table.token_bytes))
        config = EngineConfig(max_slots=max(BATCHES), block_tokens=BLOCK, max_step_tokens=4096)
        self.executor = TorchExecutor(model, config, table)
        self.engine = Engine.over(self.executor, table, config, num_blocks=blocks, max_len=LENGTH)
        self.seed = 0

    def constraints(self, kind, batch):
        """(pattern, automaton) of each request, expanded ahead as on creation of a session's."""
        names = ["main"] if kind == "shared" else [f"service {i}" for i in range(batch)]
        found = []
        for name in names:
            pattern = LINE.replace("NAME", name)
            automaton = TokenAutomaton(compile_regex(pattern), self.vocabulary)
            Expansion(automaton).wait()
            found.append((pattern, automaton))
        return found * (batch // len(found))

    def run(self, batch, tokens, constraints, profile=False):
        """Tokens per second while all requests decode."""
        prompt = tuple(self.tokenizer.encode("Write a log of what the services did today."))
        handles = []
        for i in range(batch):
            self.seed += 1
            request = GenerationRequest(
                prompt_ids=prompt,
                sampling=SamplerParams(seed=self.seed, top_p=0.95),
                max_tokens=LENGTH - len(prompt),
                min_tokens=LENGTH - len(prompt) - 1,
                constraint=constraints[i][1] if constraints else None,
            )
            handles.append(self.engine.submit(request))
        start = self.engine.stats().output_tokens
        warm = batch * 24

        def reach(count):
            while self.engine.stats().output_tokens - start < count:
                time.sleep(0.001)
            return time.perf_counter(), self.engine.stats().output_tokens

        began, first = reach(warm)
        ended, last = reach(warm + batch * tokens)
        for handle in handles:
            handle.cancel()
        texts = []
        for handle in handles:
            while not isinstance(event := handle.next_event(timeout=60), FinishEvent):
                pass
            texts.append(event.text)
        if constraints:
            for text, (pattern, _) in zip(texts, constraints, strict=True):
                complete = text[: text.rfind("\n") + 1]
                if complete and not re.fullmatch(pattern, complete):
                    sys.exit(f"a text does not match {pattern}: {complete!r}")
        return (last - first) / (ended - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks"))
    parser.add_argument("--tokens", type=int, default=128, help="tokens per request and run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="where the host's time goes")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    began = time.perf_counter()
    bench = Bench()
    print(f"the model took {time.perf_counter() - began:.0f} s", flush=True)
    found = {}
    for batch in BATCHES:
        kinds = {kind: bench.constraints(kind, batch) for kind in ("shared", "own")}
        kinds = {"without": None, **kinds}
        speeds = {kind: [] for kind in kinds}
        before = bench.executor.stats()
        for constraints in kinds.values():  # warm
            bench.run(batch, 16, constraints)
        warm = bench.executor.stats()
        for _ in range(options.runs):
            for kind, constraints in kinds.items():
                speeds[kind].append(bench.run(batch, options.tokens, constraints))
        after = bench.executor.stats()
        ratios = {
            kind: round(
                statistics.median(
                    a / b for a, b in zip(speeds[kind], speeds["without"], strict=True)
                ),
                4,
            )
            for kind in ("shared", "own")
        }
        found[batch] = {
            "tokens_per_s": {
                kind: [round(float(q), 1) for q in np.percentile(values, [25, 50, 75])]
                for kind, values in speeds.items()
            },
            "ratio": ratios,
            "misses": [warm.misses - before.misses, after.misses - warm.misses],
            "rows_built": after.rows_built,
            "rows_uploaded": after.rows_uploaded,
        }
        print(batch, found[batch], flush=True)
    if options.profile:
        for kind in ("without", "shared"):
            constraints = bench.constraints("shared", 256) if kind == "shared" else None
            profiler = cProfile.Profile()
            turn = bench.engine._loop.turn
            bench.engine._loop.turn = lambda turn=turn, p=profiler: p.runcall(turn)
            bench.run(256, 64, constraints)
            bench.engine._loop.turn = turn
            print(kind)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
    bench.engine.close()
    result = new_record("constrained decoding") | {
        "tokens": options.tokens,
        "runs": options.runs,
        "batches": found,
    }
    append_record(options.out, result)


if __name__ == "__main__":
    main()
