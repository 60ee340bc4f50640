"""Top-k, top-p and min-p as integer decisions over one total order of the tokens.

The order is: logit descending (-0 equals +0), then id ascending. Positions stand for ids: every
array here is in ascending id order, so "lower position" means "lower id". What is kept depends on
integer comparisons and exact integer sums only, never on the order of a float reduction.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .fixed_point import WEIGHT_ONE

TOP_P_BITS = 24
_BIN_SHIFT = 16


def order_keys(x: NDArray[np.float32]) -> NDArray[np.int32]:
    """Monotone integer image of float32 values: larger value, larger key; -0 maps to +0.

    Args:
        x: float32 [n], no NaN.

    Returns:
        int32 [n].
    """
    bits = (x + np.float32(0.0)).view(np.int32)
    keys: NDArray[np.int32] = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    return keys


def ranked(keys: NDArray[np.int32]) -> NDArray[np.int64]:
    """Positions in the total order, best first.

    Args:
        keys: int32 [n] from `order_keys`.

    Returns:
        int64 [n].
    """
    composite = (-keys.astype(np.int64) << 32) | np.arange(len(keys), dtype=np.int64)
    composite.sort()
    return composite & 0xFFFFFFFF


def keep_top_k(keys: NDArray[np.int32], k: int) -> NDArray[np.int64]:
    """Positions of the first k tokens of the order; exactly k when there are that many.

    Args:
        keys: int32 [n] from `order_keys`.
        k: at least 1.

    Returns:
        int64 [min(k, n)], ascending.
    """
    count = len(keys)
    if k >= count:
        return np.arange(count, dtype=np.int64)
    threshold = np.partition(keys, count - k)[count - k]
    kept = np.flatnonzero(keys >= threshold)
    surplus = len(kept) - k
    if surplus:
        tied = np.flatnonzero(keys[kept] == threshold)
        kept = np.delete(kept, tied[len(tied) - surplus :])
    return kept


def keep_top_p(
    keys: NDArray[np.int32], weights: NDArray[np.int64], fraction_q24: int
) -> NDArray[np.int64]:
    """Shortest prefix of the order whose weight reaches ceil(fraction * total weight).

    Args:
        keys: int32 [n] from `order_keys`, n >= 1.
        weights: int64 [n] in [0, 2**30], not increasing along the order.
        fraction_q24: the fraction in Q0.24; the first token survives even when this is 0.

    Returns:
        int64 [m], ascending, m >= 1.
    """
    total = int(weights.sum())
    need = max(1, -(-fraction_q24 * total >> TOP_P_BITS))
    # Mass per bin of the high key bits; sums stay below 2**53, so the float64 bins are exact.
    bins = keys >> _BIN_SHIFT
    lowest = int(bins.min())
    mass = np.bincount(bins - np.int32(lowest), weights=weights).astype(np.int64)
    reached = np.cumsum(mass[::-1])
    step = int(np.searchsorted(reached, need))
    last_bin = lowest + len(mass) - 1 - step
    before = int(reached[step] - mass[len(mass) - 1 - step])
    inside = np.flatnonzero(bins == last_bin)
    order = inside[ranked(keys[inside])]
    taken = int(np.searchsorted(np.cumsum(weights[order]), need - before)) + 1
    kept = np.concatenate([np.flatnonzero(bins > last_bin), order[:taken]])
    kept.sort()
    return kept


def top_p_q24(top_p: float) -> int:
    """`top_p` in Q0.24, rounded once."""
    return round(top_p * (1 << TOP_P_BITS))


def min_p_weight(min_p: float) -> int:
    """Smallest weight that survives: ceil(min_p * 2**30)."""
    return math.ceil(min_p * WEIGHT_ONE)
