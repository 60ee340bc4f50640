# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels for rows that need the kept set itself: the parity draw, and log-probabilities.

One program per row; none of them touches the token of a row that draws in the default way.
"""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.philox import SCALAR_STREAM

from . import sampler_rows as rows_module
from .sampler_conclude import OK
from .sampler_decide import MODULO31, TOP_K, min_p_threshold, store_float
from .sampler_finish import WIDTH
from .sampler_numeric import (
    NEGATIVE_INFINITY,
    NO_ID,
    POSITIVE_INFINITY,
    philox,
    ranked_within,
)
from .sampler_scan import (
    FLAGS,
    GREEDY,
    KEPT_ID,
    KEPT_X,
    LARGEST,
    RECORD,
    STATUS,
    TOKEN,
    TOP_P,
    needed_mass,
)
from .sampler_select import composite_id, composite_value, gather_row, prefix_end
from .sampler_tile import (
    COLUMNS,
    SAMPLE,
    float_field,
    granule_starts,
    mask_row,
    processed_tile,
    raw_tile,
    tile_blocks,
    tile_ids,
)
from .sampler_winner import measure_row

INVERSE_TEMPERATURE = tl.constexpr(rows_module.INVERSE_TEMPERATURE)
LOGPROBS = tl.constexpr(rows_module.LOGPROBS)
PROCESSED_LOGPROBS = tl.constexpr(rows_module.PROCESSED_LOGPROBS)
STREAM = tl.constexpr(SCALAR_STREAM << 16)
TILE = tl.constexpr(1024)


@triton.jit
def halving_sums(values, TILES: tl.constexpr):
    """Sum of each row of float32 [TILES, 1024]: halves are added until one value is left."""
    for step in tl.static_range(10):
        pairs = tl.reshape(values, (TILES, 2, 512 >> step))
        first, second = tl.split(tl.permute(pairs, (0, 2, 1)))
        values = first + second
    return tl.reshape(values, (TILES,))


@triton.jit
def kept_set(
    logits, stride, vocab_size, table, record, largest, visit, gathered, capacity, granules,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
    CAPACITY: tl.constexpr,
):  # fmt: skip
    """The last token of the ranking that all cuts keep; only for rows that need it."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    visit += index * granules
    gathered += index * tl.maximum(capacity, WIDTH)
    flags = tl.load(row + FLAGS)
    reports = ((flags & PROCESSED_LOGPROBS) != 0) & (tl.load(row + LOGPROBS) >= 0)
    limit_x = tl.full((), NEGATIVE_INFINITY, tl.float32)
    limit_id = tl.full((), NO_ID, tl.int32)
    if (tl.load(notes + STATUS) == OK) & (reports | ((flags & MODULO31) != 0)):
        mask = mask_row(row, state_row, state_enough, FEATURES)
        most = float_field(notes, LARGEST)
        top_k = tl.load(row + TOP_K)
        fraction = tl.load(row + TOP_P)
        if top_k > 0:
            limit_x, limit_id = prefix_end(
                top_k.to(tl.int64), limit_x, limit_id, most, gathered, capacity, visit, largest,
                granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
                bias_values, banned_ids, False, FEATURES, GRANULE, G, W, CAPACITY,
            )  # fmt: skip
        if fraction >= 0:
            total, _ = measure_row(
                limit_x, limit_id, limit_x, limit_id, most, visit, largest, granules, logits, row,
                mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                True, FEATURES, GRANULE, G, W,
            )  # fmt: skip
            limit_x, limit_id = prefix_end(
                needed_mass(total, fraction), limit_x, limit_id, most, gathered, capacity, visit,
                largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
                bias_values, banned_ids, True, FEATURES, GRANULE, G, W, CAPACITY,
            )  # fmt: skip
        threshold = min_p_threshold(row, most)
        tighter = threshold > limit_x
        limit_x = tl.where(tighter, threshold, limit_x)
        limit_id = tl.where(tighter, NO_ID, limit_id)
    store_float(notes + KEPT_X, limit_x)
    tl.store(notes + KEPT_ID, limit_id)


