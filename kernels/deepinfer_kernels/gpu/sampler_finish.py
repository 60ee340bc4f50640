# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels with one program per row: decide after the scan, and finish with the automaton's step."""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.draw import MODULO31_WIDTH
from deepinfer_kernels.sampler_types import Status

from . import sampler_rows as rows_module
from .sampler_numeric import (
    NEGATIVE_INFINITY,
    NO_ID,
    WEIGHT_UNIT,
    key_value,
    order_key,
    weight,
)
from .sampler_scan import (
    BOUND_ID,
    BOUND_X,
    DONE,
    FLAGS,
    GREEDY,
    LARGEST,
    PHASE,
    RANK,
    RECORD,
    SEARCH,
    SELECT,
    STATUS,
    TOKEN,
    TOKEN_X,
    TOP_P,
    needed_mass,
    refused,
)
from .sampler_select import prefix_end
from .sampler_tile import (
    AUTOMATA,
    COLUMNS,
    DEAD,
    MISSING,
    SCALE,
    STATE,
    float_field,
    mask_row,
    tile_ids,
)
from .sampler_winner import exact_winner, granule_tile, measure_row, search_row

WIDTH = tl.constexpr(MODULO31_WIDTH)
TOP_K = tl.constexpr(rows_module.TOP_K)
MIN_P = tl.constexpr(rows_module.MIN_P)
MODULO31 = tl.constexpr(rows_module.MODULO31)
OK = tl.constexpr(int(Status.OK))
NUMERIC = tl.constexpr(int(Status.NUMERIC))
EMPTY = tl.constexpr(int(Status.EMPTY))
MISS = tl.constexpr(int(Status.MISS))

# Estimated masses are trusted to this relative error, far above what float32 loses.
_TRUST = tl.constexpr(0.000244140625)


@triton.jit
def store_float(pointer, value):
    """Store a float32 as int32 bits."""
    tl.store(pointer, value.to(tl.int32, bitcast=True))


@triton.jit
def min_p_threshold(row, most):
    """Smallest logit whose weight reaches the row's min-p weight; -inf where min-p is off."""
    least = tl.load(row + MIN_P)
    threshold = tl.full((), NEGATIVE_INFINITY, tl.float32)
    if least > 0:
        scale = float_field(row, SCALE)
        low = order_key(tl.full((), NEGATIVE_INFINITY, tl.float32)).to(tl.int64)
        high = order_key(most).to(tl.int64)
        while high - low > 1:
            middle = (low + high) >> 1
            x = key_value(middle.to(tl.int32))
            enough = weight((x - most) * scale) >= least
            high = tl.where(enough, middle, high)
            low = tl.where(enough, low, middle)
        threshold = key_value(high.to(tl.int32))
    return threshold


