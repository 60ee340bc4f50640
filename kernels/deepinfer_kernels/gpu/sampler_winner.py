# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Device functions for one program per row: the exact winner of the draw, and passes over a row.

Bounds from the scan say which granules can hold the winner; only those are scored in integers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .sampler_numeric import (
    LOWEST_SCORE,
    NEGATIVE_INFINITY,
    NO_ID,
    gumbel_q22,
    ranked_within,
    scaled_score,
    slack,
    weight,
)
from .sampler_scan import exact_sum, granule_bounds
from .sampler_tile import (
    SCALE,
    float_field,
    granule_starts,
    noise_address,
    processed_tile,
    raw_tile,
    tile_blocks,
    tile_ids,
    tile_noise,
)


@triton.jit
def granule_tile(
    granule, logits, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr,
):  # fmt: skip
    """Processed logits and blocks of one granule, [GRANULE / 128, 1, 32, 4]."""
    K: tl.constexpr = GRANULE // 128
    first = granule * GRANULE
    starts = granule_starts(first, K, 1)
    blocks = tile_blocks(starts, K)
    ids = tile_ids(blocks)
    x = processed_tile(
        raw_tile(logits, starts, vocab_size, K), ids, starts, first, first + GRANULE, row, mask,
        vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
    )  # fmt: skip
    return x, blocks


@triton.jit
def score_granule(x, blocks, row, bound_x, bound_id, log2_table):
    """Best exact score of a granule within a bound, its lowest id, its logit, and a lower bound."""
    scale = float_field(row, SCALE)
    flat: tl.constexpr = (x.shape[0] * x.shape[1] * 128,)
    ids = tile_ids(blocks)
    low, high, sample, key_low, key_high = noise_address(row)
    noise = tile_noise(low, high, sample, key_low, key_high, blocks)
    score = scaled_score(x * scale) + gumbel_q22(noise, log2_table)
    score = tl.where(ranked_within(x, ids, bound_x, bound_id), score, LOWEST_SCORE)
    best = tl.max(tl.reshape(score, flat), axis=0)
    token = tl.min(tl.reshape(tl.where(score == best, ids, NO_ID), flat), axis=0)
    value = tl.max(tl.reshape(tl.where(ids == token, x, NEGATIVE_INFINITY), flat), axis=0)
    t = value * scale
    certain = t + (best - scaled_score(t)).to(tl.float32) * 2.384185791015625e-07
    return best, token, value, certain - slack(certain)