@triton.jit
def draw_modulo31(
    logits, stride, vocab_size, table, record, largest, visit, gathered, capacity, granules,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
    CAPACITY: tl.constexpr,
):  # fmt: skip
    """The parity draw: a scalar word modulo the sum of weights floor(p * 2**31)."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    largest += index * granules
    visit += index * granules
    gathered += index * tl.maximum(capacity, WIDTH)
    if (tl.load(notes + STATUS) == OK) & ((tl.load(row + FLAGS) & MODULO31) != 0):
        mask = mask_row(row, state_row, state_enough, FEATURES)
        most = float_field(notes, LARGEST)
        limit_x = float_field(notes, KEPT_X)
        limit_id = tl.load(notes + KEPT_ID)
        end_x, end_id = prefix_end(
            tl.full((), WIDTH, tl.int64), limit_x, limit_id, most, gathered, capacity, visit,
            largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, False, FEATURES, GRANULE, G, W, CAPACITY,
        )  # fmt: skip
        if end_x > NEGATIVE_INFINITY:
            limit_x = end_x
            limit_id = end_id
        used = gather_row(
            gathered, WIDTH, limit_x, limit_x, limit_id, visit, largest, granules, logits, row,
            mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
            FEATURES, GRANULE, G, W,
        )  # fmt: skip
        lane = tl.arange(0, WIDTH)
        codes = tl.load(gathered + lane, mask=lane < used, other=-1)
        place = tl.zeros((WIDTH,), tl.int32)
        for start in range(0, used, 32):
            at = start + tl.arange(0, 32)
            others = tl.load(gathered + at, mask=at < used, other=-1)
            place += tl.sum((others[None, :] > codes[:, None]).to(tl.int32), axis=1)
        tl.debug_barrier()
        tl.store(gathered + place, codes, mask=lane < used)
        tl.debug_barrier()
        codes = tl.load(gathered + lane, mask=lane < used, other=-1)
        x = composite_value(tl.maximum(codes, 0))
        shifted = (x - most) * float_field(row, INVERSE_TEMPERATURE)
        exponentials = tl.where(lane < used, tl.exp(tl.minimum(shifted, 0.0)), 0.0)
        sums = halving_sums(tl.reshape(exponentials, (WIDTH // TILE, TILE)), WIDTH // TILE)
        quarter = tl.arange(0, WIDTH // TILE)
        total_mass = tl.zeros((), tl.float32)
        for tile in tl.static_range(WIDTH // TILE):
            total_mass += tl.sum(tl.where(quarter == tile, sums, 0.0), axis=0)
        shares = tl.math.div_rn(exponentials, tl.zeros_like(exponentials) + total_mass)
        reached = tl.cumsum(tl.floor(shares * 2147483648.0).to(tl.int64), axis=0)
        total = tl.max(reached, axis=0)
        limit = tl.full((), 0xFFFFFFFF, tl.int64) // total * total
        accepted = tl.full((), -1, tl.int64)
        block = tl.full((), 0, tl.int32)
        low = tl.load(row + 0).to(tl.uint32)
        high = ((tl.load(row + 1) & 0xFFFF) | STREAM).to(tl.uint32)
        number = tl.load(row + SAMPLE).to(tl.uint32)
        while accepted < 0:
            w0, w1, w2, w3 = philox(
                low, high, block.to(tl.uint32), number,
                tl.load(row + 2).to(tl.uint32), tl.load(row + 3).to(tl.uint32),
            )  # fmt: skip
            d3 = w3.to(tl.int64)
            d2 = w2.to(tl.int64)
            d1 = w1.to(tl.int64)
            d0 = w0.to(tl.int64)
            accepted = tl.where(d3 < limit, d3, accepted)
            accepted = tl.where(d2 < limit, d2, accepted)
            accepted = tl.where(d1 < limit, d1, accepted)
            accepted = tl.where(d0 < limit, d0, accepted)
            block += 1
        drawn = tl.sum((reached <= accepted % total).to(tl.int32), axis=0)
        code = tl.max(tl.where(lane == drawn, codes, -1), axis=0)
        tl.store(notes + TOKEN, composite_id(code))


@triton.jit
def _reported_tile(
    first, raw_mode, limit_x, limit_id, logits, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Logits of the reported distribution and ids, [TILES, 1024] in id order."""
    starts = granule_starts(first, 8, TILES)
    ids = tile_ids(tile_blocks(starts, 8))
    x = raw_tile(logits, starts, vocab_size, 8)
    if not raw_mode:
        x = processed_tile(
            x, ids, starts, first, first + TILES * TILE, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
        )  # fmt: skip
        x = tl.where(ranked_within(x, ids, limit_x, limit_id), x, NEGATIVE_INFINITY)
    x = tl.reshape(tl.permute(x, (1, 0, 2, 3)), (TILES, TILE))
    return x, tl.reshape(tl.permute(ids, (1, 0, 2, 3)), (TILES, TILE))


