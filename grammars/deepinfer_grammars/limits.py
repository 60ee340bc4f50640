"""How much a constraint may cost: expressions, states, bytes and seconds, and a way to stop it.

All front ends and automata work under the limits of their context, so that none has to pass them
on. Knows nothing about what is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from .errors import ConstraintCancelled, ConstraintTooLarge

_CHECK_EVERY = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one constraint.

    Attributes:
        max_nodes: Expressions, at compile time and later.
        max_states: States of its automaton.
        max_bytes: Bytes of its automaton's tables and masks.
        max_seconds: Time to compile it; None for no limit. What is made later, state by state, is
            not under it.
        cancelled: Compiling stops soon after it is set.
    """

    max_nodes: int = 5_000_000
    max_states: int = 1_000_000
    max_bytes: int = 1 << 30
    max_seconds: float | None = None
    cancelled: threading.Event | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Work under these limits within the `with` block, in this thread."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (frozen)


def current_limits() -> Limits:
    """The limits of the context."""
    return _CURRENT.get()


@dataclass(slots=True)
class Budget:
    """What is left of some limits while a constraint is compiled and explored.

    Args:
        limits: The limits.

    Attributes:
        check_at: Number of nodes at which `check` has to be called next.
    """

    limits: Limits
    check_at: int = field(init=False, default=0)
    _ends: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.check_at = min(_CHECK_EVERY, self.limits.max_nodes)
        if self.limits.max_seconds is not None:
            self._ends = time.monotonic() + self.limits.max_seconds

    def check(self, nodes: int) -> None:
        """Refuse to go on if a limit is reached.

        Raises:
            ConstraintTooLarge: Too many nodes, or too much time.
            ConstraintCancelled: It was cancelled.
        """
        limits = self.limits
        if nodes >= limits.max_nodes:
            raise ConstraintTooLarge(
                f"the constraint needs more than {limits.max_nodes} expressions",
                hint="Simplify it, or bound the lengths of strings and arrays",
            )
        if limits.cancelled is not None and limits.cancelled.is_set():
            raise ConstraintCancelled("compiling the constraint was cancelled")
        if self._ends is not None and time.monotonic() > self._ends:
            raise ConstraintTooLarge(
                f"the constraint takes more than {limits.max_seconds} seconds to compile",
                hint="Simplify it, or allow it more time",
            )
        self.check_at = min(nodes + _CHECK_EVERY, limits.max_nodes)

    def compiled(self) -> None:
        """From now on only the number of nodes counts."""
        self._ends = None
        self.limits = Limits(
            max_nodes=self.limits.max_nodes,
            max_states=self.limits.max_states,
            max_bytes=self.limits.max_bytes,
        )
