"""What the engine loop needs of the side that computes, and how a token is chosen from logits.

Knows no model: an executor runs the entries of a step, and `choose` turns one row of logits into a
decision about one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from deepinfer_kernels.sampling import Drawn, Status, sample_row
from numpy.typing import NDArray

from .errors import EngineError, ErrorKind
from .scheduler import Entry
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class Choice:
    """What the sampler decided for one sequence, or why it could not.

    Attributes:
        drawn: The token, with its log-probability if asked for. None without an error: nothing
            more may be drawn, and the constraint's text is complete.
        narrowed: Whether the budget removed tokens from the constraint's mask.
        error: Set instead if the sequence must end.
        again: Nothing was decided; the position comes again in a later step.
        rewind: Steps of the sequence that were launched meanwhile are void.
        state: The constraint's state after the token, if that is known already.
    """

    drawn: Drawn | None
    narrowed: bool = False
    error: EngineError | None = None
    again: bool = False
    rewind: bool = False
    state: int | None = None


class Executor(Protocol):
    """What the engine loop needs of the device side."""

    def start(self) -> None:
        """Called once on the engine's thread before the first step."""
        ...

    @property
    def depth(self) -> int:
        """Steps that may have been launched before the results of the first are collected."""
        ...

    def launch(self, entries: Many[Entry]) -> object:
        """Begin to run entries; returns what `collect` takes.

        A launch that raises may be repeated with fewer entries: what it had written is written
        again, with the same bits.
        """
        ...

    def collect(self, step: Any) -> list[Choice]:
        """Wait for a step; one choice per entry that samples, in order."""
        ...

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        ...


def choose(sequence: Sequence, logits: NDArray[np.float32], eos_ids: tuple[int, ...]) -> Choice:
    """Draw the next token of a sequence; a fault of its constraint or logits stays with it.

    Args:
        sequence: What has been drawn, and how to draw.
        logits: float32 [V].
        eos_ids: Ids that end the text.
    """
    request = sequence.request
    mask: NDArray[np.uint32] | None = None
    narrowed = False
    try:
        if request.constraint is not None:
            mask = request.constraint.mask(sequence.state, sequence.budget)
            narrowed = request.constraint.narrowed(sequence.state, sequence.budget)
        early = sequence.output_length < request.min_tokens
        held_back = (*eos_ids, *request.stop_ids) if early else ()
        drawn = sample_row(
            logits,
            sequence.params,
            position=len(sequence.tokens),
            mask=mask,
            counts=sequence.counts,
            banned_now=held_back,
        )
        if drawn.status is Status.EMPTY and held_back:  # nothing else is left to say
            drawn = sample_row(
                logits,
                sequence.params,
                position=len(sequence.tokens),
                mask=mask,
                counts=sequence.counts,
            )
        return refusal(sequence, drawn, narrowed) or Choice(drawn, narrowed)
    except Exception as error:
        return Choice(None, error=sampling_error(error, sequence))


def refusal(sequence: Sequence, drawn: Drawn, narrowed: bool) -> Choice | None:
    """The choice for a row without a token; None if there is one."""
    constraint = sequence.request.constraint
    if drawn.status is Status.EMPTY and constraint and constraint.accepting(sequence.state):
        return Choice(None, narrowed)
    if drawn.status is Status.NUMERIC:
        return Choice(
            None,
            error=EngineError(
                "numeric",
                f"the logits for position {len(sequence.tokens)} hold NaN or infinity",
                hint="The model file may be damaged, or the prompt overflows the model's range",
            ),
        )
    if drawn.status is Status.EMPTY:
        return Choice(
            None,
            error=EngineError(
                "grammar_dead",
                f"no token is allowed at position {len(sequence.tokens)}"
                + ("" if constraint is None else f" (constraint state {sequence.state})"),
                hint="Remove banned tokens or -inf biases that the output needs",
            ),
        )
    return None


def sampling_error(error: Exception, sequence: Sequence) -> EngineError:
    """What an exception of a constraint or the sampler means for its sequence."""
    if isinstance(error, EngineError):
        return error
    kind: ErrorKind = "engine" if sequence.request.constraint is None else "grammar_dead"
    if isinstance(error, MemoryError):
        kind = "memory"
    return EngineError(
        kind,
        f"choosing the token at position {len(sequence.tokens)} failed: {error}",
        hint=getattr(error, "hint", None),  # errors of a grammar have one
    )