@triton.jit
def report(
    logits, stride, vocab_size, table, record, peaks, granules, out_token, out_logprob, out_rank,
    out_ids, out_logprobs, masks, state_row, state_enough, counts, seen, bias_ids, bias_values,
    banned_ids, FEATURES: tl.constexpr, P: tl.constexpr, MOST: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Log-probability and rank of the drawn token, and the best tokens; P covers V / 1024."""
    index = tl.program_id(0).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    peaks += index * granules
    wanted = tl.load(row + LOGPROBS)
    token = tl.load(out_token + index)
    if (wanted >= 0) & (token >= 0):
        mask = mask_row(row, state_row, state_enough, FEATURES)
        flags = tl.load(row + FLAGS)
        raw_mode = (flags & PROCESSED_LOGPROBS) == 0
        limit_x = float_field(notes, KEPT_X)
        limit_id = tl.load(notes + KEPT_ID)
        inverse = float_field(row, INVERSE_TEMPERATURE)
        inverse = tl.where(raw_mode | ((flags & GREEDY) != 0), 1.0, inverse)
        lane = tl.arange(0, TILES)
        value = tl.full((), NEGATIVE_INFINITY, tl.float32)
        for first in range(0, vocab_size, TILES * TILE):
            x, ids = _reported_tile(
                first, raw_mode, limit_x, limit_id, logits, row, mask, vocab_size,
                masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, TILES,
            )  # fmt: skip
            slots = first // TILE + lane
            tl.store(peaks + slots, tl.max(x, axis=1), mask=slots * TILE < vocab_size)
            own = tl.where(ids == token, x, NEGATIVE_INFINITY)
            value = tl.maximum(value, tl.max(tl.max(own, axis=1), axis=0))
        tl.debug_barrier()
        tiles = tl.arange(0, P)
        peak = tl.load(peaks + tiles, mask=tiles * TILE < vocab_size, other=NEGATIVE_INFINITY)
        largest = tl.max(peak, axis=0)
        total = tl.zeros((), tl.float32)
        rank = tl.full((), 1, tl.int32)
        for first in range(0, vocab_size, TILES * TILE):
            x, ids = _reported_tile(
                first, raw_mode, limit_x, limit_id, logits, row, mask, vocab_size,
                masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, TILES,
            )  # fmt: skip
            sums = halving_sums(tl.exp((x - largest) * inverse), TILES)
            for tile in tl.static_range(TILES):
                total += tl.sum(tl.where(lane == tile, sums, 0.0), axis=0)
            ahead = (x > value) | ((x == value) & (ids < token))
            rank += tl.sum(tl.sum(ahead.to(tl.int32), axis=1), axis=0)
        log_total = tl.log(total.to(tl.float64))
        wide = largest.to(tl.float64)
        scale = inverse.to(tl.float64)
        tl.store(out_rank + index, rank)
        tl.store(out_logprob + index, (value.to(tl.float64) - wide) * scale - log_total)
        # The tokens listed so far are a prefix of the ranking; `last` ends it.
        last_x = tl.full((), POSITIVE_INFINITY, tl.float32)
        last_id = tl.full((), -1, tl.int32)
        for place in range(MOST):
            best = tl.max(peak, axis=0)
            some = (place < wanted) & (best > NEGATIVE_INFINITY)
            if some:
                tile_index = tl.min(tl.where(peak == best, tiles, P), axis=0)
                x, ids = _reported_tile(
                    tile_index * TILE, raw_mode, limit_x, limit_id, logits, row, mask, vocab_size,
                    masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, 1,
                )  # fmt: skip
                fresh = (x == best) & ((x < last_x) | (ids > last_id))
                last_id = tl.min(tl.min(tl.where(fresh, ids, NO_ID), axis=1), axis=0)
                last_x = best
                after = (x < last_x) | ((x == last_x) & (ids > last_id))
                rest = tl.max(tl.max(tl.where(after, x, NEGATIVE_INFINITY), axis=1), axis=0)
                peak = tl.where(tiles == tile_index, rest, peak)
            tl.store(out_ids + index * MOST + place, tl.where(some, last_id, -1))
            logprob = (best.to(tl.float64) - wide) * scale - log_total
            tl.store(out_logprobs + index * MOST + place, tl.where(some, logprob, 0.0))
