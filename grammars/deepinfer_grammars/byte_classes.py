"""Which bytes a grammar never tells apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .expr import Pool
from .node import ALL_BYTES, Kind


def byte_classes(pool: Pool, alphabet: int) -> tuple[NDArray[np.uint8], list[int]]:
    """The coarsest partition of the bytes that the grammar and the alphabet respect.

    Returns:
        uint8 [256] from byte to class, and the smallest byte of each class.
    """
    cells = [cell for cell in (alphabet, ALL_BYTES ^ alphabet) if cell]
    for mask in {node.mask for node in pool.nodes if node.kind is Kind.BYTES}:
        split = []
        for cell in cells:
            inside = cell & mask
            if inside and inside != cell:
                split.append(inside)
                split.append(cell ^ inside)
            else:
                split.append(cell)
        cells = split
    cells.sort(key=lambda cell: cell & -cell)
    class_of = np.zeros(256, np.uint8)
    for index, cell in enumerate(cells):
        bits = np.frombuffer(cell.to_bytes(32, "little"), np.uint8)
        class_of[np.unpackbits(bits, bitorder="little").view(bool)] = index
    return class_of, [(cell & -cell).bit_length() - 1 for cell in cells]
