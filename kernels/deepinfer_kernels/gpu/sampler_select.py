# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Device functions: the exact end of a prefix of the ranking, by count (top-k) or mass (top-p).

A threshold key is narrowed until few candidates are left; those are gathered, and the bits of
(key, id) are decided one by one. Counts and masses are integers, so the result is exact.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .sampler_numeric import (
    NEGATIVE_INFINITY,
    NO_ID,
    key_value,
    order_key,
    ranked_within,
    weight,
)
from .sampler_tile import SCALE, float_field
from .sampler_winner import listed_granules, listed_tile, measure_row

ID_BITS = tl.constexpr(18)
_KEY_OFFSET = tl.constexpr(1 << 31)
_LAST_ID = tl.constexpr((1 << 18) - 1)


@triton.jit
def composite(x, ids):
    """Order of tokens as one int64 >= 0: larger is earlier."""
    key = order_key(x).to(tl.int64) + _KEY_OFFSET
    return (key << ID_BITS) | (ids.to(tl.int64) ^ _LAST_ID)


@triton.jit
def composite_value(code):
    """Logit of a composite."""
    return key_value(((code >> ID_BITS) - _KEY_OFFSET).to(tl.int32))


@triton.jit
def composite_id(code):
    """Token id of a composite."""
    return ((code & _LAST_ID) ^ _LAST_ID).to(tl.int32)


@triton.jit
def gather_row(
    gathered, capacity, bound_x, limit_x, limit_id, visit, largest, granules,
    logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Store the composites of tokens with logits >= bound_x within the limit; how many."""
    count = listed_granules(visit, largest, granules, bound_x, G)
    flat: tl.constexpr = (GRANULE * W,)
    used = tl.zeros((), tl.int32)
    for start in range(0, count, W):
        x, ids, _, _ = listed_tile(
            start, count, visit, logits, row, mask, vocab_size,
            masks, counts, seen, bias_ids, bias_values, banned_ids, FEATURES, GRANULE, W,
        )  # fmt: skip
        chosen = ranked_within(x, ids, bound_x, NO_ID) & ranked_within(x, ids, limit_x, limit_id)
        chosen = tl.reshape(chosen, flat)
        place = used + tl.cumsum(chosen.to(tl.int32), axis=0) - 1
        codes = tl.reshape(composite(x, ids), flat)
        tl.store(gathered + place, codes, mask=chosen & (place < capacity))
        used += tl.sum(chosen.to(tl.int32), axis=0)
    tl.debug_barrier()
    return used


@triton.jit
def _granule_threshold(target, largest, granules, G: tl.constexpr):
    """Key of the target-th largest granule maximum: at least `target` tokens reach it."""
    lane = tl.arange(0, G)
    top = tl.load(largest + lane, mask=lane < granules, other=NEGATIVE_INFINITY)
    keys = tl.where(top > NEGATIVE_INFINITY, order_key(top).to(tl.int64) + _KEY_OFFSET, 0)
    found = tl.zeros((), tl.int64)
    for i in range(32):
        trial = found | (tl.full((), 1, tl.int64) << (31 - i))
        enough = tl.sum((keys >= trial).to(tl.int32), axis=0).to(tl.int64) >= target
        found = tl.where(enough, trial, found)
    return found


@triton.jit
def prefix_end(
    target, limit_x, limit_id, most, gathered, capacity, visit, largest, granules,
    logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
    MASS: tl.constexpr, FEATURES: tl.constexpr, GRANULE: tl.constexpr, G: tl.constexpr,
    W: tl.constexpr, CAPACITY: tl.constexpr,
):  # fmt: skip
    """Last token (logit, id) of the shortest prefix whose count or mass reaches `target`.

    Only tokens within the limit are in question; (-inf, NO_ID) if all of them fall short of
    `target`. `most` is the largest logit, to which weights refer.
    """
    # Invariant: measure(key >= low) >= target > measure(key >= high); keys with an offset of 2**31.
    lowest = order_key(tl.full((), NEGATIVE_INFINITY, tl.float32)).to(tl.int64) + _KEY_OFFSET + 1
    low = lowest
    if not MASS:
        low = tl.maximum(low, _granule_threshold(target, largest, granules, G))
    high = order_key(most).to(tl.int64) + _KEY_OFFSET + 1
    amount, number = measure_row(
        key_value((low - _KEY_OFFSET).to(tl.int32)), NO_ID, limit_x, limit_id, most, visit,
        largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
        bias_values, banned_ids, MASS, FEATURES, GRANULE, G, W,
    )  # fmt: skip
    short = amount < target
    high = tl.where(short, low, high)
    while (number > capacity) & (high - low > 1):
        middle = (low + high) >> 1
        amount, some = measure_row(
            key_value((middle - _KEY_OFFSET).to(tl.int32)), NO_ID, limit_x, limit_id, most, visit,
            largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
            bias_values, banned_ids, MASS, FEATURES, GRANULE, G, W,
        )  # fmt: skip
        enough = amount >= target
        low = tl.where(enough, middle, low)
        number = tl.where(enough, some, number)
        high = tl.where(enough, high, middle)
    value = key_value((low - _KEY_OFFSET).to(tl.int32))
    token = tl.zeros((), tl.int32)
    if number <= capacity:
        used = gather_row(
            gathered, capacity, value, limit_x, limit_id, visit, largest, granules,
            logits, row, mask, vocab_size, masks, counts, seen, bias_ids, bias_values, banned_ids,
            FEATURES, GRANULE, G, W,
        )  # fmt: skip
        lane = tl.arange(0, CAPACITY)
        codes = tl.load(gathered + lane, mask=lane < used, other=-1)
        amounts = (codes >= 0).to(tl.int64)
        if MASS:
            t = (composite_value(codes) - most) * float_field(row, SCALE)
            amounts = tl.where(codes >= 0, weight(t), 0).to(tl.int64)
        found = tl.zeros((), tl.int64)
        for i in range(50):
            trial = found | (tl.full((), 1, tl.int64) << (49 - i))
            reached = tl.sum(tl.where(codes >= trial, amounts, 0), axis=0)
            found = tl.where(reached >= target, trial, found)
        value = composite_value(found)
        token = composite_id(found)
    else:
        # One logit is left, shared by many tokens: the id decides.
        below = tl.full((), -1, tl.int32)
        token = tl.where(short, 0, vocab_size - 1)
        while token - below > 1:
            middle_id = (below + token) >> 1
            amount, _ = measure_row(
                value, middle_id, limit_x, limit_id, most, visit,
                largest, granules, logits, row, mask, vocab_size, masks, counts, seen, bias_ids,
                bias_values, banned_ids, MASS, FEATURES, GRANULE, G, W,
            )  # fmt: skip
            enough_ids = amount >= target
            token = tl.where(enough_ids, middle_id, token)
            below = tl.where(enough_ids, below, middle_id)
    return tl.where(short, NEGATIVE_INFINITY, value), tl.where(short, NO_ID, token)
