"""The fused sampler on a GPU: equality with the NumPy reference first, then times.

Usage: PYTHONPATH=.:kernels python benchmarks/bench_sampler.py [--quick] [--flashinfer LIBRARY]
    [--out FOLDER]

Checks over a million rows, counts draws against softmax, records a file of cases for replay on a
CPU, and appends one JSON line of measurements. Exits with an error, before any timing, if a single
row differs.
"""

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import torch
import triton
from deepinfer_kernels.gpu.sampler import SampleOutput, SamplerPlan, SamplerWorkspace, sample
from deepinfer_kernels.gpu.sampler_rows import RowParams, pack_rows
from deepinfer_kernels.sampler_types import SamplerParams

from benchmarks import sampler_timing
from benchmarks.gpu_record import append_record, new_record
from benchmarks.sampler_cases import expected, make_case, make_tables, pack_cases

CHECKED = {50: 984_000, 32_000: 8_000, 49_152: 4_000, 129_280: 4_000}
"""Rows compared with the reference, by vocabulary; a million in all."""
RECORDED = {50: 240, 1_000: 60, 32_000: 12}
BATCHES = (1, 16, 64, 128, 256)
TARGETS_US = {1: 25, 16: 30, 64: 40, 128: 50, 256: 90}
DTYPES = ("float32", "bfloat16", "float16")


@cache
def tables_of(vocab_size):
    return make_tables(vocab_size)


def reference_chunk(job):
    """Packed rows of a chunk, by dtype, and what the reference says; runs in a worker process."""
    vocab_size, first, last = job
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    packed = []
    cases = [make_case(vocab_size, index) for index in range(first, last)]
    for dtype in DTYPES:
        chosen = [i for i, case in enumerate(cases) if case.dtype == dtype]
        if chosen:
            of_dtype = [cases[i] for i in chosen]
            logits, rows = pack_cases(of_dtype, vocab_size, "cpu")
            wanted = np.array([expected(case, tables_of(vocab_size)) for case in of_dtype])
            arrays = [value.numpy() for value in vars(rows).values()]
            packed.append((dtype, np.array(chosen) + first, logits.float().numpy(), arrays, wanted))
    return vocab_size, packed


def run_packed(vocab_size, dtype, logits, arrays, tables, workspaces):
    """int64 [n, 3]: token, next state and status from the kernels."""
    workspace = workspaces.get(vocab_size)
    if workspace is None or workspace.rows < len(logits):
        workspace = workspaces[vocab_size] = SamplerWorkspace(
            max(64, len(logits)), vocab_size, "cuda", capacity=256 if vocab_size < 40_000 else 2048
        )
    out = SampleOutput.allocate(len(logits), "cuda")
    rows = RowParams(*(torch.from_numpy(value).cuda() for value in arrays))
    # A fixed granule, so that everything is compiled ahead whatever the batch.
    plan = SamplerPlan(granule=256 if vocab_size < 40_000 else 512 + 512 * (vocab_size > 2**16))
    device_logits = torch.from_numpy(logits).cuda().to(getattr(torch, dtype))
    sample(device_logits, rows, tables, out, workspace, plan)
    return torch.stack([out.token, out.next_state, out.status], 1).cpu().numpy().astype(np.int64)


def compile_ahead(job):
    """Fill the cache of compiled kernels from a worker process: compiling is what takes long."""
    kind, vocab_size, choice = job
    if kind == "check":
        _, packed = reference_chunk((vocab_size, 0, 60))
        tables = tables_of(vocab_size).to("cuda")
        for dtype, _, logits, arrays, _ in packed:
            if dtype == choice:
                run_packed(vocab_size, dtype, logits, arrays, tables, {})
    else:
        sampler_timing.compile_ahead(vocab_size, choice)
    torch.cuda.synchronize()


