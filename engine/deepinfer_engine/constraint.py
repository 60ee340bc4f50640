"""What the engine asks of a constraint. Grammars satisfy it by shape; neither imports the other."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

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


class Found(Protocol):
    """Transitions of a `ByteConstraint` that became known."""

    @property
    def states(self) -> NDArray[np.int64]:
        """int64 [n], ascending."""
        ...

    @property
    def edges(self) -> NDArray[np.int32]:
        """int32 [n, classes], the transitions of these states; 0 dead, -1 unknown."""
        ...

    @property
    def fewest(self) -> NDArray[np.int32]:
        """int32 [states], fewest bytes that complete the text from every state so far."""
        ...

    @property
    def mark(self) -> int:
        """Where to go on from."""
        ...


@runtime_checkable
class ByteConstraint(TokenConstraint, Protocol):
    """A token automaton whose states are those of an automaton over bytes, numbered from 1.

    Others work on a device as well, but only the host can say what follows a token of theirs.
    """

    @property
    def byte_class(self) -> NDArray[np.uint8]:
        """uint8 [256], the column of `Found.edges` for each byte."""
        ...

    @property
    def mark(self) -> int:
        """Grows whenever transitions become known."""
        ...

    def found_since(self, mark: int) -> Found:
        """Transitions that became known since a mark; never waits."""
        ...

    def wide_mask(self, state: int) -> tuple[NDArray[np.uint32], int]:
        """The mask without a budget, and the least budget at which `mask` is the same."""
        ...
