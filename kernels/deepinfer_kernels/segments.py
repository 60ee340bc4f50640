"""Which cache blocks the query rows of a step attend to."""

from __future__ import annotations

from dataclasses import dataclass

import torch

KV_SPLIT = 256
"""The key axis is cut at multiples of this from position 0, whatever the load."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive query rows of one sequence.

    Row j attends to positions 0 to first_position + j, its own included.

    Attributes:
        block_ids: int64 [n], the cache blocks of the sequence in order of position; they must
            cover position first_position + num_rows - 1.
        first_position: position of the first row.
        num_rows: number of rows, at least 1.
    """

    block_ids: torch.Tensor
    first_position: int
    num_rows: int
