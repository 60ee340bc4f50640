"""Errors of the grammar compiler.

    GrammarError
    ├── InvalidConstraint     the pattern, schema or grammar text is malformed
    ├── SchemaNotSupported    well-formed, but cannot be enforced; nothing is dropped in silence
    ├── EmptyConstraint       well-formed, but no text can satisfy it
    ├── ConstraintTooLarge    a limit on states, bytes, time or nesting was reached
    └── ConstraintCancelled   compiling it was cancelled

Each carries the place (`pointer` into a JSON Schema or `position` in a pattern) and a `hint`.
"""

from __future__ import annotations


class GrammarError(ValueError):
    """A constraint that cannot be compiled.

    Args:
        message: What happened, with the offending value.
        hint: What to do about it.
        pointer: JSON pointer of the offending keyword, as a URI fragment (``#/properties/age``).
        position: Character offset in the pattern or grammar text.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        pointer: str | None = None,
        position: int | None = None,
    ) -> None:
        place = ""
        if pointer is not None:
            place = f" at {pointer}"
        elif position is not None:
            place = f" at position {position}"
        super().__init__(f"{message}{place}")
        self.message = message
        self.hint = hint
        self.pointer = pointer
        self.position = position
        if hint is not None:
            self.add_note(f"-> {hint}")


class InvalidConstraint(GrammarError):
    """The pattern, schema or grammar text is malformed."""


class SchemaNotSupported(GrammarError):
    """The constraint is well-formed but cannot be enforced exactly, so it is refused."""


class EmptyConstraint(GrammarError):
    """The constraint is well-formed but no text can satisfy it."""


class ConstraintTooLarge(GrammarError):
    """A limit on states, bytes or nesting was reached while compiling or expanding."""


class ConstraintCancelled(GrammarError):
    """Compiling the constraint was cancelled."""
