# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels that decide rows: after the scan, and after further visits of what it left open.

The winner of the draw over all tokens is the winner over the kept tokens if it is kept, because
every cut keeps a prefix of one ranking. `decide` finds that winner and accepts it where estimates
prove that it is kept. Other rows are queued; `revisit` ranks their candidates exactly, many tiles
at a time, and the program that finishes a row's last tile decides again.
"""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.sampler_types import Status

from . import sampler_rows as rows_module
from .sampler_conclude import MISS, OK, conclude
from .sampler_numeric import (
    NEGATIVE_INFINITY,
    NO_ID,
    WEIGHT_UNIT,
    key_value,
    order_key,
    ranked_within,
    weight,
)
from .sampler_scan import (
    BOUND_ID,
    BOUND_X,
    CHOSEN,
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
    exact_sum,
    granule_bounds,
    needed_mass,
)
from .sampler_tile import (
    COLUMNS,
    DEAD,
    MISSING,
    SCALE,
    float_field,
    granule_starts,
    mask_row,
    noise_address,
    processed_tile,
    raw_tile,
    tile_blocks,
    tile_ids,
)
from .sampler_winner import exact_winner, granule_tile

TOP_K = tl.constexpr(rows_module.TOP_K)
MIN_P = tl.constexpr(rows_module.MIN_P)
MODULO31 = tl.constexpr(rows_module.MODULO31)
NUMERIC = tl.constexpr(int(Status.NUMERIC))
EMPTY = tl.constexpr(int(Status.EMPTY))

# Estimated masses are trusted to this relative error, far above what float32 loses.
_TRUST = tl.constexpr(0.000244140625)
# Granules scored with bounds of too large a set before tight bounds are cheaper.
_VISITS = tl.constexpr(16)
_UNLIMITED = tl.constexpr(1 << 20)


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
def enqueue(queue, index):
    """Add a row to a queue: int32 [1 + rows], the count first."""
    place = tl.atomic_add(queue, 1)
    tl.store(queue + 1 + place, index.to(tl.int32))


@triton.jit
def decide(
    logits, stride, vocab_size, table, record, largest, mass, upper, bad, granules, parts,
    queue, arrivals, log2_table, masks, state_row, state_enough, counts, seen, bias_ids,
    bias_values, banned_ids, byte_class, state_automaton, state_edges, edges, token_start,
    token_bytes, out_token, out_state, out_status,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Status, argmax of greedy rows, winner before cuts; results, or what is left to find out."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    upper += index * granules
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
        elif (flags & MODULO31) != 0:
            phase = tl.full((), CHOSEN, tl.int32)
        else:
            least = min_p_threshold(row, most)
            chosen = tl.load(row + TOP_K) > 0
            visits = tl.full((), _UNLIMITED, tl.int32)
            again = tl.full((), 1, tl.int32)
            while again == 1:
                token, value, certain = exact_winner(
                    upper, largest, granules, bound_x, bound_id, visits, log2_table, logits, row,
                    mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    FEATURES, GRANULE, G,
                )  # fmt: skip
                # Where min-p refuses the winner, the best of what it keeps is next.
                again = tl.where((value < least) & (bound_x < least) & (not chosen), 1, 0)
                phase = tl.where(certain, DONE, SEARCH)
                bound_x = least
                visits = tl.full((), _VISITS, tl.int32)
            if chosen:
                phase = tl.full((), SELECT, tl.int32)
            elif (phase == DONE) & (tl.load(row + TOP_P) >= 0):
                if not surely_kept(
                    mass + index * granules, largest, granules, value, most, row, vocab_size, G
                ):
                    phase = tl.full((), RANK, tl.int32)
    if phase == DONE:
        conclude(
            index, row, status, token, byte_class, state_automaton, state_edges, edges,
            token_start, token_bytes, out_token, out_state, out_status, FEATURES,
        )  # fmt: skip
    if (phase == RANK) | (phase == SEARCH):
        tl.store(arrivals + index, 0)
        enqueue(queue, index)
    tl.store(notes + PHASE, phase)
    tl.store(notes + TOKEN, token)
    store_float(notes + TOKEN_X, value)
    store_float(notes + BOUND_X, bound_x)
    tl.store(notes + BOUND_ID, bound_id)
    tl.store(notes + STATUS, status)
    store_float(notes + LARGEST, most)


@triton.jit
def row_sum(values, parts, T: tl.constexpr):
    """Sum of int64 [parts]."""
    lane = tl.arange(0, T)
    return tl.sum(tl.load(values + lane, mask=lane < parts, other=0), axis=0)


@triton.jit
def settle(
    logits, stride, vocab_size, index, table, record, largest, mass, upper, totals, before,
    granules, tiles, following, arrivals, log2_table, mask, masks, counts, seen, bias_ids,
    bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """All tiles of a row have been visited: accept its candidate, or find the next one."""
    row = table + index * COLUMNS
    notes = record + index * RECORD
    largest += index * granules
    upper += index * granules
    phase = tl.load(notes + PHASE)
    bound_x = float_field(notes, BOUND_X)
    bound_id = tl.load(notes + BOUND_ID)
    visits = tl.full((), _UNLIMITED, tl.int32)
    after = tl.full((), CHOSEN, tl.int32)
    refused = phase == SEARCH
    if phase == RANK:
        total = row_sum(totals + index * granules, tiles, T)
        ahead = row_sum(before + index * granules, tiles, T)
        refused = ahead >= needed_mass(total, tl.load(row + TOP_P))
        bound_x = float_field(notes, TOKEN_X)
        bound_id = tl.load(notes + TOKEN) - 1
        visits = tl.full((), _VISITS, tl.int32)
    if refused:
        token, value, certain = exact_winner(
            upper, largest, granules, bound_x, bound_id, visits, log2_table,
            logits + index * stride, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, FEATURES, GRANULE, G,
        )  # fmt: skip
        if not certain:
            after = tl.full((), SEARCH, tl.int32)
        elif tl.load(row + TOP_P) >= 0:
            if not surely_kept(
                mass + index * granules, largest, granules, value, float_field(notes, LARGEST),
                row, vocab_size, G,
            ):  # fmt: skip
                after = tl.full((), RANK, tl.int32)
        tl.store(notes + TOKEN, token)
        store_float(notes + TOKEN_X, value)
        store_float(notes + BOUND_X, bound_x)
        tl.store(notes + BOUND_ID, bound_id)
    if after != CHOSEN:
        tl.store(arrivals + index, 0)
        enqueue(following, index)
    tl.store(notes + PHASE, after)


@triton.jit
def revisit(
    logits, stride, vocab_size, table, record, largest, mass, upper, totals, before, granules,
    tiles, queue, following, arrivals, log2_table, masks, state_row, state_enough, counts, seen,
    bias_ids, bias_values, banned_ids, FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
    GRANULE: tl.constexpr, G: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Tiles of queued rows: exact weights before a candidate, or bounds within a limit.

    `totals` and `before` are int64 per tile. Rows that stay open go to the queue `following`.
    """
    items = tl.load(queue) * tiles
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        index = tl.load(queue + 1 + item // tiles).to(tl.int64)
        part = item % tiles
        row = table + index * COLUMNS
        notes = record + index * RECORD
        mask = mask_row(row, state_row, state_enough, FEATURES)
        scale = float_field(row, SCALE)
        first = part * (K * W * 128)
        starts = granule_starts(first, K, W)
        blocks = tile_blocks(starts, K)
        ids = tile_ids(blocks)
        x = processed_tile(
            raw_tile(logits + index * stride, starts, vocab_size, K), ids, starts, first,
            first + K * W * 128, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, FEATURES,
        )  # fmt: skip
        if tl.load(notes + PHASE) == RANK:
            weights = weight((x - float_field(notes, LARGEST)) * scale)
            earlier = ranked_within(x, ids, float_field(notes, TOKEN_X), tl.load(notes + TOKEN) - 1)
            tl.store(totals + index * granules + part, exact_sum(weights))
            tl.store(before + index * granules + part, exact_sum(tl.where(earlier, weights, 0)))
        else:
            within = ranked_within(x, ids, float_field(notes, BOUND_X), tl.load(notes + BOUND_ID))
            x = tl.where(within, x, NEGATIVE_INFINITY)
            slots = part * W + tl.arange(0, W)
            low, high, sample, key_low, key_high = noise_address(row)
            best = granule_bounds(x * scale, 0.0, blocks, low, high, sample, key_low, key_high)
            tl.store(upper + index * granules + slots, best, mask=slots < granules)
        # What all threads stored must be seen by the program that counts the last tile.
        tl.debug_barrier()
        if tl.atomic_add(arrivals + index, 1, sem="acq_rel") == tiles - 1:
            settle(
                logits, stride, vocab_size, index, table, record, largest, mass, upper, totals,
                before, granules, tiles, following, arrivals, log2_table, mask, masks, counts,
                seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE, G, T,
            )  # fmt: skip
