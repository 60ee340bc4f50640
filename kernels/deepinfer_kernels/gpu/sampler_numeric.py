# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Numbers that are the same bits on every device: noise words, Gumbel noise, weights, scores.

Device functions; each equals its namesake of `philox`, `fixed_point` and `draw` bit for bit. Only
integer operations and single correctly rounded float32 operations decide anything, so kernels that
use them are launched with `enable_fp_fusion=False`. Unsigned words are never divided or compared.
`score_bound` is an estimate: it may only rule things out, with `slack`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.fixed_point import EXP2_COEFFICIENTS

NEGATIVE_INFINITY = tl.constexpr(float("-inf"))
POSITIVE_INFINITY = tl.constexpr(float("inf"))
NO_ID = tl.constexpr(0x7FFFFFFF)
WEIGHT_UNIT = tl.constexpr(2.0**-30)
LOWEST_SCORE = tl.constexpr(-(1 << 63))

_C0 = tl.constexpr(EXP2_COEFFICIENTS[0])
_C1 = tl.constexpr(EXP2_COEFFICIENTS[1])
_C2 = tl.constexpr(EXP2_COEFFICIENTS[2])
_C3 = tl.constexpr(EXP2_COEFFICIENTS[3])
_C4 = tl.constexpr(EXP2_COEFFICIENTS[4])
_C5 = tl.constexpr(EXP2_COEFFICIENTS[5])
_LOG2_LOG2E_Q30 = tl.constexpr(567758570)
NOISE_OFFSET = tl.constexpr(158.4713)  # 127 + 32 - log2(log2 e), rounded up
_FAR = tl.constexpr(2.0**39)
_FAR_BITS = tl.constexpr(0x53000000)


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox4x32 on uint32 counters and keys; the four words."""
    for _ in tl.static_range(10):
        left = c0.to(tl.uint64) * 0xD2511F53
        right = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (right >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = right.to(tl.uint32)
        c2 = (left >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = left.to(tl.uint32)
        k0 = (k0.to(tl.uint64) + 0x9E3779B9).to(tl.uint32)
        k1 = (k1.to(tl.uint64) + 0xBB67AE85).to(tl.uint32)
    return c0, c1, c2, c3


@triton.jit
def score_bound(t, word):
    """Estimate of t plus the Gumbel noise of a word from above, less `NOISE_OFFSET`; base-2 units.

    The bits of a float32 grow with its logarithm, linearly between powers of two and never above
    it, so they bound -log2(u) with one conversion instead of a logarithm. Loose by at most 0.09.
    """
    bits = word.to(tl.float32).to(tl.int32, bitcast=True).to(tl.float32)
    return tl.fma(bits, -1.1920928955078125e-07, t)


@triton.jit
def slack(value):
    """Bounds what rounding can do to an estimate near `value`, with a wide margin."""
    return 0.0078125 + tl.abs(value) * 3.814697265625e-06


@triton.jit
def _log2_q30(value, table):
    # The exponent of a float32 that was rounded up to a power of two is one too large.
    exponent = (value.to(tl.float32).to(tl.int32, bitcast=True) >> 23).to(tl.int64) - 127
    exponent = tl.where((value >> exponent) == 0, exponent - 1, exponent)
    mantissa = value << (52 - exponent)
    index = ((mantissa >> 40) & 4095).to(tl.int32)
    low = tl.load(table + index).to(tl.int64)
    high = tl.load(table + index + 1).to(tl.int64)
    part = (mantissa >> 20) & 0xFFFFF
    return (exponent << 30) + low + (((high - low) * part + 524288) >> 20)


@triton.jit
def gumbel_q22(word, table):
    """Gumbel noise of uint32 words in Q22; `table` is int32 [4097], log2 in Q30."""
    odd = 2 * word.to(tl.int64) + 1
    small = odd < 8388608
    plain = (33 << 30) - _log2_q30((1 << 33) - tl.where(small, 8388609, odd), table)
    series = tl.where(small, odd, 1)
    series = (series << 20) + ((series * series) >> 14)
    outer = _log2_q30(tl.where(small, series, plain), table)
    noise = tl.where(small, (53 << 30) - outer - _LOG2_LOG2E_Q30, (30 << 30) - outer)
    return (noise + 128) >> 8


@triton.jit
def scaled_score(t):
    """round(t * 2**22) as int64, halves to even; beyond 2**39 the score counts float32 steps."""
    near = tl.minimum(tl.maximum(t, -_FAR), _FAR) * 4194304.0
    whole = near.to(tl.int64)
    rest = near - whole.to(tl.float32)
    size = tl.abs(rest)
    away = (size > 0.5) | ((size == 0.5) & ((whole & 1) == 1))
    score = tl.where(away, tl.where(rest > 0, whole + 1, whole - 1), whole)
    steps = (t.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.int64) - _FAR_BITS
    far = (1 << 61) + (steps << 30)
    return tl.where(t >= _FAR, far, tl.where(t <= -_FAR, -far, score))


@triton.jit
def weight(t):
    """2**t for t <= 0 as int32 in [0, 2**30]."""
    clipped = tl.maximum(t, -31.0)
    whole = tl.floor(clipped)
    fraction = clipped - whole
    value = fraction * _C5 + _C4
    value = value * fraction + _C3
    value = value * fraction + _C2
    value = value * fraction + _C1
    value = value * fraction + _C0
    # The polynomial stays in [1, 2), so value * 2**30 is its mantissa, shifted.
    bits = ((value.to(tl.int32, bitcast=True) & 0x7FFFFF) | 0x800000) << 7
    return bits >> (-whole).to(tl.int32)


@triton.jit
def order_key(x):
    """Monotone int32 image of float32; -0 maps to +0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def key_value(key):
    """The float32 whose `order_key` this is."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def ranked_within(x, ids, bound_x, bound_id):
    """Whether a token is finite and ranks at or before (bound_x, bound_id)."""
    return (x > NEGATIVE_INFINITY) & ((x > bound_x) | ((x == bound_x) & (ids <= bound_id)))
