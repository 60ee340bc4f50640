"""Weight matrices as the CPU kernels read them: tiles of 64 output features.

A matrix [N, K] is stored as [N / 64, K, 64] so that the innermost loop runs over outputs, which are
independent of each other. Quantised weights stay quantised: GGUF's Q4_0, Q4_1 and Q8_0 blocks hold
32 values along K with one scale (and minimum), and mean w = d * q + m in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .vector import BLOCK, TILE

_Scalar = TypeVar("_Scalar", bound=np.generic)

Kind = Literal["float32", "bfloat16", "q8", "q4"]


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix of `rows` output features by `columns` inputs.

    Attributes:
        kind: How values are stored.
        values: ``float32`` [N, K] float32; ``bfloat16`` [N, K] uint16; ``q8`` [N, K] int8; ``q4``
            [N, K] uint8 values 0..15, while `tiled` is False. Tiled: [N/64, K, 64], and ``q4``
            packed as [N/64, K, 32] with output j in the low and j + 32 in the high half byte.
        scales: float32 [N, K/32], tiled [N/64, K/32, 64]; empty for unquantised kinds.
        minima: float32 like `scales`; empty except for ``q4``.
    """

    kind: Kind
    rows: int
    columns: int
    values: NDArray[Any]
    scales: NDArray[np.float32]
    minima: NDArray[np.float32]
    tiled: bool = False

    @staticmethod
    def from_float32(matrix: NDArray[np.float32]) -> Weight:
        """An unquantised matrix [N, K]."""
        return _plain("float32", np.ascontiguousarray(matrix, np.float32))

    @staticmethod
    def from_bfloat16_bits(bits: NDArray[np.uint16]) -> Weight:
        """An unquantised matrix [N, K] of bfloat16 bit patterns."""
        return _plain("bfloat16", np.ascontiguousarray(bits, np.uint16))

    @staticmethod
    def from_gguf_blocks(
        kind: Literal["Q4_0", "Q4_1", "Q8_0"], blocks: NDArray[np.uint8]
    ) -> Weight:
        """GGUF blocks as they lie in the file.

        Args:
            kind: The block format.
            blocks: uint8 [N, K / 32 * bytes per block].

        Raises:
            ValueError: The row length is not a whole number of blocks.
        """
        size = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}[kind]
        rows, length = blocks.shape
        if length % size:
            raise ValueError(f"{kind} rows of {length} bytes are not whole blocks of {size}")
        parts = blocks.reshape(rows, length // size, size)
        columns = length // size * BLOCK
        scales = _half(parts[:, :, 0:2])
        none = np.zeros((0, 0), np.float32)
        if kind == "Q8_0":
            values = parts[:, :, 2:].view(np.int8).reshape(rows, columns)
            return Weight("q8", rows, columns, np.ascontiguousarray(values), scales, none)
        packed = parts[:, :, -16:]
        halves = np.concatenate((packed & 15, packed >> 4), axis=2).reshape(rows, columns)
        # Q4_0 means d * (q - 8); d * 8 is exact, so folding it into the minimum changes no bit
        # of d * q + m beyond the one rounding of the sum.
        minima = scales * np.float32(-8) if kind == "Q4_0" else _half(parts[:, :, 2:4])
        return Weight("q4", rows, columns, halves, scales, minima)

    def select_rows(self, index: NDArray[np.intp]) -> Weight:
        """The rows `index`, in that order; only before tiling."""
        self._refuse_tiled()
        return Weight(
            self.kind,
            len(index),
            self.columns,
            np.ascontiguousarray(self.values[index]),
            self.scales[index] if self.scales.size else self.scales,
            self.minima[index] if self.minima.size else self.minima,
        )

    def dense(self) -> NDArray[np.float32]:
        """The matrix in float32 [N, K], exactly as the kernels see it."""
        self._refuse_tiled()
        if self.kind == "float32":
            return self.values.astype(np.float32)
        if self.kind == "bfloat16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        result = self.values.astype(np.float32) * np.repeat(self.scales, BLOCK, axis=1)
        return result + np.repeat(self.minima, BLOCK, axis=1) if self.kind == "q4" else result

    def tile(self) -> Weight:
        """The same matrix laid out for the kernels; output features are padded to whole tiles."""
        self._refuse_tiled()
        values = _tiles(self.values)
        if self.kind == "q4":
            values = values[:, :, : TILE // 2] | values[:, :, TILE // 2 :] << 4
        return Weight(
            self.kind,
            self.rows,
            self.columns,
            np.ascontiguousarray(values),
            _tiles(self.scales) if self.scales.size else np.zeros((0, 0, 0), np.float32),
            _tiles(self.minima) if self.minima.size else np.zeros((0, 0, 0), np.float32),
            tiled=True,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self.scales.nbytes + self.minima.nbytes

    def _refuse_tiled(self) -> None:
        if self.tiled:
            raise ValueError("this weight is tiled already")


def concat_rows(weights: Sequence[Weight]) -> Weight:
    """Stack matrices of one kind and one number of columns on top of each other.

    Raises:
        ValueError: Kinds or columns differ.
    """
    first = weights[0]
    if any((w.kind, w.columns, w.tiled) != (first.kind, first.columns, False) for w in weights):
        raise ValueError("only untiled weights of one kind and width can be joined")
    return Weight(
        first.kind,
        sum(w.rows for w in weights),
        first.columns,
        np.concatenate([w.values for w in weights]),
        np.concatenate([w.scales for w in weights]),
        np.concatenate([w.minima for w in weights]),
    )


def _plain(kind: Literal["float32", "bfloat16"], values: NDArray[Any]) -> Weight:
    none = np.zeros((0, 0), np.float32)
    return Weight(kind, values.shape[0], values.shape[1], values, none, none)


def _half(pairs: NDArray[np.uint8]) -> NDArray[np.float32]:
    rows, blocks, _ = pairs.shape
    return np.ascontiguousarray(pairs).view(np.float16).reshape(rows, blocks).astype(np.float32)


def _tiles(matrix: NDArray[_Scalar]) -> NDArray[_Scalar]:
    rows, columns = matrix.shape
    count = -(-rows // TILE)
    padded = np.zeros((count * TILE, columns), matrix.dtype)
    padded[:rows] = matrix
    return np.ascontiguousarray(padded.reshape(count, TILE, columns).transpose(0, 2, 1))
