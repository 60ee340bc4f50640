"""Matrix products and embedding lookups: y[r, n] = sum over k, in order, of w[n, k] * x[r, k]."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from .jit import compiled, parallel_lock
from .vector import (
    BLOCK,
    TILE,
    add_bfloat16,
    add_float32_1,
    add_float32_2,
    add_float32_3,
    add_float32_4,
    add_q4,
    add_q8,
)
from .weight import Weight

_ROWS = 64  # rows that share one unpacked block of weights; their sums stay in the cache


def linear(x: NDArray[np.float32], weight: Weight) -> NDArray[np.float32]:
    """Matrix product with a tiled weight.

    Args:
        x: float32 [R, K].
        weight: Tiled, N by K.

    Returns:
        float32 [R, N]. Row r depends on row r of `x` alone, bit for bit.

    Raises:
        ValueError: The weight is not tiled, or `x` is not as wide as the weight.
    """
    if not weight.tiled:
        raise ValueError("this weight is not tiled; call tile() once after loading")
    if x.ndim != 2 or x.shape[1] != weight.columns:
        raise ValueError(f"x is {list(x.shape)}; the weight needs [R, {weight.columns}]")
    x = np.ascontiguousarray(x, np.float32)
    padded = weight.values.shape[0] * TILE
    out = np.empty((len(x), padded), np.float32)
    with parallel_lock:
        if weight.kind == "q4":
            _linear_q4(x, weight.values, weight.scales, weight.minima, out)
        elif weight.kind == "q8":
            _linear_q8(x, weight.values, weight.scales, out)
        elif weight.kind == "bfloat16":
            _linear_bfloat16(x, weight.values, out)
        else:
            _linear_float32(x, weight.values, out)
    return out if padded == weight.rows else np.ascontiguousarray(out[:, : weight.rows])


def embedding(ids: NDArray[np.int64], weight: Weight) -> NDArray[np.float32]:
    """Rows `ids` (int64 [R]) of a tiled weight, as float32 [R, K]."""
    tile, lane = ids // TILE, ids % TILE
    if weight.kind == "float32":
        return np.ascontiguousarray(weight.values[tile, :, lane])
    if weight.kind == "bfloat16":
        bits = weight.values[tile, :, lane].astype(np.uint32) << np.uint32(16)
        return np.ascontiguousarray(bits).view(np.float32)
    scales = np.repeat(weight.scales[tile, :, lane], BLOCK, axis=1)
    if weight.kind == "q8":
        return weight.values[tile, :, lane].astype(np.float32) * scales
    half = TILE // 2
    packed = weight.values[tile, :, lane % half]
    values = np.where((lane >= half)[:, None], packed >> 4, packed & 15)
    return values.astype(np.float32) * scales + np.repeat(
        weight.minima[tile, :, lane], BLOCK, axis=1
    )


@compiled()
def add_block(w, w_at, w_stride, x, x_at, x_stride, rows, count, acc, acc_at, acc_stride, lanes):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """acc[r, j] += w[k, j] * x[r, k] for k in order; offsets into flat arrays, in elements.

    `lanes` is a multiple of 16.
    """
    r = 0
    while rows - r >= 4:
        add_float32_4(
            w, w_at, w_stride, x, x_at + r * x_stride, x_stride, count,
            acc, acc_at + r * acc_stride, acc_stride, lanes,
        )  # fmt: skip
        r += 4
    x_at += r * x_stride
    acc_at += r * acc_stride
    if rows - r == 1:
        add_float32_1(w, w_at, w_stride, x, x_at, x_stride, count, acc, acc_at, acc_stride, lanes)
    elif rows - r == 2:
        add_float32_2(w, w_at, w_stride, x, x_at, x_stride, count, acc, acc_at, acc_stride, lanes)
    elif rows - r == 3:
        add_float32_3(w, w_at, w_stride, x, x_at, x_stride, count, acc, acc_at, acc_stride, lanes)


@compiled()
def _add_unpacked(w, x, first, rows, k, count, acc):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    width = x.shape[1]
    add_block(w, 0, TILE, x, first * width + k, width, rows, count, acc, 0, TILE, TILE)


@compiled()
def _copy_sums(acc, rows, out, first, t):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    for r in range(rows):
        for j in range(TILE):
            out[first + r, t * TILE + j] = acc[r, j]


@compiled(parallel=True)
def _linear_q4(x, values, scales, minima, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    blocks = scales.shape[1]
    for t in prange(values.shape[0]):
        if x.shape[0] == 1:
            for j in range(TILE):
                out[0, t * TILE + j] = np.float32(0)
            for b in range(blocks):
                at = t * blocks + b
                add_q4(
                    values, at * BLOCK * (TILE // 2), scales, minima, at * TILE, x, b * BLOCK,
                    out, t * TILE,
                )  # fmt: skip
        else:
            w = np.empty((BLOCK, TILE), np.float32)
            acc = np.empty((_ROWS, TILE), np.float32)
            for first in range(0, x.shape[0], _ROWS):
                rows = min(_ROWS, x.shape[0] - first)
                acc[:rows] = np.float32(0)
                for b in range(blocks):
                    for k in range(BLOCK):
                        for j in range(TILE // 2):
                            pair = values[t, b * BLOCK + k, j]
                            low = np.float32(np.int32(pair & 15))
                            high = np.float32(np.int32(pair >> 4))
                            w[k, j] = scales[t, b, j] * low + minima[t, b, j]
                            i = j + TILE // 2
                            w[k, i] = scales[t, b, i] * high + minima[t, b, i]
                    _add_unpacked(w, x, first, rows, b * BLOCK, BLOCK, acc)
                _copy_sums(acc, rows, out, first, t)


@compiled(parallel=True)
def _linear_q8(x, values, scales, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    blocks = scales.shape[1]
    for t in prange(values.shape[0]):
        if x.shape[0] == 1:
            for j in range(TILE):
                out[0, t * TILE + j] = np.float32(0)
            for b in range(blocks):
                at = t * blocks + b
                add_q8(values, at * BLOCK * TILE, scales, at * TILE, x, b * BLOCK, out, t * TILE)
        else:
            w = np.empty((BLOCK, TILE), np.float32)
            acc = np.empty((_ROWS, TILE), np.float32)
            for first in range(0, x.shape[0], _ROWS):
                rows = min(_ROWS, x.shape[0] - first)
                acc[:rows] = np.float32(0)
                for b in range(blocks):
                    for k in range(BLOCK):
                        for j in range(TILE):
                            w[k, j] = scales[t, b, j] * np.float32(values[t, b * BLOCK + k, j])
                    _add_unpacked(w, x, first, rows, b * BLOCK, BLOCK, acc)
                _copy_sums(acc, rows, out, first, t)


@compiled(parallel=True)
def _linear_bfloat16(x, values, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    columns = x.shape[1]
    for t in prange(values.shape[0]):
        if x.shape[0] == 1:
            for j in range(TILE):
                out[0, t * TILE + j] = np.float32(0)
            add_bfloat16(values, t * columns * TILE, x, 0, columns, out, t * TILE)
        else:
            bits = np.empty((BLOCK, TILE), np.uint32)
            w = bits.view(np.float32)
            acc = np.empty((_ROWS, TILE), np.float32)
            for first in range(0, x.shape[0], _ROWS):
                rows = min(_ROWS, x.shape[0] - first)
                acc[:rows] = np.float32(0)
                for start in range(0, columns, BLOCK):
                    count = min(BLOCK, columns - start)
                    for k in range(count):
                        for j in range(TILE):
                            bits[k, j] = np.uint32(values[t, start + k, j]) << np.uint32(16)
                    _add_unpacked(w, x, first, rows, start, count, acc)
                _copy_sums(acc, rows, out, first, t)


@compiled(parallel=True)
def _linear_float32(x, values, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    columns = x.shape[1]
    for t in prange(values.shape[0]):
        acc = np.empty((_ROWS, TILE), np.float32)
        for first in range(0, x.shape[0], _ROWS):
            rows = min(_ROWS, x.shape[0] - first)
            acc[:rows] = np.float32(0)
            add_block(
                values, t * columns * TILE, TILE, x, first * columns, columns, rows, columns,
                acc, 0, TILE, TILE,
            )  # fmt: skip
            _copy_sums(acc, rows, out, first, t)
