"""Tokens that branches of an expression allow, while they are collected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .state_table import StateTable
from .token_row import TokenRow
from .trie_walk import farthest

Int32 = NDArray[np.int32]


@dataclass(slots=True)
class Gathered:
    """Tokens of some branches: int32 arrays, rows, and the largest distance behind a token."""

    tokens: list[Int32]
    rows: list[TokenRow]
    farthest: int

    def add(self, other: Gathered) -> None:
        """Take in what other branches allow."""
        self.tokens += other.tokens
        self.rows += other.rows
        self.farthest = max(self.farthest, other.farthest)

    def walked(self, tokens: Int32, ends: Int32, table: StateTable) -> None:
        """Take in tokens with the states behind them."""
        self.tokens.append(tokens)
        self.farthest = max(self.farthest, farthest(ends, table.fewest))
