# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""What a drawn token changes in the parameters of its row, written by the device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import sampler_rows as rows_module
from .sampler_conclude import OK
from .sampler_rows import RowParams, SampleOutput
from .sampler_tile import COLUMNS, LEFT, PENALTY_SLOT, STATE

HELD = tl.constexpr(rows_module.HELD)


@triton.jit
def commit_row(
    table, slots, last, token, next_state, status, counts, seen, vocab_size, COUNTED: tl.constexpr
):
    """One row per program."""
    index = tl.program_id(0)
    slot = tl.load(slots + index).to(tl.int64)
    row = table + slot * COLUMNS
    drawn = tl.load(token + index)
    if tl.load(status + index) == OK:
        low = tl.load(row)
        tl.store(row, low + 1)
        tl.store(row + 1, tl.load(row + 1) + tl.where(low == -1, 1, 0))
        tl.store(row + LEFT, tl.load(row + LEFT) - 1)
        tl.store(row + STATE, tl.load(next_state + index))
        tl.store(last + slot, drawn)
        if COUNTED:
            place = tl.load(row + PENALTY_SLOT).to(tl.int64)
            if place >= 0:
                count = counts + place * vocab_size + drawn
                tl.store(count, tl.load(count) + 1)
                word = seen + place * ((vocab_size + 31) // 32) + (drawn >> 5)
                tl.store(word, tl.load(word) | (1 << (drawn & 31)))
    else:
        tl.store(row + STATE, HELD)


def commit(
    rows: RowParams, slots: torch.Tensor, last: torch.Tensor, out: SampleOutput, vocab_size: int
) -> None:
    """Advance the rows that drew a token, and hold the others.

    A drawn token moves position, budget, automaton state and counts on by one; a row without one is
    `HELD`: it draws nothing until its parameters are written again.

    Args:
        rows: parameters by slot; `table`, and `counts` and `seen` of penalised rows, are modified.
        slots: int32 [B], each at most once.
        last: int32 [slots], where the tokens go.
        out: results of the B rows.
        vocab_size: V.
    """
    if len(slots):
        commit_row[(len(slots),)](
            rows.table, slots, last, out.token, out.next_state, out.status, rows.counts,
            rows.seen, vocab_size, COUNTED=rows.counts.shape[1] == vocab_size, num_warps=1,
            enable_fp_fusion=False,
        )  # fmt: skip
