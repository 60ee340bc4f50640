# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Device functions: the mask of a row, and logits of a tile after penalties, bias and masks.

A tile is int32/float32 [K, W, 32, 4]: W granules of K * 128 consecutive ids. With W warps a warp
owns a granule and a thread reads 16 bytes at a time; the last axis is one block of noise words.
"""

from __future__ import annotations

import triton
import triton.language as tl

from . import sampler_rows as rows_module
from .sampler_numeric import NEGATIVE_INFINITY, philox

COLUMNS = tl.constexpr(rows_module.COLUMNS)
SAMPLE = tl.constexpr(rows_module.SAMPLE)
STATE = tl.constexpr(rows_module.STATE)
LEFT = tl.constexpr(rows_module.LEFT)
OVERRIDE_STATE = tl.constexpr(rows_module.OVERRIDE_STATE)
OVERRIDE_LEFT = tl.constexpr(rows_module.OVERRIDE_LEFT)
OVERRIDE_ROW = tl.constexpr(rows_module.OVERRIDE_ROW)
SCALE = tl.constexpr(rows_module.SCALE)
PENALTY_SLOT = tl.constexpr(rows_module.PENALTY_SLOT)
REPETITION = tl.constexpr(rows_module.REPETITION)
PRESENCE = tl.constexpr(rows_module.PRESENCE)
FREQUENCY = tl.constexpr(rows_module.FREQUENCY)
BIAS_START = tl.constexpr(rows_module.BIAS_START)
BIAS_LENGTH = tl.constexpr(rows_module.BIAS_LENGTH)
BANNED_START = tl.constexpr(rows_module.BANNED_START)
BANNED_LENGTH = tl.constexpr(rows_module.BANNED_LENGTH)

AUTOMATA = tl.constexpr(rows_module.AUTOMATA)
PENALTIES = tl.constexpr(rows_module.PENALTIES)
LISTS = tl.constexpr(rows_module.LISTS)
HELD = tl.constexpr(rows_module.HELD)

# What `mask_row` returns besides the index of a packed row.
NO_MASK = tl.constexpr(-1)
MISSING = tl.constexpr(-2)
DEAD = tl.constexpr(-3)


@triton.jit
def float_field(row, column: tl.constexpr):
    """A float32 column of a parameter row."""
    return tl.load(row + column).to(tl.float32, bitcast=True)


@triton.jit
def mask_row(row, state_row, state_enough, FEATURES: tl.constexpr):
    """Index of the packed mask of a row, or `NO_MASK`, `MISSING`, `DEAD`."""
    result = tl.full((), NO_MASK, tl.int32)
    if AUTOMATA & FEATURES:
        state = tl.load(row + STATE)
        left = tl.load(row + LEFT)
        narrowed = tl.load(row + OVERRIDE_ROW)
        matches = (tl.load(row + OVERRIDE_STATE) == state) & (tl.load(row + OVERRIDE_LEFT) == left)
        safe = tl.maximum(state, 0)
        usual = tl.load(state_row + safe)
        enough = tl.load(state_enough + safe)
        known = tl.where((usual >= 0) & (left >= enough), usual, MISSING)
        known = tl.where(matches & (narrowed >= 0), narrowed, known)
        result = tl.where(state > 0, known, tl.where(state == 0, DEAD, NO_MASK))
        result = tl.where(state == HELD, MISSING, result)
    return result


@triton.jit
def granule_starts(first, K: tl.constexpr, W: tl.constexpr):
    """First ids int32 [W] of W granules in a row."""
    return first + tl.arange(0, W) * (K * 128)


@triton.jit
def tile_blocks(starts, K: tl.constexpr):
    """Noise blocks int32 [K, W, 32] of the granules that start at ids [W]."""
    lane = (starts // 4)[None, :, None] + tl.arange(0, 32)[None, None, :]
    return lane + (tl.arange(0, K) * 32)[:, None, None]


@triton.jit
def tile_ids(blocks):
    """Token ids [K, W, 32, 4] of noise blocks."""
    return blocks[:, :, :, None] * 4 + tl.arange(0, 4)[None, None, None, :]


@triton.jit
def raw_tile(logits, starts, vocab_size, K: tl.constexpr):
    """Logits of granules as float32 [K, W, 32, 4]; -inf beyond the vocabulary."""
    lane = starts[None, :, None, None] + (tl.arange(0, 32) * 4)[None, None, :, None]
    lane += tl.arange(0, 4)[None, None, None, :]
    step = (tl.arange(0, K) * 128)[:, None, None, None]
    # Two sums of pointers: the second is constant and costs no instruction.
    inside = lane + step < vocab_size
    return tl.load(logits + lane + step, mask=inside, other=NEGATIVE_INFINITY).to(tl.float32)


@triton.jit
def _penalised(x, ids, row, slot, vocab_size, counts, seen):
    words = (vocab_size + 31) // 32
    inside = ids < vocab_size
    bits = tl.load(seen + slot.to(tl.int64) * words + (ids >> 5), mask=inside, other=0)
    hit = ((bits >> (ids & 31)) & 1) == 1
    count = tl.load(counts + slot.to(tl.int64) * vocab_size + ids, mask=hit & inside, other=0)
    rho = float_field(row, REPETITION)
    y = x
    if rho != 1.0:
        y = tl.where(x > 0, tl.math.div_rn(x, tl.zeros_like(x) + rho), x * rho)
    frequency = float_field(row, FREQUENCY)
    presence = float_field(row, PRESENCE)
    if (frequency != 0.0) | (presence != 0.0):
        total = count.to(tl.float32) * frequency
        y = y - (total + tl.where(count > 0, 1.0, 0.0) * presence)
    return tl.where(hit, y, x)


@triton.jit
def _biased(x, ids, first, last, row, bias_ids, bias_values):
    start = tl.load(row + BIAS_START)
    length = tl.load(row + BIAS_LENGTH)
    for chunk in range(0, length, 32):
        lane = chunk + tl.arange(0, 32)
        token = tl.load(bias_ids + start + lane, mask=lane < length, other=-1)
        if tl.sum(((token >= first) & (token < last)).to(tl.int32), axis=0) > 0:
            for i in range(chunk, tl.minimum(chunk + 32, length)):
                one = tl.load(bias_ids + start + i)
                x = tl.where(ids == one, x + tl.load(bias_values + start + i), x)
    return x


@triton.jit
def _banned(x, ids, first, last, row, banned_ids):
    start = tl.load(row + BANNED_START)
    length = tl.load(row + BANNED_LENGTH)
    for chunk in range(0, length, 32):
        lane = chunk + tl.arange(0, 32)
        token = tl.load(banned_ids + start + lane, mask=lane < length, other=-1)
        if tl.sum(((token >= first) & (token < last)).to(tl.int32), axis=0) > 0:
            for i in range(chunk, tl.minimum(chunk + 32, length)):
                x = tl.where(ids == tl.load(banned_ids + start + i), NEGATIVE_INFINITY, x)
    return x


@triton.jit
def processed_tile(
    x, ids, starts, first, last, row, mask, vocab_size,
    masks, counts, seen, bias_ids, bias_values, banned_ids,
    FEATURES: tl.constexpr,
):  # fmt: skip
    """Penalties, bias, masks on raw logits `x`; tokens that may not come are -inf.

    `starts` are the first ids of its granules; `first` and `last` bound all its ids.
    """
    if PENALTIES & FEATURES:
        slot = tl.load(row + PENALTY_SLOT)
        if slot >= 0:
            x = _penalised(x, ids, row, slot, vocab_size, counts, seen)
    if LISTS & FEATURES:
        if tl.load(row + BIAS_LENGTH) > 0:
            x = _biased(x, ids, first, last, row, bias_ids, bias_values)
    if AUTOMATA & FEATURES:
        K: tl.constexpr = x.shape[0]
        words = (vocab_size + 31) // 32
        # The row of a mask that is not there is never read: its tokens are all allowed.
        lane = (starts // 32)[None, :, None] + (tl.arange(0, 32) // 8)[None, None, :]
        step = (tl.arange(0, K) * 4)[:, None, None]
        used = lane + step < tl.where(mask >= 0, words, 0)
        at = masks + tl.maximum(mask, 0).to(tl.int64) * words + lane
        packed = tl.load(at + step, mask=used, other=-1)
        # Four bits of a word belong to a block; what is left is one test per token.
        four = (packed >> ((tl.arange(0, 32) % 8) * 4)[None, None, :])[:, :, :, None]
        bit = four & (1 << tl.arange(0, 4))[None, None, None, :]
        x = tl.where(bit != 0, x, NEGATIVE_INFINITY)
    if LISTS & FEATURES:
        if tl.load(row + BANNED_LENGTH) > 0:
            x = _banned(x, ids, first, last, row, banned_ids)
    return x


@triton.jit
def noise_address(row):
    """Words of the noise that all tokens of a row share, uint32: position, sample, seed."""
    return (
        tl.load(row + 0).to(tl.uint32),
        (tl.load(row + 1) & 0xFFFF).to(tl.uint32),
        tl.load(row + SAMPLE).to(tl.uint32),
        tl.load(row + 2).to(tl.uint32),
        tl.load(row + 3).to(tl.uint32),
    )


@triton.jit
def tile_noise(low, high, sample, key_low, key_high, blocks):
    """The noise words uint32 [K, W, 32, 4] of a tile; tuples are no arguments in Triton 3.2."""
    zero = tl.zeros_like(blocks).to(tl.uint32)
    w0, w1, w2, w3 = philox(
        low + zero, high + zero, blocks.to(tl.uint32), sample + zero, key_low, key_high
    )
    words = tl.join(tl.join(w0, w2), tl.join(w1, w3))
    return tl.reshape(words, (blocks.shape[0], blocks.shape[1], 32, 4))
