"""Runs the sampler's kernels where there is no GPU: Triton's interpreter, and a faster call path.

Import this before any kernel: the interpreter is chosen when kernels are defined.
"""

import os

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"

from triton.runtime import interpreter  # noqa: E402 - after the choice above

_patched_modules = set()


def _call(self, *args, **kwargs):
    # The interpreter patches the language anew at every call of a device function, which costs a
    # millisecond; once per defining module is enough.
    module = self.fn.__module__
    if module not in _patched_modules:
        interpreter._patch_lang(self.fn)
        _patched_modules.add(module)
    return self.rewrite()(*args, **kwargs)


interpreter.InterpretedFunction.__call__ = _call

import numpy as np  # noqa: E402
from deepinfer_kernels.gpu.sampler import (  # noqa: E402
    SampleOutput,
    SamplerPlan,
    SamplerWorkspace,
    sample,
)
from deepinfer_kernels.gpu.sampler_rows import (  # noqa: E402
    OVERRIDE_LEFT,
    OVERRIDE_ROW,
    OVERRIDE_STATE,
    pack_rows,
)

from benchmarks.sampler_cases import make_tables, pack_cases  # noqa: E402


def run(logits, rows, tables, *, capacity, plan):
    """Results of the kernels for prepared rows."""
    workspace = SamplerWorkspace(len(logits), logits.shape[1], DEVICE, capacity=capacity)
    out = SampleOutput.allocate(len(logits), DEVICE)
    # NumPy warns of what the contract defines, such as overflow to infinity.
    with np.errstate(all="ignore"):
        sample(logits, rows, tables, out, workspace, plan)
    return out


def draw_cases(cases, vocab_size, tables, *, capacity, granule):
    """(token, next state, status) of each case, in order."""
    found = {}
    for dtype in {case.dtype for case in cases}:
        chosen = [i for i, case in enumerate(cases) if case.dtype == dtype]
        logits, rows = pack_cases([cases[i] for i in chosen], vocab_size, DEVICE)
        plan = SamplerPlan(granule=granule)
        out = run(logits, rows, tables.to(DEVICE), capacity=capacity, plan=plan)
        columns = (out.token.tolist(), out.next_state.tolist(), out.status.tolist())
        found.update(zip(chosen, zip(*columns, strict=True), strict=True))
    return [found[i] for i in range(len(cases))]


def draw(
    logits,
    params,
    positions,
    *,
    allowed=None,
    history=None,
    banned_now=None,
    tables=None,
    states=None,
    left=None,
    override=None,
    capacity=2048,
    granule=None,
    reports=False,
):
    """Results for rows given piece by piece; `allowed` holds sets of ids or None."""
    size = logits.shape[1]
    if allowed is not None and any(one is not None for one in allowed):
        tables = make_tables(size)
        bits = np.zeros((len(allowed) + 1, (size + 31) // 32 * 32), dtype=np.uint8)
        for row, one in enumerate(allowed):
            bits[row + 1, sorted(one or ())] = 1
        tables.rows = torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32))
        tables.state_row = torch.arange(len(allowed) + 1, dtype=torch.int32)
        tables.state_enough = torch.zeros(len(allowed) + 1, dtype=torch.int32)
        tables.token_start = torch.zeros(size + 1, dtype=torch.int32)
        tables = tables.to(DEVICE)
        states = [-1 if one is None else row + 1 for row, one in enumerate(allowed)]
    counts = seen = slots = None
    if history is not None:
        counts = np.zeros((len(history), size), dtype=np.int16)
        seen = np.zeros((len(history), (size + 31) // 32), dtype=np.uint32)
        for row, (prompt, output) in enumerate(history):
            np.add.at(counts[row], list(output), 1)
            for token in (*prompt, *output):
                seen[row, token >> 5] |= np.uint32(1 << (token & 31))
        slots = range(len(history))
        counts = torch.from_numpy(counts).to(DEVICE)
        seen = torch.from_numpy(seen.view(np.int32)).to(DEVICE)
    rows = pack_rows(
        params,
        positions,
        device=DEVICE,
        states=states,
        left=left,
        slots=slots,
        counts=counts,
        seen=seen,
        banned_now=banned_now,
    )
    for row, values in enumerate(override or ()):
        for column, value in zip(
            (OVERRIDE_STATE, OVERRIDE_LEFT, OVERRIDE_ROW), values, strict=True
        ):
            rows.table[row, column] = value
    plan = SamplerPlan(granule=granule, modulo31=reports, logprobs=reports)
    return run(logits.to(DEVICE), rows, tables, capacity=capacity, plan=plan)
