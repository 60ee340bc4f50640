# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""The last kernel, one program per row that is not done: what is still open, and its results."""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.draw import MODULO31_WIDTH

from .sampler_conclude import conclude
from .sampler_decide import TOP_K, row_sum
from .sampler_numeric import NEGATIVE_INFINITY, NO_ID
from .sampler_scan import (
    BOUND_ID,
    BOUND_X,
    CHOSEN,
    DONE,
    LARGEST,
    PHASE,
    RANK,
    RECORD,
    SELECT,
    STATUS,
    TOKEN,
    TOKEN_X,
    TOP_P,
    needed_mass,
)
from .sampler_select import prefix_end
from .sampler_tile import COLUMNS, float_field, mask_row
from .sampler_winner import exact_winner, measure_row, search_row

WIDTH = tl.constexpr(MODULO31_WIDTH)
_UNLIMITED = tl.constexpr(1 << 20)


@triton.jit
def finish(
    logits, stride, vocab_size, table, record, largest, upper, totals, before, visit, gathered,
    capacity, granules, tiles, log2_table, masks, state_row, state_enough, counts, seen,
    bias_ids, bias_values, banned_ids, byte_class, state_automaton, state_edges, edges,
    token_start, token_bytes, out_token, out_state, out_status,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
    T: tl.constexpr, CAPACITY: tl.constexpr,
):  # fmt: skip
    """Resolve what the cuts left open, and conclude every row that is not done."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    upper += index * granules
    visit += index * granules
    gathered += index * tl.maximum(capacity, WIDTH)
    phase = tl.load(notes + PHASE)
    if phase != DONE:
        mask = mask_row(row, state_row, state_enough, FEATURES)
        status = tl.load(notes + STATUS)
        token = tl.load(notes + TOKEN)
        value = float_field(notes, TOKEN_X)
        most = float_field(notes, LARGEST)
        # What may be drawn ranks within the bound; top-p's mass counts what is within the limit.
        bound_x = float_field(notes, BOUND_X)
        bound_id = tl.load(notes + BOUND_ID)
        limit_x = tl.full((), NEGATIVE_INFINITY, tl.float32)
        limit_id = tl.full((), NO_ID, tl.int32)
        fraction = tl.load(row + TOP_P)
        need = tl.full((), 0, tl.int64)
        open_row = phase != CHOSEN
        candidate = phase == RANK
        unlimited = tl.full((), _UNLIMITED, tl.int32)
        if phase == SELECT:
            limit_x, limit_id = prefix_end(
                tl.load(row + TOP_K).to(tl.int64), limit_x, limit_id, most, gathered, capacity,
                visit, largest, granules, logits, row, mask, vocab_size, masks, counts, seen,
                bias_ids, bias_values, banned_ids, False, FEATURES, GRANULE, G, W, CAPACITY,
            )  # fmt: skip
            tighter = limit_x >= bound_x
            bound_x = tl.where(tighter, limit_x, bound_x)
            bound_id = tl.where(tighter, limit_id, bound_id)
            candidate = (value > bound_x) | ((value == bound_x) & (token <= bound_id))
        if open_row & (fraction >= 0):
            # Every other row that top-p may cut has been ranked once.
            total = row_sum(totals + index * granules, tiles, T)
            if phase == SELECT:
                total, _ = measure_row(
                    limit_x, limit_id, limit_x, limit_id, most, visit, largest, granules, logits,
                    row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    True, FEATURES, GRANULE, G, W,
                )  # fmt: skip
            need = needed_mass(total, fraction)
        while open_row:
            if not candidate:
                search_row(
                    upper, visit, largest, granules, bound_x, bound_id, logits, row, mask,
                    vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    FEATURES, GRANULE, G, W,
                )  # fmt: skip
                token, value, _ = exact_winner(
                    upper, largest, granules, bound_x, bound_id, unlimited, log2_table, logits, row,
                    mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    FEATURES, GRANULE, G,
                )  # fmt: skip
            open_row = fraction >= 0
            if open_row:
                ahead, _ = measure_row(
                    value, token - 1, limit_x, limit_id, most, visit, largest, granules, logits,
                    row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    True, FEATURES, GRANULE, G, W,
                )  # fmt: skip
                open_row = ahead >= need
            candidate = phase < 0
            bound_x = value
            bound_id = token - 1
        conclude(
            index, row, status, token, byte_class, state_automaton, state_edges, edges,
            token_start, token_bytes, out_token, out_state, out_status, FEATURES,
        )  # fmt: skip
