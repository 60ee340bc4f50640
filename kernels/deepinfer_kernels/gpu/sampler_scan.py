# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels that read whole rows, some tiles per program: scan, rank, search.

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
KEPT_X = tl.constexpr(7)
KEPT_ID = tl.constexpr(8)
RECORD = tl.constexpr(16)


@triton.jit
def granule_bounds(x, row, blocks):
    """Upper bounds of score / 2**22, best of each granule: float32 [W]."""
    bound = score_bound(x * float_field(row, SCALE), row_noise(row, blocks))
    return tl.max(tl.max(tl.max(bound, axis=3), axis=0), axis=1) + NOISE_OFFSET


@triton.jit
def scan(
    logits, stride, vocab_size, table, largest, mass, upper, bad, granules, steps,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Per granule: `largest`, `mass` relative to it, `upper`; per program: `bad`."""
    part = tl.program_id(0)
    index = tl.program_id(1).to(tl.int64)
    row = table + index * COLUMNS
    logits += index * stride
    largest += index * granules
    mass += index * granules
    upper += index * granules
    tile = part * steps
    raw = raw_tile(logits, tile_ids(tile_blocks(tile * (K * W * 128), K, W)), vocab_size)
    mask = mask_row(row, state_row, state_enough, FEATURES)
    cut = tl.load(row + TOP_P) >= 0
    noisy = (tl.load(row + FLAGS) & GREEDY) == 0
    scale = float_field(row, SCALE)
    wrong = tl.zeros((K, W, 32), tl.int32)
    if mask >= NO_MASK:
        for step in range(steps):
            first = (tile + step) * (K * W * 128)
            blocks = tile_blocks(first, K, W)
            ids = tile_ids(blocks)
            # The next tile is on its way while this one is worked on.
            following = raw
            if step + 1 < steps:
                following = raw_tile(logits, ids + K * W * 128, vocab_size)
            slots = (tile + step) * W + tl.arange(0, W)
            inside = slots < granules
            x, later = processed_tile(
                raw, blocks, ids, first, first + K * W * 128, row, mask, vocab_size,
                masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
            )  # fmt: skip
            wrong |= tl.max(later | tl.where(raw < POSITIVE_INFINITY, 0, 1), axis=3)
            top = tl.max(tl.max(tl.max(x, axis=3), axis=0), axis=1)
            tl.store(largest + slots, top, mask=inside)
            if cut:
                base = tl.where(top > NEGATIVE_INFINITY, top, 0.0) * scale
                near = tl.exp2(x * scale - base[None, :, None, None])
                total = tl.sum(tl.sum(tl.sum(near, axis=3), axis=0), axis=1)
                tl.store(mass + slots, total, mask=inside)
            if noisy:
                tl.store(upper + slots, granule_bounds(x, row, blocks), mask=inside)
            raw = following
    tl.store(bad + index * granules + part, tl.max(tl.reshape(wrong, (K * W * 32,)), axis=0))


@triton.jit
def rank(
    logits, stride, vocab_size, table, record, totals, before, granules, steps,
    masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Per program: exact weight of all its tokens, and of those ranked before the candidate."""
    part = tl.program_id(0)
    # Last rows first: they are the likeliest to be in the cache.
    index = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    if tl.load(notes + PHASE) == RANK:
        mask = mask_row(row, state_row, state_enough, FEATURES)
        scale = float_field(row, SCALE)
        most = float_field(notes, LARGEST)
        value = float_field(notes, TOKEN_X)
        last = tl.load(notes + TOKEN) - 1
        total = tl.zeros((), tl.int64)
        ahead = tl.zeros((), tl.int64)
        for step in range(steps):
            first = (part * steps + step) * (K * W * 128)
            blocks = tile_blocks(first, K, W)
            ids = tile_ids(blocks)
            x, _ = processed_tile(
                raw_tile(logits, ids, vocab_size), blocks, ids, first, first + K * W * 128, row,
                mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
            )  # fmt: skip
            weights = weight((x - most) * scale)
            total += exact_sum(weights)
            ahead += exact_sum(tl.where(ranked_within(x, ids, value, last), weights, 0))
        tl.store(totals + index * granules + part, total)
        tl.store(before + index * granules + part, ahead)


@triton.jit
def exact_sum(weights):
    """Sum of a tile of weights as int64; pairs, at most 2**31, are added in 32 bits first."""
    K: tl.constexpr = weights.shape[0]
    W: tl.constexpr = weights.shape[1]
    pairs = tl.sum(tl.reshape(weights, (K, W, 32, 2, 2)), axis=4)
    wide = pairs.to(tl.uint32).to(tl.int64)
    return tl.sum(tl.reshape(wide, (K * W * 64,)), axis=0)


@triton.jit
def refused(notes, totals, before, row, parts, T: tl.constexpr):
    """Whether top-p cuts the candidate that was ranked, and the mass that a prefix needs."""
    lane = tl.arange(0, T)
    total = tl.sum(tl.load(totals + lane, mask=lane < parts, other=0), axis=0)
    ahead = tl.sum(tl.load(before + lane, mask=lane < parts, other=0), axis=0)
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
    logits, stride, vocab_size, table, record, totals, before, upper, largest, granules, parts,
    steps, masks, state_row, state_enough, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Bounds as in `scan`, over what the row may still draw from; rows that need it only."""
    part = tl.program_id(0)
    index = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    row = table + index * COLUMNS
    notes = record + index * RECORD
    logits += index * stride
    phase = tl.load(notes + PHASE)
    wanted = phase == SEARCH
    bound_x = float_field(notes, BOUND_X)
    bound_id = tl.load(notes + BOUND_ID)
    if phase == RANK:
        cut, _ = refused(notes, totals + index * granules, before + index * granules, row, parts, T)
        wanted = cut
        bound_x = float_field(notes, TOKEN_X)
        bound_id = tl.load(notes + TOKEN) - 1
    if wanted:
        mask = mask_row(row, state_row, state_enough, FEATURES)
        for step in range(steps):
            slots = (part * steps + step) * W + tl.arange(0, W)
            inside = slots < granules
            top = tl.load(largest + index * granules + slots, mask=inside, other=NEGATIVE_INFINITY)
            if tl.max(top, axis=0) >= bound_x:
                first = (part * steps + step) * (K * W * 128)
                blocks = tile_blocks(first, K, W)
                ids = tile_ids(blocks)
                x, _ = processed_tile(
                    raw_tile(logits, ids, vocab_size), blocks, ids, first, first + K * W * 128,
                    row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
                    FEATURES,
                )  # fmt: skip
                x = tl.where(ranked_within(x, ids, bound_x, bound_id), x, NEGATIVE_INFINITY)
                best = granule_bounds(x, row, blocks)
                tl.store(upper + index * granules + slots, best, mask=inside)
