"""Fixed-point functions with the same bits everywhere: 2**t as a weight, and Gumbel noise.

After the last float operation per element everything is integer arithmetic; integer sums and
maxima do not depend on order. The coefficients and the table below are published constants: any
other implementation must use these. Floats are used only where each step is one correctly
rounded float32 operation, or to find the bit length of an integer (exact).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

WEIGHT_ONE = 1 << 30
"""The weight of the best token: `exp2_fixed(0)`."""

GUMBEL_BITS = 22
"""Fraction bits of the noise and of the scores it is added to."""
GUMBEL_ABOVE = -5.1
"""Every noise value is above this."""
GUMBEL_BELOW = 32.5
"""Every noise value is below this."""

EXP2_COEFFICIENTS = tuple(
    float.fromhex(text)
    for text in (
        "0x1.0p+0",
        "0x1.62e4bap-1",
        "0x1.ebdb56p-3",
        "0x1.c91ce6p-5",
        "0x1.277854p-7",
        "0x1.e974fep-10",
    )
)
"""2**f on [0, 1], lowest degree first; float32 Horner, relative error below 2**-22."""

_COEFFICIENTS = tuple(np.float32(value) for value in EXP2_COEFFICIENTS)
_SCALE = np.float32(WEIGHT_ONE)
_FLOOR = np.float32(-63.0)

LOG2_TABLE_BITS = 12
LOG2_TABLE: NDArray[np.int64] = np.array(
    [round(math.log2(1 + i / 4096) * (1 << 30)) for i in range(4097)], dtype=np.int64
)
"""log2(1 + i/4096) in Q30 for i in 0..4096."""
LOG2_TABLE.setflags(write=False)
_LOG2_STEP: NDArray[np.int64] = np.diff(LOG2_TABLE)
_HALF_STEP = 1 << 19

_LOG2_LOG2E_Q30 = 567758570
"""log2(log2(e)) in Q30."""
_SERIES_BELOW = 1 << 23
"""Numerator 2k+1 of u = (2k+1)/2**33 at u = 2**-10."""


def exp2_fixed(t: NDArray[np.float32]) -> NDArray[np.int64]:
    """2**t as an integer weight.

    `t` is split into floor(t) + f; the polynomial in f is scaled to 2**30 and shifted right.

    Args:
        t: float32 [n], each <= 0; -inf gives 0.

    Returns:
        int64 [n] in [0, 2**30]; relative error below 2**-22 before the shift drops low bits.
    """
    clipped = np.maximum(t, _FLOOR)
    whole = np.floor(clipped)
    fraction = clipped - whole
    value = np.full_like(fraction, _COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        value *= fraction
        value += coefficient
    value *= _SCALE
    weights: NDArray[np.int64] = value.astype(np.int64) >> (-whole).astype(np.int64)
    return weights


def log2_q30(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """log2 of positive integers below 2**53 in Q30: leading-zero normalisation and the table.

    The 12 bits after the leading one select the entry, the next 20 interpolate, rounded (lower
    bits are dropped), so the result never decreases with the argument.

    Args:
        values: int64 [n], each in [1, 2**53).

    Returns:
        int64 [n].
    """
    # The bits of an exact float64 are the normalised integer: exponent, then mantissa.
    bits = values.astype(np.float64).view(np.int64)
    exponent = (bits >> 52) - 1023
    index = (bits >> 40) & 4095
    rest = (bits >> 20) & 0xFFFFF
    result: NDArray[np.int64] = (
        (exponent << 30) + LOG2_TABLE[index] + ((_LOG2_STEP[index] * rest + _HALF_STEP) >> 20)
    )
    return result


def gumbel_q22(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Standard Gumbel noise in base-2 units, -log2(-log2(1-u)) with u = (2k+1)/2**33, in Q22.

    Args:
        words: uint32 [n], the random words k.

    Returns:
        int64 [n], non-increasing in k, between `GUMBEL_ABOVE` and `GUMBEL_BELOW` times 2**22,
        within 3.7e-6 of the exact value.
    """
    odd = 2 * words.astype(np.int64) + 1
    small = odd < _SERIES_BELOW
    # -log2(1-u) in Q30 from the table; where u < 2**-10 the argument is replaced by a valid one.
    plain = (33 << 30) - log2_q30((1 << 33) - np.where(small, _SERIES_BELOW + 1, odd))
    # -ln(1-u) = u + u*u/2 in Q53 below 2**-10; the factor log2(e) is added after the logarithm.
    series = np.where(small, odd, 1)
    series = (series << 20) + ((series * series) >> 14)
    noise = np.where(
        small,
        (53 << 30) - log2_q30(series) - _LOG2_LOG2E_Q30,
        (30 << 30) - log2_q30(plain),
    )
    result: NDArray[np.int64] = (noise + 128) >> 8
    return result
