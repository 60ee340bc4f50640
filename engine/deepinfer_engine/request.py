"""What goes into the engine and what comes out: plain frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deepinfer_kernels.sampling import SamplerParams

from .constraint import TokenConstraint
from .errors import EngineError

FinishReason = Literal["stop", "length", "cancelled", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and how to continue it.

    Attributes:
        prompt_ids: At least one token.
        sampling: Parameters of the sampler; `sample` and `banned` are completed by the engine.
        max_tokens: Most text tokens per sample; None is what the context allows.
        min_tokens: End-of-text and stop ids are not drawn before this many tokens.
        stop: Texts that end the output; the output is cut before the earliest match.
        stop_ids: Token ids that end the output and are not part of it.
        ignore_eos: End-of-text is never drawn.
        n: Number of samples, each a sequence of its own.
        constraint: A token automaton; the output then ends complete, whatever `max_tokens` is.
        deadline_s: Seconds from submission after which the request ends with ``timeout``.
        priority: Higher goes first.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplerParams
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    n: int = 1
    constraint: TokenConstraint | None = None
    deadline_s: float | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probability of a drawn token, its rank (1 is the best), and the best alternatives."""

    id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Tokens of one sample, and the text that has become final with them (possibly none)."""

    sample: int
    ids: tuple[int, ...]
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one sample."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent waiting for admission, on the prompt, and on the output."""

    queue_s: float
    prefill_s: float
    decode_s: float


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The end of one sample.

    Attributes:
        sample: Index of the sample.
        reason: Why it ended. With a constraint, ``stop``: the text is complete.
        stop: The stop text or stop id that ended it, if one did.
        error: What went wrong, if `reason` is ``error``.
        ids: All text tokens.
        text: The whole text, cut exactly before a stop text.
        logprobs: One per token, if asked for.
        usage: Token counts.
        timings: Where the time went.
        narrowed: Whether `max_tokens` removed choices on the way to a complete text.
    """

    sample: int
    reason: FinishReason
    stop: str | int | None
    error: EngineError | None
    ids: tuple[int, ...]
    text: str
    logprobs: tuple[TokenLogprob, ...]
    usage: Usage
    timings: Timings
    narrowed: bool
