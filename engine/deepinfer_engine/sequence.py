"""One sample of one request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from deepinfer_kernels.sampling import SamplerParams, TokenCounts

from .errors import EngineError
from .handle import RequestHandle
from .request import (
    FinishEvent,
    FinishReason,
    GenerationRequest,
    Timings,
    TokenEvent,
    TokenLogprob,
    Usage,
)
from .text import TextAssembler


@dataclass(eq=False, slots=True)
class Sequence:
    """A sequence of tokens: the prompt, then what was drawn.

    Attributes:
        number: Order of arrival, unique.
        request: What was asked.
        sample: Index among the request's samples.
        handle: Where events go.
        params: Sampler parameters of this sample.
        max_tokens: Most text tokens.
        tokens: Prompt and output.
        computed: Tokens whose keys and values are in the cache, or will be after the steps that
            were launched.
        drawing: Tokens that launched steps will add.
        epoch: Grows when launched steps become void.
        blocks: Cache blocks, in order.
        state: State of the constraint, -1 without one.
        admitted: Order of admission while running, else None.
        preemptions: How often it lost its blocks.
        passed: How many others were admitted before it while it did not fit.
        closed: Whether it has ended.
    """

    number: int
    request: GenerationRequest
    sample: int
    handle: RequestHandle
    params: SamplerParams
    max_tokens: int
    submitted_at: float
    deadline: float | None
    tokens: list[int]
    counts: TokenCounts | None
    text: TextAssembler
    state: int = -1
    computed: int = 0
    drawing: int = 0
    epoch: int = 0
    blocks: list[int] = field(default_factory=list)
    admitted: int | None = None
    preemptions: int = 0
    passed: int = 0
    closed: bool = False
    narrowed: bool = False
    logprobs: list[TokenLogprob] = field(default_factory=list)
    admitted_at: float | None = None
    first_token_at: float | None = None

    @staticmethod
    def open(
        number: int,
        request: GenerationRequest,
        sample: int,
        handle: RequestHandle,
        *,
        max_tokens: int,
        banned: tuple[int, ...],
        now: float,
    ) -> Sequence:
        """A waiting sequence for one sample of a request."""
        params = replace(request.sampling, sample=sample, banned=request.sampling.banned + banned)
        penalised = (
            params.repetition_penalty != 1.0
            or params.presence_penalty != 0.0
            or params.frequency_penalty != 0.0
        )
        counts = None
        if penalised:
            counts = TokenCounts()
            counts.add_prompt(request.prompt_ids)
        return Sequence(
            number=number,
            request=request,
            sample=sample,
            handle=handle,
            params=params,
            max_tokens=max_tokens,
            submitted_at=now,
            deadline=None if request.deadline_s is None else now + request.deadline_s,
            tokens=list(request.prompt_ids),
            counts=counts,
            text=TextAssembler(request.stop),
            state=-1 if request.constraint is None else request.constraint.start,
        )

    @property
    def output_length(self) -> int:
        """Text tokens drawn so far."""
        return len(self.tokens) - len(self.request.prompt_ids)

    @property
    def budget(self) -> int:
        """Text tokens that may still be drawn."""
        return self.max_tokens - self.output_length

    @property
    def pending(self) -> int:
        """Tokens whose keys and values are not computed yet; the last may be unknown yet."""
        return len(self.tokens) + self.drawing - self.computed

    @property
    def may_draw(self) -> bool:
        """Whether the budget has room beyond the tokens that are being drawn."""
        return self.budget > self.drawing

    def rewind(self) -> None:
        """Forget launched steps: the last token known comes again."""
        self.epoch += 1
        self.drawing = 0
        self.computed = min(self.computed, len(self.tokens) - 1)

    def add(self, token: int, data: bytes, logprob: TokenLogprob | None, now: float) -> None:
        """Take in a drawn text token and send its event."""
        if self.first_token_at is None:
            self.first_token_at = now
        self.tokens.append(token)
        if self.counts is not None:
            self.counts.add_output(token)
        drawn: tuple[TokenLogprob, ...] = ()
        if logprob is not None:
            self.logprobs.append(logprob)
            drawn = (logprob,)
        self.handle.put(TokenEvent(self.sample, (token,), self.text.push(data), drawn))

    def close(
        self,
        reason: FinishReason,
        now: float,
        *,
        stop: str | int | None = None,
        error: EngineError | None = None,
    ) -> None:
        """End the sequence and send its last event."""
        if self.closed:
            return
        self.closed = True
        try:
            rest = self.text.finish()
        except Exception as fault:  # the end must be told whatever happens
            rest, reason = "", "error"
            error = error or EngineError("engine", f"ending the text failed: {fault!r}")
        if self.text.stop is not None and reason in ("stop", "length"):
            reason, stop = "stop", self.text.stop  # completed by the very last characters
        if rest:
            self.handle.put(TokenEvent(self.sample, (), rest))
        admitted = self.admitted_at if self.admitted_at is not None else now
        first = self.first_token_at if self.first_token_at is not None else now
        output = tuple(self.tokens[len(self.request.prompt_ids) :])
        self.handle.put(
            FinishEvent(
                sample=self.sample,
                reason=reason,
                stop=stop,
                error=error,
                ids=output,
                text=self.text.text,
                logprobs=tuple(self.logprobs),
                usage=Usage(len(self.request.prompt_ids), len(output)),
                timings=Timings(
                    max(admitted - self.submitted_at, 0.0),
                    max(first - admitted, 0.0),
                    max(now - first, 0.0),
                ),
                narrowed=self.narrowed,
            )
        )
