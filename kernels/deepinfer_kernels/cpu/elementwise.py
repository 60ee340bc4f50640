"""Normalisation, activation and rotary tables, with an exponential of our own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .jit import compiled
from .vector import power_of_two

_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, so that n * _LN2_HIGH is exact for every n that occurs (Cody and Waite).
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_LOWEST = np.float32(-87.0)
_HIGHEST = np.float32(88.0)


@compiled()
def exp32(x):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Exponential in float32, by a fixed polynomial (Cephes expf).

    Arguments are clamped to -87..88; NaN stays NaN.
    """
    x = min(max(x, _LOWEST), _HIGHEST)
    n = np.floor(x * _LOG2_E + np.float32(0.5))
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    value = (p * (r * r) + r) + np.float32(1.0)
    return value * power_of_two(n)


@compiled()
def _rms_norm(x, weight, eps, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    for r in range(x.shape[0]):
        total = 0.0
        for k in range(x.shape[1]):
            total += np.float64(x[r, k]) * np.float64(x[r, k])
        scale = np.float32(1.0 / math.sqrt(total / x.shape[1] + eps))
        for k in range(x.shape[1]):
            out[r, k] = (x[r, k] * scale) * weight[k]


def rms_norm(
    x: NDArray[np.float32], weight: NDArray[np.float32], eps: float
) -> NDArray[np.float32]:
    """Root-mean-square norm of each row (Zhang and Sennrich 2019); squares are summed in float64.

    Args:
        x: float32 [R, D].
        weight: float32 [D].
        eps: Added to the mean square.

    Returns:
        float32 [R, D].
    """
    out = np.empty_like(x)
    _rms_norm(x, weight, eps, out)
    return out


@compiled()
def _silu_mul(gate_up, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    width = out.shape[1]
    one = np.float32(1)
    for r in range(out.shape[0]):
        for k in range(width):
            gate = gate_up[r, k]
            out[r, k] = (gate / (one + exp32(-gate))) * gate_up[r, width + k]


def silu_mul(gate_up: NDArray[np.float32]) -> NDArray[np.float32]:
    """SwiGLU's product silu(gate) * up.

    Args:
        gate_up: float32 [R, 2 F]; gate in the first half of the columns, up in the second.

    Returns:
        float32 [R, F].
    """
    out = np.empty((gate_up.shape[0], gate_up.shape[1] // 2), np.float32)
    _silu_mul(gate_up, out)
    return out


def rope_tables(
    head_dim: int, theta: float, length: int, scaling: Mapping[str, Any] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines of the rotary embedding (Su et al. 2021), float32 [length, head_dim / 2].

    Args:
        head_dim: Channels per head; even.
        theta: Base of the frequencies.
        length: Number of positions.
        scaling: None, or a Hugging Face `rope_scaling` record of type ``llama3``.

    Raises:
        ValueError: The scaling type is not known.
    """
    frequency = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is not None:
        kind = scaling.get("rope_type", scaling.get("type"))
        if kind == "llama3":
            frequency = _llama3(frequency, scaling)
        elif kind != "default":
            raise ValueError(f"rope scaling {kind!r} is not supported; supported: llama3")
    angle = np.outer(np.arange(length, dtype=np.float64), frequency)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def _llama3(frequency: NDArray[np.float64], scaling: Mapping[str, Any]) -> NDArray[np.float64]:
    """Llama 3.1's stretch: long waves by `factor`, short ones not, smooth in between."""
    factor = float(scaling["factor"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    original = float(scaling["original_max_position_embeddings"])
    wavelength = 2 * math.pi / frequency
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    return frequency * ((1 - smooth) / factor + smooth)
