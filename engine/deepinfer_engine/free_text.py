"""The automaton of text without a constraint: every byte is allowed, control tokens are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Found:
    states: NDArray[np.int64]
    edges: NDArray[np.int32]
    fewest: NDArray[np.int32]
    mark: int


class FreeText:
    """One state that every byte leads back to, and that may always end.

    On a device it takes the place of a list of all control tokens, so that text without a
    constraint costs what a constraint does.

    Args:
        token_bytes: Bytes of text tokens by id, None for others.
        eos_ids: Ids that end the text.
    """

    start = 1
    mark = 1

    def __init__(self, token_bytes: Sequence[bytes | None], eos_ids: Sequence[int]) -> None:
        self.vocab_size = len(token_bytes)
        bits = np.zeros(-(-self.vocab_size // 32) * 32, np.uint8)
        bits[[i for i, data in enumerate(token_bytes) if data or i in eos_ids]] = 1
        self._mask = np.packbits(bits, bitorder="little").view(np.uint32)
        self.byte_class: NDArray[np.uint8] = np.zeros(256, np.uint8)

    def mask(self, state: int, budget: int) -> NDArray[np.uint32]:
        """All text tokens and the ends."""
        return self._mask

    def wide_mask(self, state: int) -> tuple[NDArray[np.uint32], int]:
        """The same, whatever the budget."""
        return self._mask, 0

    def found_since(self, mark: int) -> _Found:
        """The one transition there is."""
        states = np.array([] if mark else [1], np.int64)
        edges = np.ones((len(states), 1), np.int32)
        return _Found(states, edges, np.zeros(2, np.int32), self.mark)

    def advance(self, state: int, token: int) -> int:
        """The same state."""
        return state

    def accepting(self, state: int) -> bool:
        """Always."""
        return True

    def complete(self, state: int) -> bool:
        """Never: more text may follow."""
        return False

    def fewest_tokens(self, state: int) -> int:
        """None are needed."""
        return 0

    def narrowed(self, state: int, budget: int) -> bool:
        """Never."""
        return False
