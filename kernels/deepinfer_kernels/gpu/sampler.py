"""The fused sampler: logits of a batch become tokens on the device, with no host in between.

`sample` equals `deepinfer_kernels.sampling.sample_row` row by row: same bits in, same token out,
whatever the batch, the tiles and the device (`draw="modulo31"` only where the exponential has the
same bits; log-probabilities to 2e-6). It reads nothing back and, given a workspace and an
output, allocates nothing, so it can be captured in a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer_kernels.sampler_types import MAX_LOGPROBS

from .automaton_tables import AutomatonTables
from .sampler_decide import decide, revisit
from .sampler_finish import finish
from .sampler_report import draw_modulo31, kept_set, report
from .sampler_rows import (
    AUTOMATA,
    LISTS,
    PENALTIES,
    RowParams,
    SampleOutput,
    SamplerWorkspace,
    pack_rows,
)
from .sampler_scan import scan

__all__ = [
    "RowParams",
    "SampleOutput",
    "SamplerPlan",
    "SamplerWorkspace",
    "pack_rows",
    "sample",
]


_PROGRAMS = 8192
"""Programs of the scan: enough to fill a card several times over, few enough that what a row costs
once is shared."""
_WORKERS = 1056
"""Programs that share the tiles of queued rows."""
_WIDTH = 4
"""Granules, and warps, of such a tile."""
_VISITS = 2
"""Visits of queued rows before the last kernel takes them one by one."""


@dataclass(frozen=True)
class SamplerPlan:
    """What a launch sequence has to contain, known on the host before it is enqueued.

    A plan that promises too little is an error of the caller: a row whose cut has no kernel in the
    sequence would be left open. The default contains everything but the parity draw and reports.

    Attributes:
        cuts: some row may use top-k, top-p or min-p.
        penalties: some row may have a `PENALTY_SLOT`.
        lists: some row may have a bias or banned list.
        modulo31: some row may use `draw="modulo31"`.
        logprobs: some row may ask for log-probabilities.
        granule: tokens per granule, 256 to 1024; None chooses by batch size. Results are equal.
    """

    cuts: bool = True
    penalties: bool = True
    lists: bool = True
    modulo31: bool = False
    logprobs: bool = False
    granule: int | None = None


def sample(
    logits: torch.Tensor,
    rows: RowParams,
    automata: AutomatonTables | None,
    out: SampleOutput,
    workspace: SamplerWorkspace,
    plan: SamplerPlan | None = None,
) -> None:
    """Draw one token per row.

    Args:
        logits: float32, bfloat16 or float16 [B, V]; rows contiguous. Not modified.
        rows: parameters of the B rows.
        automata: tables that the `STATE` column refers to; None ignores that column.
        out: where the results go.
        workspace: of at least B rows and exactly this V.
        plan: kernels to launch; None is `SamplerPlan()`.

    Raises:
        ValueError: shapes, types or strides do not fit together.
    """
    plan = plan or SamplerPlan()
    batch, vocab_size = _checked(logits, rows, workspace)
    if batch == 0:
        return
    granule = plan.granule or (256 if batch <= 8 else 512)
    granules = -(-vocab_size // granule)
    padded = max(_power_of_two(granules), 16)
    features = AUTOMATA * (automata is not None) | PENALTIES * plan.penalties | LISTS * plan.lists
    nothing = workspace.nothing
    masks = automata.rows if automata is not None else nothing
    state_row = automata.state_row if automata is not None else nothing
    state_enough = automata.state_enough if automata is not None else nothing
    shared = (
        masks,
        state_row,
        state_enough,
        rows.counts,
        rows.seen,
        rows.bias_ids,
        rows.bias_values,
        rows.banned_ids,
    )
    walk = (
        (nothing,) * 6
        if automata is None
        else (
            automata.byte_class,
            automata.state_automaton,
            automata.state_edges,
            automata.edges,
            automata.token_start,
            automata.token_bytes,
        )
    )
    results = (*walk, out.token, out.next_state, out.status)
    stride = logits.stride(0)
    row = {"FEATURES": features, "GRANULE": granule, "G": padded}
    reading = {"FEATURES": features, "K": granule // 128}

    # A warp that needs no other one waits least; the interpreter likes few large tiles.
    width = 1 if logits.is_cuda else _WIDTH
    scanned = -(-granules // width)
    steps = max(1, scanned * batch // _PROGRAMS)
    parts = -(-scanned // steps)
    queues = workspace.queues
    scan[(parts, batch)](
        logits, stride, vocab_size, rows.table, workspace.largest, workspace.mass, workspace.upper,
        workspace.bad, granules, steps, queues, queues.stride(0), *shared, **reading, W=width,
        num_warps=width, enable_fp_fusion=False,
    )  # fmt: skip
    decide[(batch,)](
        logits, stride, vocab_size, rows.table, workspace.record, workspace.largest,
        workspace.mass, workspace.upper, workspace.bad, granules, parts, queues[0],
        workspace.arrivals, workspace.log2_table, *shared, *results, **row, num_warps=4,
        enable_fp_fusion=False,
    )  # fmt: skip
    tiles = -(-granules // _WIDTH)
    padded_tiles = max(_power_of_two(tiles), 16)
    for visit in range(_VISITS) if plan.cuts else ():
        revisit[(min(tiles * batch, _WORKERS if logits.is_cuda else 4),)](
            logits, stride, vocab_size, rows.table, workspace.record, workspace.largest,
            workspace.mass, workspace.upper, workspace.totals, workspace.before, granules, tiles,
            queues[visit], queues[visit + 1], workspace.arrivals, workspace.log2_table, *shared,
            **row, K=granule // 128, W=_WIDTH, T=padded_tiles, num_warps=_WIDTH,
            enable_fp_fusion=False,
        )  # fmt: skip
    whole_row = (
        logits, stride, vocab_size, rows.table, workspace.record, workspace.largest,
        workspace.visit, workspace.gathered, workspace.capacity, granules, *shared,
    )  # fmt: skip
    if plan.modulo31 or plan.logprobs:
        kept_set[(batch,)](
            *whole_row, **row, W=8, CAPACITY=workspace.capacity,
            num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
    if plan.modulo31:
        draw_modulo31[(batch,)](
            *whole_row, **row, W=8, CAPACITY=workspace.capacity,
            num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
    if plan.cuts or plan.modulo31:
        finish[(batch,)](
            logits, stride, vocab_size, rows.table, workspace.record, workspace.largest,
            workspace.upper, workspace.totals, workspace.before, workspace.visit,
            workspace.gathered,
            workspace.capacity, granules, tiles, workspace.log2_table, *shared, *results, **row,
            W=8, T=padded_tiles, CAPACITY=workspace.capacity, num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
    if plan.logprobs:
        report[(batch,)](
            logits, stride, vocab_size, rows.table, workspace.record, workspace.upper, granules,
            out.token, out.logprob, out.rank, out.top_ids, out.top_logprobs, *shared,
            FEATURES=features, P=max(_power_of_two(-(-vocab_size // 1024)), 16),
            MOST=MAX_LOGPROBS, TILES=1, num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip


def _checked(logits: torch.Tensor, rows: RowParams, workspace: SamplerWorkspace) -> tuple[int, int]:
    if logits.ndim != 2 or logits.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"logits are {logits.dtype}{list(logits.shape)}; expected float [B, V]")
    batch, vocab_size = logits.shape
    if logits.stride(1) != 1 and vocab_size > 1:
        raise ValueError(f"logits have strides {logits.stride()}; rows have to be contiguous")
    if vocab_size != workspace.vocab_size or batch > workspace.rows:
        raise ValueError(
            f"logits are {list(logits.shape)}; the workspace is made for at most "
            f"{workspace.rows} rows of {workspace.vocab_size}"
        )
    if rows.table.shape[0] < batch or rows.table.dtype != torch.int32:
        raise ValueError(
            f"parameter table is {rows.table.dtype}{list(rows.table.shape)} for {batch} rows"
        )
    if not rows.table.is_contiguous():
        raise ValueError("the parameter table has to be contiguous")
    return batch, vocab_size


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
