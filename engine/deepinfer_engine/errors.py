"""The engine's one exception; its kind tells callers what sort of trouble it is."""

from __future__ import annotations

from typing import Literal

ErrorKind = Literal[
    "invalid",
    "too_long",
    "budget",
    "grammar_dead",
    "numeric",
    "memory",
    "model",
    "engine",
    "closed",
]


class EngineError(Exception):
    """Something the engine refuses or could not do.

    Args:
        kind: ``invalid`` arguments, ``too_long`` for the context, ``budget`` too small for the
            constraint, ``grammar_dead`` no token allowed, ``numeric`` logits that are not numbers,
            ``memory``, ``model`` files that cannot be loaded, ``engine`` faults, ``closed``.
        message: What happened, with the value.
        hint: What to do about it.
    """

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"-> {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the keyword argument."""
        return (_rebuild, (self.kind, self.message, self.hint))


def _rebuild(kind: ErrorKind, message: str, hint: str | None) -> EngineError:
    return EngineError(kind, message, hint=hint)