@triton.jit
def surely_kept(mass, largest, granules, value, most, row, vocab_size, G: tl.constexpr):
    """Whether estimates prove that top-p keeps a token with logit `value`."""
    lane = tl.arange(0, G)
    top = tl.load(largest + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    part = tl.load(mass + lane, mask=lane < granules, other=0.0)
    part = part * tl.exp2((top - most) * float_field(row, SCALE))
    total = tl.sum(part, axis=0)
    ahead = tl.sum(tl.where(top >= value, part, 0.0), axis=0)
    # Integer weights lose less than one unit per token.
    sure = total * (1.0 - _TRUST) - vocab_size * WEIGHT_UNIT
    fraction = tl.load(row + TOP_P).to(tl.float32) * 5.960464477539063e-08
    return ahead * (1.0 + _TRUST) < sure * fraction


@triton.jit
def decide(
    logits, stride, vocab_size, table, record, largest, mass, upper, bad, granules, parts,
    log2_table, masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Status, argmax of greedy rows, winner before cuts, and what is left to find out."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    mask = mask_row(row, state_row, state_enough, FEATURES)
    flags = tl.load(row + FLAGS)
    lane = tl.arange(0, G)
    top = tl.load(largest + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    most = tl.max(top, axis=0)
    wrong = tl.max(tl.load(bad + index * granules + lane, mask=lane < parts, other=0), axis=0)
    status = tl.where(most > NEGATIVE_INFINITY, OK, EMPTY)
    status = tl.where(wrong > 0, NUMERIC, status)
    status = tl.where(mask == MISSING, MISS, tl.where(mask == DEAD, EMPTY, status))
    phase = tl.full((), DONE, tl.int32)
    token = tl.full((), -1, tl.int32)
    value = most
    bound_x = tl.full((), NEGATIVE_INFINITY, tl.float32)
    bound_id = tl.full((), NO_ID, tl.int32)
    if status == OK:
        if (flags & GREEDY) != 0:
            granule = tl.min(tl.where(top == most, lane, G), axis=0)
            x, blocks = granule_tile(
                granule, logits, row, mask, vocab_size,
                masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE,
            )  # fmt: skip
            ids = tl.where(x == most, tile_ids(blocks), NO_ID)
            token = tl.min(tl.reshape(ids, (GRANULE,)), axis=0)
        elif (flags & MODULO31) == 0:
            token, value = exact_winner(
                upper + index * granules, largest, granules, bound_x, bound_id, log2_table,
                logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values,
                banned_ids, FEATURES, GRANULE, G,
            )  # fmt: skip
            bound_x = min_p_threshold(row, most)
            fraction = tl.load(row + TOP_P)
            if tl.load(row + TOP_K) > 0:
                phase = tl.full((), SELECT, tl.int32)
            elif value < bound_x:
                phase = tl.full((), SEARCH, tl.int32)
            elif fraction >= 0:
                if not surely_kept(
                    mass + index * granules, largest, granules, value, most, row, vocab_size, G
                ):
                    phase = tl.full((), RANK, tl.int32)
    tl.store(notes + PHASE, phase)
    tl.store(notes + TOKEN, token)
    store_float(notes + TOKEN_X, value)
    store_float(notes + BOUND_X, bound_x)
    tl.store(notes + BOUND_ID, bound_id)
    tl.store(notes + STATUS, status)
    store_float(notes + LARGEST, most)


@triton.jit
def settle(
    logits, stride, vocab_size, table, record, largest, mass, upper, totals, before, granules,
    parts, log2_table, masks, state_row, state_enough, counts, seen, bias_ids, bias_values,
    banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Between two rounds of rank and search: accept the candidate, or take the next one."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    largest += index * granules
    phase = tl.load(notes + PHASE)
    bound_x = float_field(notes, BOUND_X)
    bound_id = tl.load(notes + BOUND_ID)
    following = phase == SEARCH
    if phase == RANK:
        cut, _ = refused(notes, totals + index * granules, before + index * granules, row, parts, T)
        bound_x = float_field(notes, TOKEN_X)
        bound_id = tl.load(notes + TOKEN) - 1
        following = cut
        if not cut:
            tl.store(notes + PHASE, DONE)
    if following:
        mask = mask_row(row, state_row, state_enough, FEATURES)
        token, value = exact_winner(
            upper + index * granules, largest, granules, bound_x, bound_id, log2_table,
            logits + index * stride, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, FEATURES, GRANULE, G,
        )  # fmt: skip
        open_row = tl.load(row + TOP_P) >= 0
        if open_row:
            open_row = not surely_kept(
                mass + index * granules, largest, granules, value, float_field(notes, LARGEST),
                row, vocab_size, G,
            )  # fmt: skip
        tl.store(notes + PHASE, tl.where(open_row, RANK, DONE))
        tl.store(notes + TOKEN, token)
        store_float(notes + TOKEN_X, value)


@triton.jit
def advance(
    state, token, byte_class, state_automaton, state_edges, edges, token_start, token_bytes
):
    """State after the bytes of a token, or -1 where a transition is not on the device."""
    at = tl.load(token_start + token)
    end = tl.load(token_start + token + 1)
    while at < end:
        offset = tl.load(state_edges + state)
        byte = tl.load(token_bytes + at).to(tl.int32)
        automaton = tl.load(state_automaton + state).to(tl.int64)
        kind = tl.load(byte_class + automaton * 256 + byte).to(tl.int32)
        known = offset >= 0
        state = tl.load(edges + tl.where(known, offset + kind, 0))
        state = tl.where(known, state, -1)
        # Dead and unknown states end the walk.
        at = tl.where(state > 0, at + 1, end)
    return state


@triton.jit
def finish(
    logits, stride, vocab_size, table, record, largest, upper, totals, before, visit, gathered,
    capacity, granules, parts, log2_table, masks, state_row, state_enough, counts, seen,
    bias_ids, bias_values, banned_ids, byte_class, state_automaton, state_edges, edges,
    token_start, token_bytes, out_token, out_state, out_status,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
    T: tl.constexpr, CAPACITY: tl.constexpr,
):  # fmt: skip
    """Resolve what the cuts left open, advance the automaton, write the results."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    upper += index * granules
    visit += index * granules
    gathered += index * tl.maximum(capacity, WIDTH)
    mask = mask_row(row, state_row, state_enough, FEATURES)
    phase = tl.load(notes + PHASE)
    status = tl.load(notes + STATUS)
    token = tl.load(notes + TOKEN)
    value = float_field(notes, TOKEN_X)
    most = float_field(notes, LARGEST)
    # What may be drawn ranks within the bound; the mass of top-p counts what is within the limit.
    bound_x = float_field(notes, BOUND_X)
    bound_id = tl.load(notes + BOUND_ID)
    limit_x = tl.full((), NEGATIVE_INFINITY, tl.float32)
    limit_id = tl.full((), NO_ID, tl.int32)
    fraction = tl.load(row + TOP_P)
    need = tl.full((), 0, tl.int64)
    open_row = phase != DONE
    candidate = phase == SELECT
    searched = phase != SELECT
    if phase == RANK:
        cut, need = refused(
            notes, totals + index * granules, before + index * granules, row, parts, T
        )
        open_row = cut
        bound_x = value
        bound_id = token - 1
    if phase == SELECT:
        limit_x, limit_id = prefix_end(
            tl.load(row + TOP_K).to(tl.int64), limit_x, limit_id, most, gathered, capacity, visit,
            largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, False, FEATURES, GRANULE, G, W, CAPACITY,
        )  # fmt: skip
        tighter = limit_x >= bound_x
        bound_x = tl.where(tighter, limit_x, bound_x)
        bound_id = tl.where(tighter, limit_id, bound_id)
        candidate = (value > bound_x) | ((value == bound_x) & (token <= bound_id))
    if open_row & (fraction >= 0) & (phase != RANK):
        total, _ = measure_row(
            limit_x, limit_id, limit_x, limit_id, most, visit, largest, granules,
            logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
            True, FEATURES, GRANULE, G, W,
        )  # fmt: skip
        need = needed_mass(total, fraction)
    while open_row:
        if not candidate:
            if not searched:
                search_row(
                    upper, visit, largest, granules, bound_x, bound_id, logits, row, mask,
                    vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    FEATURES, GRANULE, G, W,
                )  # fmt: skip
            token, value = exact_winner(
                upper, largest, granules, bound_x, bound_id, log2_table, logits, row, mask,
                vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                FEATURES, GRANULE, G,
            )  # fmt: skip
        open_row = fraction >= 0
        if open_row:
            ahead, _ = measure_row(
                value, token - 1, limit_x, limit_id, most, visit, largest, granules, logits, row,
                mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                True, FEATURES, GRANULE, G, W,
            )  # fmt: skip
            open_row = ahead >= need
        candidate = phase < 0
        searched = phase < 0
        bound_x = value
        bound_id = token - 1
    state = tl.full((), -1, tl.int32)
    if AUTOMATA & FEATURES:
        state = tl.load(row + STATE)
        if (status == OK) & (state > 0):
            following = advance(
                state, token, byte_class, state_automaton, state_edges, edges,
                token_start, token_bytes,
            )  # fmt: skip
            status = tl.where(following < 0, MISS, status)
            state = tl.where(following < 0, state, following)
    tl.store(out_token + index, tl.where(status == OK, token, -1))
    tl.store(out_state + index, state)
    tl.store(out_status + index, status)
