"""What the engine asks of a constraint. Grammars satisfy it by shape; neither imports the other."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class TokenConstraint(Protocol):
    """A token automaton: states are plain ints, and all methods are pure as seen from outside."""

    @property
    def start(self) -> int:
        """The state before the first token."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of token ids the masks cover."""
        ...

    def mask(self, state: int, budget: int) -> NDArray[np.uint32]:
        """Packed bits of the tokens that may come next, if `budget` tokens may still be emitted.

        A text token is in the mask exactly if the text can still be completed within `budget - 1`
        tokens after it; an end-of-text id exactly if `state` is accepting.
        """
        ...

    def advance(self, state: int, token: int) -> int:
        """The state after an allowed text token."""
        ...

    def accepting(self, state: int) -> bool:
        """Whether the text so far is complete."""
        ...

    def complete(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow."""
        ...

    def fewest_tokens(self, state: int) -> int:
        """A number of tokens that suffices to complete the text."""
        ...

    def narrowed(self, state: int, budget: int) -> bool:
        """Whether the budget removes tokens from the mask."""
        ...
