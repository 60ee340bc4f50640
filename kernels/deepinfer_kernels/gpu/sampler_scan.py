# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernel that reads every row once, and what others share with it.

`scan` leaves for every granule the largest processed logit, an estimate of its mass and an upper
bound of its best score.
"""

from __future__ import annotations

import triton
import triton.language as tl

from . import sampler_rows as rows_module
from .sampler_numeric import (
    NOISE_OFFSET,
    POSITIVE_INFINITY,
    score_bound,
)
from .sampler_tile import (
    COLUMNS,
    LISTS,
    NO_MASK,
    PENALTIES,
    SCALE,
    float_field,
    granule_starts,
    mask_row,
    noise_address,
    processed_tile,
    raw_tile,
    tile_blocks,
    tile_ids,
    tile_noise,
)

FLAGS = tl.constexpr(rows_module.FLAGS)
GREEDY = tl.constexpr(rows_module.GREEDY)
TOP_P = tl.constexpr(rows_module.TOP_P)

# Phases of a row, in `record[row, 0]`: results are written; a candidate is to be ranked; bounds are
# to be found again within a limit; top-k is to be found first; the token is there, results are not
# (in the parity draw another kernel finds the token).
DONE = tl.constexpr(0)
RANK = tl.constexpr(1)
SEARCH = tl.constexpr(2)
SELECT = tl.constexpr(3)
CHOSEN = tl.constexpr(4)
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
_LARGE = tl.constexpr(2.0**39)


@triton.jit
def granule_bounds(t, base, blocks, low, high, sample, key_low, key_high):
    """Upper bounds of score / 2**22, best of each granule: float32 [W].

    `t` are scaled logits less the `base` of their lane.
    """
    noise = tile_noise(low, high, sample, key_low, key_high, blocks)
    bound = tl.max(tl.max(score_bound(t, noise), axis=3), axis=0)
    return tl.max(bound + base, axis=1) + NOISE_OFFSET


@triton.jit
def lane_base(lane, scale):
    """Scaled largest logit of each lane, where that is a number of ordinary size; else 0."""
    base = lane * scale
    return tl.where((base > -_LARGE) & (base < _LARGE), base, 0.0)


@triton.jit
def broken(x):
    """Whether any of four logits is NaN or +inf: int32 [K, W, 32]."""
    return tl.max(tl.where(x < POSITIVE_INFINITY, 0, 1), axis=3)


@triton.jit
def scan(
    logits, stride, vocab_size, table, largest, mass, upper, bad, granules, steps,
    queues, queue_stride, masks, state_row, state_enough, counts, seen, bias_ids, bias_values,
    banned_ids, FEATURES: tl.constexpr, K: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Per granule: `largest`, `mass` relative to it, `upper`; per program: `bad`."""
    part = tl.program_id(0)
    index = tl.program_id(1).to(tl.int64)
    if (part == 0) & (index == 0):
        tl.store(queues + tl.arange(0, 4) * queue_stride, 0)
    row = table + index * COLUMNS
    logits += index * stride
    largest += index * granules
    mass += index * granules
    upper += index * granules
    mask = mask_row(row, state_row, state_enough, FEATURES)
    cut = tl.load(row + TOP_P) >= 0
    noisy = (tl.load(row + FLAGS) & GREEDY) == 0
    scale = float_field(row, SCALE)
    low, high, sample, key_low, key_high = noise_address(row)
    wrong = tl.zeros((K, W, 32), tl.int32)
    if mask >= NO_MASK:
        for step in range(steps):
            first = (part * steps + step) * (K * W * 128)
            starts = granule_starts(first, K, W)
            blocks = tile_blocks(starts, K)
            ids = tile_ids(blocks)
            raw = raw_tile(logits, starts, vocab_size, K)
            slots = (part * steps + step) * W + tl.arange(0, W)
            inside = slots < granules
            x = processed_tile(
                raw, ids, starts, first, first + K * W * 128, row, mask, vocab_size,
                masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
            )  # fmt: skip
            wrong |= broken(raw)
            if (PENALTIES | LISTS) & FEATURES:
                wrong |= broken(x)
            # Lanes have a maximum each, so that only the last steps need all of them.
            lane = tl.max(tl.max(x, axis=3), axis=0)
            top = tl.max(lane, axis=1)
            tl.store(largest + slots, top, mask=inside)
            base = lane_base(lane, scale)
            t = tl.fma(x, tl.zeros_like(x) + scale, -base[None, :, :, None])
            if cut:
                near = tl.sum(tl.sum(tl.exp2(t), axis=3), axis=0)
                # A lane without tokens has no base of its own, and no mass.
                near *= tl.exp2(tl.minimum(base - lane_base(top, scale)[:, None], 0.0))
                tl.store(mass + slots, tl.sum(near, axis=1), mask=inside)
            if noisy:
                best = granule_bounds(t, base, blocks, low, high, sample, key_low, key_high)
                tl.store(upper + slots, best, mask=inside)
    tl.store(bad + index * granules + part, tl.max(tl.reshape(wrong, (K * W * 32,)), axis=0))


@triton.jit
def exact_sum(weights):
    """Sum of a tile of weights as int64; pairs, at most 2**31, are added in 32 bits first."""
    K: tl.constexpr = weights.shape[0]
    W: tl.constexpr = weights.shape[1]
    pairs = tl.sum(tl.reshape(weights, (K, W, 32, 2, 2)), axis=4)
    wide = pairs.to(tl.uint32).to(tl.int64)
    return tl.sum(tl.reshape(wide, (K * W * 64,)), axis=0)


@triton.jit
def needed_mass(total, fraction):
    """max(1, ceil(total * fraction / 2**24)) in pieces that stay below 2**63."""
    wide = fraction.to(tl.int64)
    high = (total >> 24) * wide
    low = ((total & 0xFFFFFF) * wide + 0xFFFFFF) >> 24
    return tl.maximum(high + low, 1)
