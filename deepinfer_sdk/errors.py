"""Every error a user can meet.

    DeepInferError
    ├── InvalidArgument            a value that cannot work: empty prompt, wrong type, out of range
    │   ├── UnknownArgument        a keyword that does not exist (also a TypeError)
    │   └── PromptTooLong          the prompt does not fit into the model's context
    ├── SchemaError                a constraint that cannot be used
    │   ├── InvalidSchema          malformed schema, pattern or grammar
    │   ├── SchemaNotSupported     well-formed, but cannot be enforced
    │   ├── ImpossibleSchema       nothing satisfies it
    │   ├── SchemaTooLarge         a limit on its size was reached
    │   └── BudgetTooSmall         `max_tokens` is less than the shortest valid output needs
    ├── OutputError                generation ended without a usable value; keeps `text`
    │   ├── OutputRejected         a validator of your type refused well-formed output
    │   ├── GenerationTimeout      the call's deadline passed
    │   └── GenerationCancelled    the call was cancelled
    ├── ModelError                 a model that cannot be opened
    │   ├── ModelNotFound          no such name, folder or file, and no way to fetch it
    │   ├── ModelFileError         a damaged or incomplete file
    │   ├── ModelNotSupported      an architecture this version cannot run
    │   └── DiskFull               not enough room for a download
    ├── SessionClosed              the session was closed
    └── EngineFailure              the engine could not finish a request

Each error says what happened with the value, and why; `hint` says what to type next and prints on
a line of its own. None of them is a ValueError: Pydantic would swallow it inside a validator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepinfer_engine import EngineError


class DeepInferError(Exception):
    """Base of all errors of this package.

    Args:
        message: What happened, with the offending value, and why.
        hint: What to do next; shown on its own line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"  -> {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(kind: type[DeepInferError], message: str, state: dict[str, object]) -> DeepInferError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InvalidArgument(DeepInferError):
    """A value that cannot work."""


class UnknownArgument(InvalidArgument, TypeError):
    """A keyword argument that does not exist."""


class PromptTooLong(InvalidArgument):
    """The prompt does not fit into the model's context."""


class SchemaError(DeepInferError):
    """A constraint that cannot be used."""


class InvalidSchema(SchemaError):
    """A malformed schema, pattern or grammar."""


class SchemaNotSupported(SchemaError):
    """A well-formed constraint that cannot be enforced; nothing is dropped in silence."""


class ImpossibleSchema(SchemaError):
    """A constraint that nothing satisfies."""


class SchemaTooLarge(SchemaError):
    """A limit on the size of a constraint was reached."""


class BudgetTooSmall(SchemaError):
    """`max_tokens` is less than the shortest valid output needs.

    Args:
        message: What happened.
        least: The smallest `max_tokens` that is accepted.
        hint: What to do next.
    """

    def __init__(self, message: str, *, least: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.least = least


class OutputError(DeepInferError):
    """Generation ended without a usable value.

    Args:
        message: What happened.
        text: The text generated so far.
        hint: What to do next.
    """

    def __init__(self, message: str, *, text: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.text = text


class OutputRejected(OutputError):
    """A validator of the user's type refused output that fits the type's JSON Schema."""


class GenerationTimeout(OutputError):
    """The call's deadline passed before the output was complete."""


class GenerationCancelled(OutputError):
    """The call was cancelled before the output was complete."""


class ModelError(DeepInferError):
    """A model that cannot be opened."""


class ModelNotFound(ModelError):
    """No such model name, folder or file, and no way to fetch it."""


class ModelFileError(ModelError):
    """A damaged or incomplete model file."""


class ModelNotSupported(ModelError):
    """An architecture this version cannot run."""


class DiskFull(ModelError):
    """Not enough room for a download.

    Args:
        message: What happened.
        needed: Bytes needed.
        free: Bytes free.
        hint: What to do next.
    """

    def __init__(self, message: str, *, needed: int, free: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.needed = needed
        self.free = free


class SessionClosed(DeepInferError):
    """The session was closed."""


class EngineFailure(DeepInferError):
    """The engine could not finish a request."""


_SESSION_CLOSED = "this session is closed"
_OPEN_AGAIN = "Open a new one: Session(...)"

_BY_ENGINE_KIND: dict[str, type[DeepInferError]] = {
    "invalid": InvalidArgument,
    "too_long": PromptTooLong,
    "model": ModelFileError,
    "closed": SessionClosed,
}


def session_closed() -> SessionClosed:
    """The one error of a closed session."""
    return SessionClosed(_SESSION_CLOSED, hint=_OPEN_AGAIN)


def from_engine_error(error: EngineError) -> DeepInferError:
    """An engine's error as ours; the one place where that happens."""
    if error.kind == "closed":
        return session_closed()
    kind = _BY_ENGINE_KIND.get(error.kind, EngineFailure)
    if kind is ModelFileError and "architecture" in error.message:
        kind = ModelNotSupported
    return kind(error.message, hint=error.hint)
