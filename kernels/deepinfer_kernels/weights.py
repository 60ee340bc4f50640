"""Weight matrices of linear layers and embeddings: dense float32, 4-bit and 8-bit groups.

Quantised classes keep the blocks of the GGUF formats Q4_0, Q4_1 and Q8_0: 32 consecutive values
along K share a scale d (and an offset m), w = d*q + m. The bytes are re-arranged once, into
planes that a kernel reads in order; the values are exactly those of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

GROUP = 32
"""Values along K that share one scale."""


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """float32 [N, K], contiguous."""

    values: torch.Tensor

    def __post_init__(self) -> None:
        """Refuse anything but a contiguous float32 matrix."""
        if self.values.dtype != torch.float32 or self.values.ndim != 2:
            raise ValueError(
                f"a dense weight is float32[N, K], not {self.values.dtype}{list(self.values.shape)}"
            )
        if not self.values.is_contiguous():
            raise ValueError("a dense weight must be contiguous")

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    def dense(self) -> torch.Tensor:
        """The matrix, float32 [N, K]."""
        return self.values

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows by index: int64 [R] to float32 [R, K]."""
        return self.values[ids]


@dataclass(frozen=True, slots=True)
class Q4Weight:
    """4-bit groups: w = scale * q + offset with q in 0..15.

    Attributes:
        quants: uint8 [N, K/32, 16]; byte j of a group holds value j (low half) and j+16 (high).
        scales: float32 [N, K/32].
        offsets: float32 [N, K/32].
    """

    quants: torch.Tensor
    scales: torch.Tensor
    offsets: torch.Tensor

    @classmethod
    def from_q4_0(cls, blocks: NDArray[np.uint8], shape: tuple[int, int]) -> Q4Weight:
        """From GGUF Q4_0 bytes (float16 d, 16 bytes of q): w = d * (q - 8).

        Args:
            blocks: uint8, N * K/32 blocks of 18 bytes, row by row.
            shape: (N, K).

        Raises:
            ValueError: the number of bytes does not fit the shape.
        """
        raw = _blocks(blocks, shape, 18)
        scales = _half(raw[..., :2])
        return cls(_plane(raw[..., 2:]), scales, scales * -8.0)

    @classmethod
    def from_q4_1(cls, blocks: NDArray[np.uint8], shape: tuple[int, int]) -> Q4Weight:
        """From GGUF Q4_1 bytes (float16 d, float16 m, 16 bytes of q): w = d * q + m.

        Args:
            blocks: uint8, N * K/32 blocks of 20 bytes, row by row.
            shape: (N, K).

        Raises:
            ValueError: the number of bytes does not fit the shape.
        """
        raw = _blocks(blocks, shape, 20)
        return cls(_plane(raw[..., 4:]), _half(raw[..., :2]), _half(raw[..., 2:4]))

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return int(self.quants.shape[0]), int(self.quants.shape[1]) * GROUP

    def dense(self) -> torch.Tensor:
        """The dequantised matrix, float32 [N, K]."""
        return _dequantise_q4(self.quants, self.scales, self.offsets)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Dequantised rows by index: int64 [R] to float32 [R, K]."""
        return _dequantise_q4(self.quants[ids], self.scales[ids], self.offsets[ids])


@dataclass(frozen=True, slots=True)
class Q8Weight:
    """8-bit groups: w = scale * q with q in -128..127.

    Attributes:
        quants: int8 [N, K/32, 32].
        scales: float32 [N, K/32].
    """

    quants: torch.Tensor
    scales: torch.Tensor

    @classmethod
    def from_q8_0(cls, blocks: NDArray[np.uint8], shape: tuple[int, int]) -> Q8Weight:
        """From GGUF Q8_0 bytes (float16 d, 32 bytes of q): w = d * q.

        Args:
            blocks: uint8, N * K/32 blocks of 34 bytes, row by row.
            shape: (N, K).

        Raises:
            ValueError: the number of bytes does not fit the shape.
        """
        raw = _blocks(blocks, shape, 34)
        return cls(_plane(raw[..., 2:]).view(torch.int8), _half(raw[..., :2]))

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return int(self.quants.shape[0]), int(self.quants.shape[1]) * GROUP

    def dense(self) -> torch.Tensor:
        """The dequantised matrix, float32 [N, K]."""
        return (self.quants * self.scales[..., None]).flatten(1)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Dequantised rows by index: int64 [R] to float32 [R, K]."""
        return (self.quants[ids] * self.scales[ids][..., None]).flatten(1)


Weight = DenseWeight | Q4Weight | Q8Weight


def concat_weights(parts: Sequence[Weight]) -> Weight:
    """Stack matrices with equal K along N, so that one product serves them all.

    Args:
        parts: at least one; of one class. Mixed classes become one dense float32 matrix.

    Returns:
        A weight of shape (sum of N, K).

    Raises:
        ValueError: K differs, or there are no parts.
    """
    if not parts:
        raise ValueError("concat_weights needs at least one weight")
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ValueError(f"weights to concatenate have different K: {widths}")
    quads = [part for part in parts if isinstance(part, Q4Weight)]
    octets = [part for part in parts if isinstance(part, Q8Weight)]
    if len(quads) == len(parts):
        return Q4Weight(
            torch.cat([part.quants for part in quads]),
            torch.cat([part.scales for part in quads]),
            torch.cat([part.offsets for part in quads]),
        )
    if len(octets) == len(parts):
        return Q8Weight(
            torch.cat([part.quants for part in octets]),
            torch.cat([part.scales for part in octets]),
        )
    return DenseWeight(torch.cat([part.dense() for part in parts]))


def _dequantise_q4(
    quants: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    values = torch.cat([quants & 15, quants >> 4], dim=-1)
    return (values * scales[..., None] + offsets[..., None]).flatten(1)


def _blocks(blocks: NDArray[np.uint8], shape: tuple[int, int], size: int) -> NDArray[np.uint8]:
    rows, width = shape
    if width % GROUP or blocks.dtype != np.uint8 or blocks.size != rows * width // GROUP * size:
        raise ValueError(
            f"{blocks.size} {blocks.dtype} values cannot be a {rows} x {width} matrix in blocks of "
            f"{size} bytes per {GROUP} values"
        )
    return np.ascontiguousarray(blocks).reshape(rows, width // GROUP, size)


def _plane(raw: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(raw.copy())


def _half(raw: NDArray[np.uint8]) -> torch.Tensor:
    halves = np.ascontiguousarray(raw).view("<f2")[..., 0]
    return torch.from_numpy(halves.astype(np.float32))
