"""Rotary position embedding: cosine and sine tables, and their use in the half-split layout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Frequency scaling of long-context Llama 3 models.

    Attributes:
        factor: divisor of the low frequencies.
        low_freq_factor: wavelengths above original_max_len / this are divided fully.
        high_freq_factor: wavelengths below original_max_len / this are kept.
        original_max_len: context length of the unscaled model.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int


def rope_tables(
    dim: int, theta: float, max_len: int, scaling: Llama3Scaling | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of all angles, computed in float64 and rounded once.

    Args:
        dim: rotated width of a head, even.
        theta: base of the frequencies.
        max_len: number of positions.
        scaling: frequency scaling, if the model has one.

    Returns:
        Two float32 tensors [max_len, dim/2].

    Raises:
        ValueError: `dim` is odd or not positive.
    """
    if dim <= 0 or dim % 2:
        raise ValueError(f"dim is {dim}; rotary embedding needs a positive even width")
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    frequencies = theta**-exponents
    if scaling is not None:
        frequencies = _scaled(frequencies, scaling)
    angles = torch.arange(max_len, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float(), angles.sin().float()


def _scaled(frequencies: torch.Tensor, scaling: Llama3Scaling) -> torch.Tensor:
    turns = scaling.original_max_len * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0.0, 1.0)
    return frequencies * (kept + (1 - kept) / scaling.factor)
