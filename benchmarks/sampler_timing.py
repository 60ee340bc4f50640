"""Times of the fused sampler, of one plain read of the logits, and of a torch pipeline.

Every figure is a CUDA graph of several calls over different logits (more than the second-level
cache holds), replayed and timed with events: microseconds per call, median and quartiles.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from deepinfer_kernels.gpu.sampler import SampleOutput, SamplerPlan, SamplerWorkspace, sample
from deepinfer_kernels.gpu.sampler_rows import STATE, pack_rows
from deepinfer_kernels.sampler_types import SamplerParams

from benchmarks.flashinfer_sampling import FlashInfer

VOCAB = 129_280
ROTATED_BYTES = 300 << 20
WORKLOADS = ("zipf", "normal3", "normal1")


CONFIGURATIONS = tuple((batch, granule) for granule in (256, 512, 1024) for batch in (4, 64))
"""(batch, granule) pairs that cover what is compiled for the measurements."""


def make_logits(workload, batch):
    """float32 [batch, V]: like a language model's (zipf), or normal with deviation 3 or 1."""
    if workload == "zipf":
        rank = torch.argsort(torch.rand(batch, VOCAB, device="cuda"), dim=1)
        noise = torch.randn(batch, VOCAB, device="cuda") * 0.3
        return (-1.3 * torch.log(rank.float() + 1) + noise).contiguous()
    return torch.randn(batch, VOCAB, device="cuda") * (3.0 if workload == "normal3" else 1.0)


def mask_tables(rows):
    """Tables in which state s + 1 allows a random half of the tokens."""
    words = (VOCAB + 31) // 32
    packed = torch.randint(-(1 << 31), (1 << 31) - 1, (rows, words), device="cuda").int()
    one = torch.zeros(1, dtype=torch.int32, device="cuda")
    return AutomatonTables(
        byte_class=torch.zeros((1, 256), dtype=torch.uint8, device="cuda"),
        state_automaton=torch.zeros(rows + 1, dtype=torch.int32, device="cuda"),
        state_edges=torch.zeros(rows + 1, dtype=torch.int32, device="cuda"),
        edges=one + 1,
        state_fewest=torch.ones(rows + 1, dtype=torch.int32, device="cuda"),
        state_row=torch.arange(-1, rows, dtype=torch.int32, device="cuda"),
        state_enough=torch.zeros(rows + 1, dtype=torch.int32, device="cuda"),
        rows=packed,
        token_start=torch.arange(VOCAB + 1, dtype=torch.int32, device="cuda") * 4,
        token_bytes=torch.zeros(VOCAB * 4 + 4, dtype=torch.uint8, device="cuda"),
        eos=torch.zeros(words, dtype=torch.int32, device="cuda"),
    )


@triton.jit
def _read(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.max(tl.load(x + at, mask=at < n, other=0.0), axis=0))