def check(pool, scale):
    """Compare with the reference; returns counts, raises at the first difference."""
    device_tables = {v: tables_of(v).to("cuda") for v in CHECKED}
    workspaces = {}
    jobs = []
    for vocab_size, rows in CHECKED.items():
        step = 2_000 if vocab_size == 50 else 64
        count = max(step, rows // scale)
        jobs += [(vocab_size, at, min(at + step, count)) for at in range(0, count, step)]
    compared, statuses, wrong = Counter(), Counter(), 0
    shown = time.perf_counter()
    for vocab_size, packed in pool.imap_unordered(reference_chunk, jobs):
        for dtype, indices, logits, arrays, wanted in packed:
            got = run_packed(
                vocab_size, dtype, logits, arrays, device_tables[vocab_size], workspaces
            )
            compared[vocab_size] += len(indices)
            statuses.update(wanted[:, 2].tolist())
            for i in np.flatnonzero((got != wanted).any(axis=1)):
                wrong += 1
                if wrong <= 10:
                    params = make_case(vocab_size, int(indices[i])).params
                    print("differs:", vocab_size, indices[i], dtype, wanted[i], got[i], params)
        if time.perf_counter() - shown > 5:
            shown = time.perf_counter()
            print(f"compared {dict(compared)}", flush=True)
    if wrong:
        sys.exit(f"{wrong} of {sum(compared.values())} rows differ from the reference")
    return compared, statuses


def record_cases(path):
    """Tokens, states and statuses of this device for rows that anyone can make again."""
    device = torch.cuda.get_device_name()
    lines: list[list[int]] = []
    for vocab_size, rows in RECORDED.items():
        _, packed = reference_chunk((vocab_size, 0, rows))
        tables = tables_of(vocab_size).to("cuda")
        for dtype, indices, logits, arrays, _ in packed:
            got = run_packed(vocab_size, dtype, logits, arrays, tables, {})
            lines += [
                [vocab_size, index, *result]
                for index, result in zip(indices.tolist(), got.tolist(), strict=True)
            ]
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    body = {"device": device, "versions": versions, "date": datetime.now(UTC).date().isoformat()}
    text = ",\n".join(json.dumps(line) for line in lines)
    path.write_text(f'{json.dumps(body)[:-1]}, "rows": [\n{text}\n]}}\n')


def chi_square(draws=1_000_000):
    """Statistic and limit (upper 1e-6 quantile) of draws at several temperatures and cuts."""
    size, batch = 24, 50_000
    x = np.random.default_rng(5).standard_normal(size).astype(np.float32) * 2
    logits = torch.from_numpy(np.tile(x, (batch, 1))).cuda()
    workspace = SamplerWorkspace(batch, size, "cuda")
    out = SampleOutput.allocate(batch, "cuda")
    found = {}
    for params in (
        SamplerParams(seed=1),
        SamplerParams(seed=2, temperature=0.6),
        SamplerParams(seed=3, temperature=1.7),
        SamplerParams(seed=4, top_p=0.9),
        SamplerParams(seed=5, top_k=9, temperature=1.4),
        SamplerParams(seed=6, min_p=0.05),
    ):
        counts = np.zeros(size, dtype=np.int64)
        rows = pack_rows([params] * batch, range(batch), device="cuda")
        for _ in range(draws // batch):
            sample(logits, rows, None, out, workspace)
            counts += np.bincount(out.token.cpu().numpy(), minlength=size)
            rows.position.add_(batch)
        p = np.exp(x.astype(np.float64) / params.temperature)
        kept = np.zeros(size, dtype=bool)
        order = np.lexsort((np.arange(size), -x))
        if params.top_k:
            order = order[: params.top_k]
        mass = np.cumsum(p[order]) / p[order].sum()
        order = order[: int(np.searchsorted(mass, params.top_p)) + 1]
        kept[order] = p[order] >= params.min_p * p.max()
        assert counts[~kept].sum() == 0, "a token outside the cuts was drawn"
        want = np.where(kept, p, 0) / p[kept].sum() * draws
        statistic = float(((counts[kept] - want[kept]) ** 2 / want[kept]).sum())
        freedom = int(kept.sum()) - 1
        limit = freedom * (1 - 2 / (9 * freedom) + 4.7534 * math.sqrt(2 / (9 * freedom))) ** 3
        if statistic > limit:
            sys.exit(f"chi-square {statistic:.1f} exceeds {limit:.1f} for {params}")
        found[f"T={params.temperature} k={params.top_k} p={params.top_p} min={params.min_p}"] = (
            round(statistic, 1),
            round(limit, 1),
        )
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--profile", action="store_true", help="times per kernel, granule sizes")
    parser.add_argument("--flashinfer", type=Path, help="library of flashinfer_sampling.py")
    parser.add_argument("--out", type=Path, default=Path("benchmarks"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    result = new_record("sampler")
    began = time.perf_counter()
    context = multiprocessing.get_context("spawn")  # a fork after CUDA has started would break
    jobs = [("time", batch, granule) for batch, granule in sampler_timing.CONFIGURATIONS]
    jobs = [] if options.no_time else jobs
    if not options.no_check:
        jobs += [("check", v, dtype) for v in (*CHECKED, 1_000, 24) for dtype in DTYPES]
    with context.Pool(min(16, len(jobs)), maxtasksperchild=1) as pool:
        pool.map(compile_ahead, jobs, chunksize=1)
    print(f"compiling took {time.perf_counter() - began:.0f} s", flush=True)
    if not options.no_check:
        began = time.perf_counter()
        with context.Pool(15) as pool:
            compared, statuses = check(pool, 10 if options.quick else 1)
        result["rows_equal_to_reference"] = dict(compared)
        result["statuses"] = dict(statuses)
        print(f"equal: {dict(compared)} statuses {dict(statuses)}", flush=True)
        record_cases(options.out / "sampler_h200.json")
        result["chi_square"] = chi_square(200_000 if options.quick else 1_000_000)
        print(f"chi-square: {result['chi_square']}", flush=True)
        result["check_s"] = round(time.perf_counter() - began, 1)
        print(f"checks took {result['check_s']} s", flush=True)
    if options.profile:
        sampler_timing.profile()
    if options.no_time:
        return
    result["microseconds"] = sampler_timing.measure(BATCHES, TARGETS_US, options.flashinfer)
    append_record(options.out, result)


if __name__ == "__main__":
    main()
