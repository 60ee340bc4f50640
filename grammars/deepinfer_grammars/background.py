"""Making states and masks ahead of need, on a thread of its own."""

from __future__ import annotations

import threading
import time

import numpy as np

from .automaton import TokenAutomaton
from .errors import GrammarError
from .state_table import DEAD

_ANY_BUDGET = 1 << 40


class Expansion:
    """Explores an automaton from its start, nearest states first, until it is told to stop.

    Results are the same with and without it; only the time to them differs. It holds the
    grammar's lock for one state at a time.

    Args:
        automaton: The automaton.
        max_states: Most states to explore.
        max_seconds: Most time to take.

    Attributes:
        explored: States explored so far.
    """

    def __init__(
        self, automaton: TokenAutomaton, *, max_states: int = 4096, max_seconds: float = 60.0
    ) -> None:
        self.explored = 0
        self._automaton = automaton
        self._max_states = max_states
        self._ends = time.monotonic() + max_seconds
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grammar-expansion", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop soon; what was made stays."""
        self._cancelled.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        automaton, table = self._automaton, self._automaton.table
        todo = [automaton.start]
        seen = set(todo)
        for state in todo:  # grows while it is read
            if self._cancelled.is_set() or self.explored >= self._max_states:
                return
            if time.monotonic() > self._ends:
                return
            try:
                automaton.mask(state, _ANY_BUDGET)
                with automaton.grammar.lock:
                    table.expand((state,))
                    following = np.unique(table.transitions[state])
            except GrammarError:
                return  # whoever needs that state will get the error
            self.explored += 1
            for after in following.tolist():
                if after != DEAD and after not in seen:
                    seen.add(after)
                    todo.append(after)
