"""Every op in plain torch and NumPy, float32: the meaning that fast versions are tested against.

All are row-invariant: the bits of a row do not depend on the other rows, their number, or its
index. Products run in fixed row tiles, reductions over a fixed last axis, and exponentials in
NumPy, whose float32 result does not depend on the index of an element in a contiguous array.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from .segments import KV_SPLIT, Segment
from .weights import Weight

ROW_TILE = 8
"""Rows of one matrix product; shorter inputs are padded with zeros."""

_QUERY_TILE = 16


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See `ops.rms_norm`."""
    values = x.contiguous().numpy()
    mean = np.add.reduce(values * values, axis=-1, keepdims=True) / np.float32(x.shape[-1])
    factor = np.float32(1) / np.sqrt(mean + np.float32(eps))
    return torch.from_numpy(values * factor * weight.numpy())


def rope(
    x: torch.Tensor, positions: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """See `ops.rope`."""
    half = cos.shape[1]
    c = cos[positions][:, None, :]
    s = sin[positions][:, None, :]
    first, second = x[..., :half], x[..., half : 2 * half]
    parts = [first * c - second * s, second * c + first * s, x[..., 2 * half :]]
    return torch.cat(parts, dim=-1)


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """See `ops.silu_mul`."""
    g = gate.contiguous().numpy()
    with np.errstate(over="ignore"):
        sigmoid = np.float32(1) / (np.float32(1) + np.exp(-g))
    return torch.from_numpy(g * sigmoid * up.numpy())


def linear(x: torch.Tensor, weight: Weight) -> torch.Tensor:
    """See `ops.linear`."""
    rows, matrix = x.shape[0], weight.dense()
    padded = functional.pad(x, (0, 0, 0, -rows % ROW_TILE))
    tiles = [functional.linear(tile, matrix) for tile in padded.split(ROW_TILE)]
    return torch.cat(tiles)[:rows] if tiles else x.new_zeros(0, matrix.shape[0])


def write_kv(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """See `ops.write_kv`."""
    k_cache.view(-1, *k_cache.shape[2:])[slots] = k
    v_cache.view(-1, *v_cache.shape[2:])[slots] = v


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    segments: list[Segment],
    scale: float,
) -> torch.Tensor:
    """See `ops.paged_attention`."""
    out = torch.empty_like(q)
    row = 0
    for segment in segments:
        keys = k_cache[segment.block_ids].flatten(0, 1)
        values = v_cache[segment.block_ids].flatten(0, 1)
        for begin in range(0, segment.num_rows, _QUERY_TILE):
            count = min(_QUERY_TILE, segment.num_rows - begin)
            tile = slice(row + begin, row + begin + count)
            out[tile] = _attend(q[tile], keys, values, segment.first_position + begin, scale)
        row += segment.num_rows
    return out


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, first: int, scale: float
) -> torch.Tensor:
    """One tile of up to 16 query rows of one sequence against its keys, split by split."""
    rows, heads, dim = q.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    lanes = group * _QUERY_TILE
    queries = functional.pad(q * scale, (0, 0, 0, 0, 0, _QUERY_TILE - rows))
    # [kv heads, group * tile, dim], so that every product has one shape.
    queries = queries.view(_QUERY_TILE, kv_heads, group, dim).permute(1, 2, 0, 3)
    queries = queries.reshape(kv_heads, lanes, dim)
    limits = torch.arange(first, first + _QUERY_TILE).repeat(group)[None, :, None]
    best = np.full((kv_heads, lanes, 1), -np.inf, dtype=np.float32)
    mass = np.zeros((kv_heads, lanes, 1), dtype=np.float32)
    mixed = np.zeros((kv_heads, lanes, dim), dtype=np.float32)
    for begin in range(0, first + rows, KV_SPLIT):
        end = min(begin + KV_SPLIT, first + rows)
        pad = (0, 0, 0, 0, 0, KV_SPLIT - (end - begin))
        k = functional.pad(keys[begin:end], pad).permute(1, 2, 0)
        v = functional.pad(values[begin:end], pad).transpose(0, 1)
        hidden = torch.arange(begin, begin + KV_SPLIT)[None, None, :] > limits
        scores = torch.bmm(queries, k).masked_fill_(hidden, -torch.inf).numpy()
        new_best = np.maximum(best, scores.max(axis=-1, keepdims=True))
        shrink = np.exp(best - new_best)
        weights = np.exp(scores - new_best)
        mass = mass * shrink + np.add.reduce(weights, axis=-1, keepdims=True)
        product = torch.bmm(torch.from_numpy(weights), v.contiguous()).numpy()
        mixed = mixed * shrink + product
        best = new_best
    result = torch.from_numpy(mixed / mass).view(kv_heads, group, _QUERY_TILE, dim)
    return result.permute(2, 0, 1, 3).reshape(_QUERY_TILE, heads, dim)[:rows]
