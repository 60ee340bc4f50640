"""Rotary embedding and attention over a paged cache.

The cache holds keys as [blocks, kv heads, head_dim, block tokens] and values as [blocks, kv heads,
block tokens, head_dim], so that inner loops run over independent outputs. Scores are summed over
channels in order, values over positions in order, from position 0: a row sees the same additions
whether it came alone, in a chunk, or in any batch.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from .elementwise import exp32
from .jit import compiled, parallel_lock
from .vector import add_float32_1


@compiled()
def _rope_and_store(qkv, positions, slots, cos, sin, queries, keys, values):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    heads, dim = queries.shape[1], queries.shape[2]
    kv_heads, block = keys.shape[1], keys.shape[3]
    half = dim // 2
    for r in range(qkv.shape[0]):
        position = positions[r]
        page, place = slots[r] // block, slots[r] % block
        for h in range(heads):
            for i in range(half):
                a, b = qkv[r, h * dim + i], qkv[r, h * dim + half + i]
                queries[r, h, i] = a * cos[position, i] - b * sin[position, i]
                queries[r, h, half + i] = b * cos[position, i] + a * sin[position, i]
        for h in range(kv_heads):
            at = (heads + h) * dim
            for i in range(half):
                a, b = qkv[r, at + i], qkv[r, at + half + i]
                keys[page, h, i, place] = a * cos[position, i] - b * sin[position, i]
                keys[page, h, half + i, place] = b * cos[position, i] + a * sin[position, i]
            at = (heads + kv_heads + h) * dim
            for i in range(dim):
                values[page, h, place, i] = qkv[r, at + i]


def rope_and_store(
    qkv: NDArray[np.float32],
    heads: int,
    positions: NDArray[np.int64],
    slots: NDArray[np.int64],
    tables: tuple[NDArray[np.float32], NDArray[np.float32]],
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Rotate queries and keys (halves layout) and write keys and values into the cache.

    Args:
        qkv: float32 [R, (heads + 2 kv_heads) * head_dim]: queries, keys, values side by side.
        heads: Number of query heads.
        positions: int64 [R], absolute.
        slots: int64 [R], block * block_tokens + offset; every slot at most once.
        tables: From `rope_tables`.
        keys: float32 [blocks, kv_heads, head_dim, block_tokens], written in place.
        values: float32 [blocks, kv_heads, block_tokens, head_dim], written in place.

    Returns:
        The rotated queries, float32 [R, heads, head_dim].
    """
    queries = np.empty((len(qkv), heads, keys.shape[2]), np.float32)
    _rope_and_store(qkv, positions, slots, tables[0], tables[1], queries, keys, values)
    return queries


@compiled()
def _add(w, w_at, w_stride, x, x_at, count, acc, acc_at, lanes):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """acc[j] += w[k, j] * x[k] for k in order; what is left over of 16 lanes goes one by one."""
    whole = lanes // 16 * 16
    add_float32_1(w, w_at, w_stride, x, x_at, 0, count, acc, acc_at, 0, whole)
    flat_w, flat_x = w.reshape(-1), x.reshape(-1)
    for j in range(whole, lanes):
        for k in range(count):
            acc[acc_at + j] += flat_w[w_at + k * w_stride + j] * flat_x[x_at + k]


@compiled(parallel=True)
def _attention(queries, keys, values, positions, sequences, tables, scale, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    rows, heads, dim = queries.shape
    kv_heads, block = keys.shape[1], keys.shape[3]
    group = heads // kv_heads
    for work in prange(rows * kv_heads):
        r, h = work // kv_heads, work % kv_heads
        length = positions[r] + 1
        pages = (length + block - 1) // block
        scores = np.empty(pages * block, np.float32)
        acc = np.empty(dim, np.float32)
        for g in range(group):
            head = h * group + g
            scores[:] = np.float32(0)
            for p in range(pages):
                page = tables[sequences[r], p]
                _add(
                    keys, (page * kv_heads + h) * dim * block, block,
                    queries, (r * heads + head) * dim, dim, scores, p * block, block,
                )  # fmt: skip
            most = scores[0]
            for t in range(length):
                most = max(most, scores[t])
            for t in range(length):
                scores[t] = exp32((scores[t] - most) * scale)
            total = 0.0
            for t in range(length):
                total += np.float64(scores[t])
            acc[:] = np.float32(0)
            for p in range(pages):
                page = tables[sequences[r], p]
                _add(
                    values, (page * kv_heads + h) * dim * block, dim,
                    scores, p * block, min(block, length - p * block), acc, 0, dim,
                )  # fmt: skip
            norm = np.float32(1.0 / total)
            for i in range(dim):
                out[r, head * dim + i] = acc[i] * norm


def attention(
    queries: NDArray[np.float32],
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    positions: NDArray[np.int64],
    sequences: NDArray[np.int64],
    tables: NDArray[np.int64],
    scale: float,
) -> NDArray[np.float32]:
    """Causal attention of each row over positions 0 to its own.

    Args:
        queries: float32 [R, heads, head_dim].
        keys: float32 [blocks, kv_heads, head_dim, block_tokens].
        values: float32 [blocks, kv_heads, block_tokens, head_dim].
        positions: int64 [R].
        sequences: int64 [R]: which row of `tables` the row belongs to.
        tables: int64 [S, most blocks]: block numbers of each sequence, in order.
        scale: Positive factor of the scores, usually head_dim ** -0.5.

    Returns:
        float32 [R, heads * head_dim]. Row r depends on its query and its sequence's cache alone.

    Raises:
        ValueError: The shapes do not fit together, or the cache is not contiguous.
    """
    rows, heads, dim = queries.shape
    blocks, kv_heads, _, block = keys.shape
    if keys.shape[2] != dim or values.shape != (blocks, kv_heads, block, dim) or heads % kv_heads:
        raise ValueError(
            f"queries {list(queries.shape)}, keys {list(keys.shape)} and values "
            f"{list(values.shape)} do not fit together"
        )
    if not (keys.flags.c_contiguous and values.flags.c_contiguous):
        raise ValueError("the cache must be C-contiguous")
    queries = np.ascontiguousarray(queries, np.float32)
    out = np.empty((rows, heads * dim), np.float32)
    with parallel_lock:
        _attention(queries, keys, values, positions, sequences, tables, np.float32(scale), out)
    return out