@triton.jit
def exact_winner(
    upper, largest, granules, bound_x, bound_id, visits, log2_table, logits, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Token of the best score among those within the bound, its logit, and whether it is certain.

    Granules are scored exactly, the most promising first, until none left can reach the best, or
    `visits` of them have been scored. `upper` may be of a larger set: it is only less tight then.
    """
    lane = tl.arange(0, G)
    top = tl.load(largest + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    reach = tl.load(upper + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    # Infinity less infinity would be NaN, and a granule that is never chosen an endless loop.
    reach = tl.where(reach > NEGATIVE_INFINITY, reach + slack(reach), reach)
    waiting = ((top > NEGATIVE_INFINITY) & (top >= bound_x)).to(tl.int32)
    best = tl.full((), LOWEST_SCORE, tl.int64)
    token = tl.full((), NO_ID, tl.int32)
    value = tl.full((), NEGATIVE_INFINITY, tl.float32)
    left = tl.sum(waiting, axis=0)
    while (left > 0) & (visits > 0):
        most = tl.max(tl.where(waiting == 1, reach, NEGATIVE_INFINITY), axis=0)
        granule = tl.min(tl.where((waiting == 1) & (reach == most), lane, G), axis=0)
        x, blocks = granule_tile(
            granule, logits, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE,
        )  # fmt: skip
        score, candidate, candidate_x, certain = score_granule(
            x, blocks, row, bound_x, bound_id, log2_table
        )
        better = (score > best) | ((score == best) & (candidate < token))
        better = better & (score > LOWEST_SCORE)
        best = tl.where(better, score, best)
        token = tl.where(better, candidate, token)
        value = tl.where(better, candidate_x, value)
        # A comparison with NaN (infinite products) must not rule anything out.
        out = reach < tl.where(score > LOWEST_SCORE, certain, NEGATIVE_INFINITY)
        waiting = tl.where(out | (lane == granule), 0, waiting)
        left = tl.sum(waiting, axis=0)
        visits -= 1
    return token, value, left == 0


@triton.jit
def listed_granules(visit, largest, granules, bound_x, G: tl.constexpr):
    """Write the indices of granules that reach `bound_x` to `visit`; how many there are."""
    lane = tl.arange(0, G)
    top = tl.load(largest + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    chosen = (top > NEGATIVE_INFINITY) & (top >= bound_x)
    place = tl.cumsum(chosen.to(tl.int32), axis=0) - 1
    tl.debug_barrier()
    tl.store(visit + place, lane, mask=chosen)
    tl.debug_barrier()
    return tl.sum(chosen.to(tl.int32), axis=0)


@triton.jit
def listed_tile(
    start, count, visit, logits, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Processed logits, ids, blocks and granules of the W listed granules from `start` on."""
    K: tl.constexpr = GRANULE // 128
    place = start + tl.arange(0, W)
    granule = tl.load(visit + place, mask=place < count, other=0)
    # A granule beyond the list lies beyond the vocabulary.
    granule = tl.where(place < count, granule, (vocab_size + GRANULE - 1) // GRANULE)
    starts = granule * GRANULE
    blocks = tile_blocks(starts, K)
    ids = tile_ids(blocks)
    x = processed_tile(
        raw_tile(logits, starts, vocab_size, K), ids, starts, 0, vocab_size, row, mask, vocab_size,
        masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES,
    )  # fmt: skip
    return x, ids, blocks, granule


@triton.jit
def search_row(
    upper, visit, largest, granules, bound_x, bound_id, logits, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Bounds of what lies within (bound_x, bound_id), by one program; see `search`."""
    count = listed_granules(visit, largest, granules, bound_x, G)
    scale = float_field(row, SCALE)
    low, high, sample, key_low, key_high = noise_address(row)
    for start in range(0, count, W):
        x, ids, blocks, granule = listed_tile(
            start, count, visit, logits, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE, W,
        )  # fmt: skip
        x = tl.where(ranked_within(x, ids, bound_x, bound_id), x, NEGATIVE_INFINITY)
        best = granule_bounds(x * scale, 0.0, blocks, low, high, sample, key_low, key_high)
        tl.store(upper + granule, best, mask=granule < granules)
    tl.debug_barrier()


@triton.jit
def measure_row(
    bound_x, bound_id, limit_x, limit_id, most, visit, largest, granules,
    logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
    MASS: tl.constexpr, FEATURES: tl.constexpr, GRANULE: tl.constexpr,
    G: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Exact weight (or count) of what ranks within both bounds, and the count, as int64."""
    count = listed_granules(visit, largest, granules, bound_x, G)
    scale = float_field(row, SCALE)
    flat: tl.constexpr = (GRANULE * W,)
    amount = tl.zeros((), tl.int64)
    number = tl.zeros((), tl.int64)
    for start in range(0, count, W):
        x, ids, _, _ = listed_tile(
            start, count, visit, logits, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE, W,
        )  # fmt: skip
        chosen = ranked_within(x, ids, bound_x, bound_id) & ranked_within(x, ids, limit_x, limit_id)
        number += tl.sum(tl.reshape(chosen.to(tl.int32), flat), axis=0).to(tl.int64)
        if MASS:
            amount += exact_sum(tl.where(chosen, weight((x - most) * scale), 0))
    if not MASS:
        amount = number
    return amount, number
