"""Philox4x32-10: counter-based random words, equal on every device.

A word is a pure function of (seed, position, stream, block, sample), so nothing about batching,
preemption or order of evaluation can reach it. Algorithm: Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3" (Random123), whose known-answer vectors are in the tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOKEN_STREAM = 0
"""Stream of the per-token noise of the default draw."""
SCALAR_STREAM = 1
"""Stream of the draws that need one number per row."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)
_ROUNDS = 10
# Round i uses key + i * these, modulo 2**32.
_KEY_STEPS = np.arange(_ROUNDS, dtype=np.uint64)[:, None, None] * np.array(
    [[0x9E3779B9], [0xBB67AE85]], dtype=np.uint64
)
_CHUNK = 4096


def philox4x32(counters: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Ten rounds of Philox4x32.

    Args:
        counters: uint64 [4, n], each word below 2**32.
        key: the two 32-bit key words.

    Returns:
        uint32 [n, 4], the four output words of each counter.
    """
    even = counters[0::2]
    odd = counters[1::2]
    for round_key in (np.array(key, dtype=np.uint64)[:, None] + _KEY_STEPS) & _LOW:
        product = even * _MULTIPLIERS
        even = product >> _HALF
        even = even[::-1] ^ odd
        even ^= round_key
        product &= _LOW
        odd = product[::-1]
    out = np.empty((counters.shape[1], 4), dtype=np.uint32)
    out[:, 0::2] = even.T
    out[:, 1::2] = odd.T
    return out


def noise_blocks(
    blocks: NDArray[np.int64], *, seed: int, position: int, stream: int, sample: int
) -> NDArray[np.uint32]:
    """The four words of each noise block.

    Key = (seed low, seed high); counter = (position low, (position high & 0xffff) | stream << 16,
    block, sample). Block `b` of the token stream holds the words of token ids 4b to 4b+3.

    Args:
        blocks: int64 [n], each in [0, 2**32).
        seed: unsigned 64-bit.
        position: absolute index in the sequence of the token being produced.
        stream: `TOKEN_STREAM` or `SCALAR_STREAM`.
        sample: index among the samples of a request.

    Returns:
        uint32 [n, 4].
    """
    key = (seed & 0xFFFFFFFF, seed >> 32)
    counters = np.empty((4, len(blocks)), dtype=np.uint64)
    counters[0] = position & 0xFFFFFFFF
    counters[1] = ((position >> 32) & 0xFFFF) | stream << 16
    counters[2] = blocks
    counters[3] = sample
    if len(blocks) <= _CHUNK:
        return philox4x32(counters, key)
    # Chunks keep the temporaries in the second-level cache.
    starts = range(0, len(blocks), _CHUNK)
    return np.concatenate([philox4x32(counters[:, at : at + _CHUNK], key) for at in starts])


def token_words(
    ids: NDArray[np.int64], *, seed: int, position: int, sample: int
) -> NDArray[np.uint32]:
    """The noise word of each token id: word `id & 3` of block `id >> 2` of the token stream.

    Args:
        ids: int64 [n], ascending, at least one.
        seed: unsigned 64-bit.
        position: absolute index in the sequence of the token being produced.
        sample: index among the samples of a request.

    Returns:
        uint32 [n].
    """
    first, last = int(ids[0]) >> 2, int(ids[-1]) >> 2
    if last - first < 2 * len(ids):
        # Dense enough: one contiguous run of blocks costs less than a block per id.
        run = np.arange(first, last + 1, dtype=np.int64)
        words = noise_blocks(
            run, seed=seed, position=position, stream=TOKEN_STREAM, sample=sample
        ).reshape(-1)
        return words[ids - 4 * first]
    per_id = noise_blocks(
        ids >> 2, seed=seed, position=position, stream=TOKEN_STREAM, sample=sample
    )
    picked: NDArray[np.uint32] = per_id[np.arange(len(ids)), ids & 3]
    return picked