def quartiles(calls, replays=25):
    """Microseconds per call of functions captured one after the other in a graph."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for _ in range(replays + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(calls))
    low, middle, high = np.percentile(times[3:], [25, 50, 75])
    return [round(float(value), 2) for value in (low, middle, high)]


def buffers_of(workload, batch):
    count = max(4, min(64, ROTATED_BYTES // (batch * VOCAB * 4)))
    return [make_logits(workload, batch) for _ in range(count)]


def sampler_calls(buffers, params, masked, plan, tables):
    batch = len(buffers[0])
    workspace = SamplerWorkspace(batch, VOCAB, "cuda")
    out = SampleOutput.allocate(batch, "cuda")
    calls = []
    for number, logits in enumerate(buffers):
        rows = pack_rows(
            [params] * batch, range(number * batch, (number + 1) * batch), device="cuda"
        )
        if masked:
            rows.column(STATE).copy_(torch.arange(1, batch + 1, dtype=torch.int32))
        calls.append(
            lambda logits=logits, rows=rows: sample(
                logits, rows, tables if masked else None, out, workspace, plan
            )
        )
    return calls


def read_calls(buffers):
    size = buffers[0].numel()
    blocks = triton.cdiv(size, 8192)
    out = torch.empty(blocks, device="cuda")
    return [lambda x=x: _read[(blocks,)](x, out, size, 8192, num_warps=8) for x in buffers]


def torch_calls(buffers):
    """Mask, softmax, sort, top-p, draw, as written with library operations."""
    allowed = torch.rand(len(buffers[0]), VOCAB, device="cuda") < 0.5

    def call(logits):
        probs = torch.softmax(logits.masked_fill(~allowed, float("-inf")), dim=-1)
        ordered, ids = torch.sort(probs, dim=-1, descending=True)
        cut = torch.cumsum(ordered, dim=-1) - ordered >= 0.95
        ordered = ordered.masked_fill(cut, 0.0)
        noise = torch.empty_like(ordered).exponential_()
        return ids.gather(1, (ordered / noise).argmax(dim=-1, keepdim=True))

    return [lambda x=x: call(x) for x in buffers]


def flashinfer_calls(library, buffers):
    """Softmax and top-p draw; no mask, no top-k."""
    draw = FlashInfer(library)
    return [lambda x=x, at=at: draw(x, 0.95, 3, at) for at, x in enumerate(buffers)]


def compile_ahead(batch, granule):
    """Compile the sampler for a granule size as the measurements use it."""
    tables = mask_tables(batch)
    logits = [make_logits("normal1", batch)]
    params = SamplerParams(top_p=0.95)
    plan = SamplerPlan(penalties=False, lists=False, granule=granule)
    for masked in (True, False):
        for call in sampler_calls(logits, params, masked, plan, tables):
            call()


def measure(batches, targets, flashinfer=None):
    """Table of quartiles in microseconds: case, then batch.

    Args:
        batches: rows per call.
        targets: microseconds by batch, printed beside.
        flashinfer: library made by `flashinfer_sampling.py`, or None.
    """
    plan = SamplerPlan(penalties=False, lists=False)
    plain = SamplerPlan(cuts=False, penalties=False, lists=False)
    tables = mask_tables(max(batches))
    found = {}

    def note(name, batch, calls, target=None):
        found.setdefault(name, {})[batch] = quartiles(calls)
        print(f"{name:34s} batch {batch:4d} {found[name][batch]} target {target}", flush=True)

    for batch in batches:
        for workload in WORKLOADS:
            buffers = buffers_of(workload, batch)
            top_p = SamplerParams(top_p=0.95, seed=3)
            calls = sampler_calls(buffers, top_p, True, plan, tables)
            note(f"mask, top-p 0.95, {workload}", batch, calls, targets[batch])
        calls = sampler_calls(buffers, SamplerParams(seed=3), False, plain, tables)
        note("no cuts", batch, calls)
        note("read once", batch, read_calls(buffers))
        greedy = SamplerParams(temperature=0)
        note("greedy", batch, sampler_calls(buffers, greedy, False, plain, tables))
        calls = sampler_calls(
            buffers_of("zipf", batch), SamplerParams(top_k=50, top_p=0.95), True, plan, tables
        )
        note("mask, top-k 50, top-p 0.95, zipf", batch, calls)
        note("torch: mask, sort, top-p, draw", batch, torch_calls(buffers[:4]))
        if flashinfer:
            for workload in WORKLOADS:
                calls = flashinfer_calls(flashinfer, buffers_of(workload, batch))
                note(f"flashinfer: softmax, top-p, {workload}", batch, calls)
    return found


def profile():
    """Print the time of each kernel and of each granule size."""
    tables = mask_tables(256)
    for batch in (1, 16, 64, 256):
        for workload in ("zipf", "normal1"):
            buffers = buffers_of(workload, batch)
            for granule in (256, 512) if batch < 64 else (512, 1024):
                plan = SamplerPlan(penalties=False, lists=False, granule=granule)
                params = SamplerParams(top_p=0.95, seed=3)
                calls = sampler_calls(buffers, params, True, plan, tables)
                total = quartiles(calls, 10)
                with torch.profiler.profile() as session:
                    for call in calls:
                        call()
                    torch.cuda.synchronize()
                kernels = {
                    event.key: round(event.device_time_total / len(calls), 1)
                    for event in session.key_averages()
                    if event.key in ("scan", "decide", "revisit", "finish")
                }
                print(f"batch {batch} {workload} granule {granule}: {total} {kernels}", flush=True)
