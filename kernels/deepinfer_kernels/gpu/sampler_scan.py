# ruff: noqa: ANN001, ANN201, ANN202
# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels that read whole rows, a tile per program: scan, rank, search.

`scan` leaves for every granule the largest processed logit, an estimate of its mass and an upper
bound of its best score. `rank` sums exact weights before a candidate. `search` is the scan's bound
once more, for what ranks before a candidate that a cut refused.
"""

from __future__ import annotations

import triton
import triton.language as tl

from . import sampler_rows as rows_module
from .sampler_numeric import (
    NEGATIVE_INFINITY,
    NOISE_OFFSET,
    POSITIVE_INFINITY,
    ranked_within,
    score_bound,
    weight,
)
from .sampler_tile import (
    COLUMNS,
    NO_MASK,
    SCALE,
    float_field,
    mask_row,
    processed_tile,
    raw_tile,
    row_noise,
    tile_blocks,
    tile_ids,
)

FLAGS = tl.constexpr(rows_module.FLAGS)
GREEDY = tl.constexpr(rows_module.GREEDY)
TOP_P = tl.constexpr(rows_module.TOP_P)

# Phases of a row, in `record[row, 0]`.
DONE = tl.constexpr(0)
RANK = tl.constexpr(1)
SEARCH = tl.constexpr(2)
SELECT = tl.constexpr(3)
# Columns of the record of a row.
PHASE = tl.constexpr(0)
TOKEN = tl.constexpr(1)
TOKEN_X = tl.constexpr(2)
BOUND_X = tl.constexpr(3)
BOUND_ID = tl.constexpr(4)
STATUS = tl.constexpr(5)
LARGEST = tl.constexpr(6)
RECORD = tl.constexpr(8)


@triton.jit
def granule_bounds(x, row, blocks):
    """Upper bounds of score / 2**22, best of each granule: float32 [W]."""
    bound = score_bound(x * float_field(row, SCALE), row_noise(row, blocks))
    return tl.max(tl.max(tl.max(bound, axis=3), axis=0), axis=1) + NOISE_OFFSET


@triton.jit
def scan(
    logits, stride, vocab_size, table, largest, mass, upper, bad, granules,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Per granule: `largest`, `mass` relative to it, `upper`; per tile: `bad`."""
    tile = tl.program_id(0)
    index = tl.program_id(1).to(tl.int64)
    row = table + index * COLUMNS
    first = tile * (K * W * 128)
    blocks = tile_blocks(first, K, W)
    ids = tile_ids(blocks)
    raw = raw_tile(logits + index * stride, ids, vocab_size)
    mask = mask_row(row, state_row, state_enough, FEATURES)
    slots = tile * W + tl.arange(0, W)
    inside = slots < granules
    if mask >= NO_MASK:
        wrong = tl.where(raw < POSITIVE_INFINITY, 0, 1)
        x, later = processed_tile(
            raw, blocks, ids, first, first + K * W * 128, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
        )  # fmt: skip
        wrong = tl.max(tl.reshape(wrong | later, (K * W * 128,)), axis=0)
        tl.store(bad + index * granules + tile, wrong)
        top = tl.max(tl.max(tl.max(x, axis=3), axis=0), axis=1)
        tl.store(largest + index * granules + slots, top, mask=inside)
        if tl.load(row + TOP_P) >= 0:
            scale = float_field(row, SCALE)
            base = tl.where(top > NEGATIVE_INFINITY, top, 0.0) * scale
            near = tl.exp2(x * scale - base[None, :, None, None])
            total = tl.sum(tl.sum(tl.sum(near, axis=3), axis=0), axis=1)
            tl.store(mass + index * granules + slots, total, mask=inside)
        if (tl.load(row + FLAGS) & GREEDY) == 0:
            best = granule_bounds(x, row, blocks)
            tl.store(upper + index * granules + slots, best, mask=inside)


