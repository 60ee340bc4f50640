"""The tensor ops of a transformer step on CPU, float32; each is row-invariant.

Row-invariant: the bits of a row of the result depend on that row's input, the weights and (for
attention) its own keys and values; never on other rows, their number, the row's index, or how a
sequence was cut into steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import reference
from .rope import Llama3Scaling, rope_tables
from .segments import KV_SPLIT, Segment
from .weights import DenseWeight, Q4Weight, Q8Weight, Weight, concat_weights

__all__ = [
    "KV_SPLIT",
    "DenseWeight",
    "Llama3Scaling",
    "Q4Weight",
    "Q8Weight",
    "Segment",
    "Weight",
    "concat_weights",
    "embedding",
    "linear",
    "paged_attention",
    "rms_norm",
    "rope",
    "rope_tables",
    "silu_mul",
    "write_kv",
]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Root-mean-square norm: x / sqrt(mean(x**2) + eps) * weight.

    Args:
        x: float32 [R, D].
        weight: float32 [D].
        eps: added to the mean square.

    Returns:
        float32 [R, D].
    """
    return reference.rms_norm(x, weight, eps)


def rope(
    x: torch.Tensor, positions: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Rotate queries or keys by position: pairs are (i, i + dim/2), the half-split layout.

    Args:
        x: float32 [R, H, Dh].
        positions: int64 [R].
        cos: float32 [max_len, dim/2], from `rope_tables`; dim <= Dh, the rest passes through.
        sin: as `cos`.

    Returns:
        float32 [R, H, Dh].
    """
    return reference.rope(x, positions, cos, sin)


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Gated activation: gate * sigmoid(gate) * up.

    Args:
        gate: float32 [R, F]; may be a slice of a wider tensor.
        up: float32 [R, F]; may be a slice of a wider tensor.

    Returns:
        float32 [R, F].
    """
    return reference.silu_mul(gate, up)


def embedding(ids: torch.Tensor, table: Weight) -> torch.Tensor:
    """Rows of a table, dequantised.

    Args:
        ids: int64 [R].
        table: [V, D].

    Returns:
        float32 [R, D].
    """
    return table.rows(ids)


def linear(x: torch.Tensor, weight: Weight) -> torch.Tensor:
    """Matrix product x @ weight.T.

    Args:
        x: float32 [R, K].
        weight: [N, K].

    Returns:
        float32 [R, N].
    """
    return reference.linear(x, weight)


def write_kv(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Store keys and values of a step in the paged cache, in place.

    Args:
        k_cache: float32 [num_blocks, block_tokens, Hkv, Dh].
        v_cache: as `k_cache`.
        k: float32 [R, Hkv, Dh].
        v: as `k`.
        slots: int64 [R], block id * block_tokens + offset; distinct.
    """
    reference.write_kv(k_cache, v_cache, k, v, slots)


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    segments: Sequence[Segment],
    scale: float,
) -> torch.Tensor:
    """Causal attention of query rows over cached keys and values.

    Keys and values of the rows themselves must already be written. The key axis is cut at
    multiples of `KV_SPLIT` from position 0 and the parts are merged in ascending order.

    Args:
        q: float32 [R, H, Dh]; rows of all segments in order.
        k_cache: float32 [num_blocks, block_tokens, Hkv, Dh], Hkv divides H.
        v_cache: as `k_cache`.
        segments: one per sequence in the step; their rows add up to R.
        scale: factor of the scores.

    Returns:
        float32 [R, H, Dh].
    """
    return reference.paged_attention(q, k_cache, v_cache, list(segments), scale)
