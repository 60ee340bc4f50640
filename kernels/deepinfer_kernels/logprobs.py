"""Reported log-probabilities: fixed summation order, so a row's report ignores its batch.

The exact maximum is subtracted, float32 exponentials are summed in 1024-wide tiles of token ids
(halving inside a tile, tiles in ascending order). The float32 results x, m and the sum are then
combined in double precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .cuts import keep_top_k, order_keys, ranked

TILE = 1024


def tiled_sum(values: NDArray[np.float32]) -> np.float32:
    """Sum in an order that depends on the length only.

    Args:
        values: float32 [n], contiguous.

    Returns:
        The float32 sum.
    """
    tiles = (len(values) + TILE - 1) // TILE
    if tiles * TILE != len(values):
        values = np.concatenate([values, np.zeros(tiles * TILE - len(values), dtype=np.float32)])
    folded = values.reshape(tiles, TILE)
    width = TILE
    while width > 1:
        width //= 2
        folded = folded[:, :width] + folded[:, width:]
    return np.float32(np.add.accumulate(folded[:, 0])[-1])


def report(
    x: NDArray[np.float32],
    ids: NDArray[np.int64] | None,
    vocab_size: int,
    inverse_temperature: np.float32,
    token: int,
    top: int,
) -> tuple[float, int, tuple[tuple[int, float], ...]]:
    """Log-probability and rank of a token, and the most likely tokens.

    Args:
        x: float32 [n], logits; -inf has probability 0.
        ids: int64 [n], their token ids, ascending; None stands for 0..n-1.
        vocab_size: number of tokens, which fixes the tiles.
        inverse_temperature: 1 / temperature of the reported distribution.
        token: index into `x` of the token to report.
        top: how many of the most likely tokens to list; -inf logits are left out.

    Returns:
        Log-probability, rank from 1, and pairs (id, log-probability), best first.
    """
    largest = x.max()
    with np.errstate(over="ignore", under="ignore"):
        shifted = x - largest
        if inverse_temperature != 1:
            shifted *= inverse_temperature
        exponentials = np.exp(shifted)
    if ids is not None:
        spread = np.zeros(vocab_size, dtype=np.float32)
        spread[ids] = exponentials
        exponentials = spread
    log_sum = math.log(float(tiled_sum(exponentials)))

    def logprob(index: int) -> float:
        return (float(x[index]) - float(largest)) * float(inverse_temperature) - log_sum

    value = x[token]
    rank = 1 + int(np.count_nonzero(x > value)) + int(np.count_nonzero(x[:token] == value))
    listed: tuple[tuple[int, float], ...] = ()
    if top:
        keys = order_keys(x)
        kept = keep_top_k(keys, top)
        listed = tuple(
            (index if ids is None else int(ids[index]), logprob(index))
            for index in kept[ranked(keys[kept])].tolist()
            if x[index] > -np.inf
        )
    return logprob(token), rank, listed