@triton.jit
def rank(
    logits, stride, vocab_size, table, record, totals, before, granules,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Per tile: exact weight of all its tokens, and of those that rank before the candidate."""
    tile = tl.program_id(0)
    # Last rows first: they are the likeliest to be in the cache.
    index = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    if tl.load(notes + PHASE) == RANK:
        first = tile * (K * W * 128)
        blocks = tile_blocks(first, K, W)
        ids = tile_ids(blocks)
        raw = raw_tile(logits + index * stride, ids, vocab_size)
        mask = mask_row(row, state_row, state_enough, FEATURES)
        x, _ = processed_tile(
            raw, blocks, ids, first, first + K * W * 128, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
        )  # fmt: skip
        scale = float_field(row, SCALE)
        weights = weight((x - float_field(notes, LARGEST)) * scale)
        token = tl.load(notes + TOKEN)
        ahead = ranked_within(x, ids, float_field(notes, TOKEN_X), token - 1)
        tl.store(totals + index * granules + tile, exact_sum(weights))
        tl.store(before + index * granules + tile, exact_sum(tl.where(ahead, weights, 0)))


@triton.jit
def exact_sum(weights):
    """Sum of a tile of weights as int64; pairs, at most 2**31, are added in 32 bits first."""
    K: tl.constexpr = weights.shape[0]
    W: tl.constexpr = weights.shape[1]
    pairs = tl.sum(tl.reshape(weights, (K, W, 32, 2, 2)), axis=4)
    wide = pairs.to(tl.uint32).to(tl.int64)
    return tl.sum(tl.reshape(wide, (K * W * 64,)), axis=0)


@triton.jit
def refused(notes, totals, before, row, tiles, T: tl.constexpr):
    """Whether top-p cuts the candidate that was ranked, and the mass that a prefix needs."""
    lane = tl.arange(0, T)
    total = tl.sum(tl.load(totals + lane, mask=lane < tiles, other=0), axis=0)
    ahead = tl.sum(tl.load(before + lane, mask=lane < tiles, other=0), axis=0)
    need = needed_mass(total, tl.load(row + TOP_P))
    return ahead >= need, need


@triton.jit
def needed_mass(total, fraction):
    """max(1, ceil(total * fraction / 2**24)) in pieces that stay below 2**63."""
    wide = fraction.to(tl.int64)
    high = (total >> 24) * wide
    low = ((total & 0xFFFFFF) * wide + 0xFFFFFF) >> 24
    return tl.maximum(high + low, 1)


@triton.jit
def search(
    logits, stride, vocab_size, table, record, totals, before, upper, largest, granules, tiles,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Bounds as in `scan`, over what the row may still draw from; rows that need it only."""
    tile = tl.program_id(0)
    index = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    phase = tl.load(notes + PHASE)
    wanted = phase == SEARCH
    bound_x = float_field(notes, BOUND_X)
    bound_id = tl.load(notes + BOUND_ID)
    if phase == RANK:
        cut, _ = refused(notes, totals + index * granules, before + index * granules, row, tiles, T)
        wanted = cut
        bound_x = float_field(notes, TOKEN_X)
        bound_id = tl.load(notes + TOKEN) - 1
    slots = tile * W + tl.arange(0, W)
    inside = slots < granules
    top = tl.load(largest + index * granules + slots, mask=inside, other=NEGATIVE_INFINITY)
    if wanted & (tl.max(top, axis=0) >= bound_x):
        first = tile * (K * W * 128)
        blocks = tile_blocks(first, K, W)
        ids = tile_ids(blocks)
        raw = raw_tile(logits + index * stride, ids, vocab_size)
        mask = mask_row(row, state_row, state_enough, FEATURES)
        x, _ = processed_tile(
            raw, blocks, ids, first, first + K * W * 128, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
        )  # fmt: skip
        x = tl.where(ranked_within(x, ids, bound_x, bound_id), x, NEGATIVE_INFINITY)
        tl.store(
            upper + index * granules + slots, granule_bounds(x, row, blocks), mask=inside
        )
