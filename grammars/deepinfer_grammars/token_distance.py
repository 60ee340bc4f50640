"""How many tokens suffice to complete a text from a state."""

from __future__ import annotations

from .state_table import StateTable
from .vocabulary import Vocabulary

_LONGEST_PATH = 1 << 16


class TokenDistance:
    """Fewest tokens along the shortest completion in bytes; that completion is fixed per state.

    From a state with value v there is a token (the first of the best split) that leads to a state
    with value v - 1, so a budget that suffices once suffices until the end.

    Args:
        vocabulary: The vocabulary.
        table: The states.
    """

    def __init__(self, vocabulary: Vocabulary, table: StateTable) -> None:
        self._vocabulary = vocabulary
        self._table = table
        self._known: dict[int, int] = {}
        self._next: dict[int, tuple[int, int]] = {}

    def __call__(self, state: int) -> int:
        """The number of tokens; one per byte where the completion is very long."""
        known = self._known.get(state)
        if known is not None:
            return known
        distance = self._fewest(state)
        if distance > _LONGEST_PATH:
            return distance
        path = [state]
        while path[-1] not in self._known and self._fewest(path[-1]):
            path.append(self._step(path[-1])[1])
        for at in reversed(path):
            if at not in self._known:
                self._known[at] = self._best_split(at)
        return self._known[state]

    def _best_split(self, state: int) -> int:
        """One token along the completion, then the best split of the rest, which is known."""
        best = self._fewest(state)
        node = 0
        while self._fewest(state):
            byte, state = self._step(state)
            node = self._vocabulary.child(node, byte)
            if node < 0:
                break
            if self._vocabulary.token_at[node] >= 0:
                best = min(best, 1 + self._known[state])
        return best

    def _fewest(self, state: int) -> int:
        """Bytes to the end of a match; 0 where the text is complete."""
        return int(self._table.fewest[state])

    def _step(self, state: int) -> tuple[int, int]:
        """The next byte of the shortest completion and the state behind it."""
        known = self._next.get(state)
        if known is None:
            known = self._next[state] = self._table.nearest(state)
        return known
