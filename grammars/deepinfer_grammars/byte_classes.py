"""Which bytes a grammar never tells apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .expr import Pool
from .node import ALL_BYTES, Kind


def byte_classes(pool: Pool, alphabet: int) -> tuple[NDArray[np.intp], list[int]]:
    """The coarsest partition of the bytes that the grammar and the alphabet respect.

    Returns:
        intp [256] from byte to class, and the smallest byte of each class.
    """
    cells = [alphabet, ALL_BYTES ^ alphabet]
    masks = {node.mask for node in pool.nodes if node.kind is Kind.BYTES}
    for mask in masks:
        if len(cells) >= 256:
            break
        split = []
        for cell in cells:
            inside = cell & mask
            split += [part for part in (inside, cell ^ inside) if part]
        cells = split
    cells = sorted((cell for cell in cells if cell), key=lambda cell: cell & -cell)
    class_of = np.zeros(256, np.intp)
    for index, cell in enumerate(cells):
        for byte in range(256):
            if cell >> byte & 1:
                class_of[byte] = index
    return class_of, [(cell & -cell).bit_length() - 1 for cell in cells]
