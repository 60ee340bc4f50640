"""Packed token masks: word i holds ids 32*i to 32*i+31, lowest bit first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def allowed_ids(mask: NDArray[np.uint32], vocab_size: int) -> NDArray[np.int64]:
    """Ids whose bit is set, ascending; only non-zero words are unpacked.

    Args:
        mask: uint32 [ceil(vocab_size / 32)]; bits at and above `vocab_size` are ignored.
        vocab_size: number of tokens.

    Returns:
        int64 [n].

    Raises:
        ValueError: the mask has another length or type.
    """
    expected = (vocab_size + 31) // 32
    if mask.dtype != np.uint32 or mask.shape != (expected,):
        raise ValueError(
            f"mask is {mask.dtype}{list(mask.shape)}; a vocabulary of {vocab_size} tokens "
            f"needs uint32[{expected}]"
        )
    words = np.flatnonzero(mask)
    octets = mask[words].astype("<u4", copy=False).view(np.uint8)
    bits = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(np.bool_))
    ids: NDArray[np.int64] = (words[bits >> 5] << 5) | (bits & 31)
    if len(ids) and ids[-1] >= vocab_size:
        ids = ids[ids < vocab_size]
    return ids
