"""One call: from checked arguments to an engine request, and from its events to a Result.

Holds no thread and no loop; `Assembly` is fed by whoever waits, blocking or not.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from deepinfer_engine import (
    EngineError,
    FinishEvent,
    GenerationRequest,
    LoadedModel,
    RequestHandle,
    TokenEvent,
)
from deepinfer_kernels.sampling import SamplerParams

from .chat import Message, check_messages, prompt_text
from .chat_template import encode_chat
from .errors import (
    BudgetTooSmall,
    DeepInferError,
    EngineFailure,
    GenerationCancelled,
    GenerationTimeout,
    InvalidArgument,
    PromptTooLong,
    from_engine_error,
)
from .params import SamplingParams
from .result import Recipe, Result, Sample, Timings, TokenLogprob, Usage
from .schema import Schema, schema_of
from .stream_events import Finished, StreamEvent, TextDelta
from .version import __version__

if TYPE_CHECKING:
    from .runtime import Runtime

_PACKAGES = ("numba", "numpy", "tokenizers")

T = TypeVar("T")


def prompt_ids(model: LoadedModel, prompt: object, *, raw: bool) -> tuple[int, ...]:
    """Token ids of a prompt.

    Args:
        model: The open model.
        prompt: A text, which becomes one user message if the model has a chat template; or
            messages.
        raw: Take the text as it is.
    """
    if isinstance(prompt, list | tuple):
        messages: list[Message] = check_messages(prompt)
    else:
        text = prompt_text(prompt)
        if raw or model.chat_template is None:
            return tuple(model.tokenizer.encode(text, add_special=True))
        messages = [{"role": "user", "content": text}]
    if model.chat_template is None:
        raise InvalidArgument(
            f"the model {model.name!r} has no chat template",
            hint="Use session.generate(prompt) with a prompt written for this model",
        )
    return tuple(
        encode_chat(
            model.tokenizer,
            model.chat_template,
            messages,
            model.special_tokens,
            model.tokenizer.control_texts,
        )
    )


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that take part in generating."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"deepinfer-sdk": __version__, **found}


class Call(Generic[T]):
    """A checked call, ready to be submitted.

    Args:
        runtime: The model and its engine.
        prompt_ids: The prompt.
        schema: A type, a Schema, or None for plain text.
        sampling: The parameters.
        timeout_s: Deadline in seconds from submission.

    Raises:
        InvalidArgument: The arguments do not go together.
        PromptTooLong: No room is left for the output.
        BudgetTooSmall: `max_tokens` cannot hold any valid output.
        SchemaError: The schema cannot be used.
    """

    def __init__(
        self,
        runtime: Runtime,
        prompt_ids: tuple[int, ...],
        schema: type[T] | Schema[T] | None,
        sampling: SamplingParams,
        timeout_s: float | None,
    ) -> None:
        self.schema = _one_schema(schema, sampling)
        seed = sampling.seed if sampling.seed is not None else secrets.randbits(64)
        params = sampling.with_(seed=seed, so_args=None)
        room = _room(runtime, prompt_ids)
        max_tokens = room if params.max_tokens is None else min(params.max_tokens, room)
        automaton = None
        if self.schema is not None:
            _check_with_schema(params)
            automaton = runtime.automaton(self.schema.spec)
            _check_budget(automaton.fewest_tokens(automaton.start), params, room)
        self._runtime = runtime
        self.recipe = Recipe(
            model=runtime.model.name,
            model_digest=runtime.model.digest,
            device=runtime.device,
            versions=versions(),
            prompt_ids=prompt_ids,
            params=params,
            max_tokens=max_tokens,
            schema_spec=None if self.schema is None else self.schema.spec,
        )
        self._request = GenerationRequest(
            prompt_ids=prompt_ids,
            sampling=_sampler_params(params, seed, runtime.vocabulary.size),
            max_tokens=max_tokens,
            min_tokens=min(params.min_tokens, max_tokens),
            stop=params.stop,
            stop_ids=params.stop_token_ids,
            ignore_eos=params.ignore_eos,
            n=params.n,
            constraint=automaton,
            deadline_s=_check_timeout(timeout_s),
        )

    def submit(self) -> Assembly[T]:
        """Hand the request to the engine."""
        try:
            handle = self._runtime.engine.submit(self._request)
        except EngineError as error:
            raise from_engine_error(error) from error
        return Assembly(self, handle)


class Assembly(Generic[T]):
    """The events of a running request, gathered into texts and finally a Result.

    Attributes:
        handle: The engine's side.
        texts: Text so far, per sample.
        done: Whether every sample has ended.
    """

    def __init__(self, call: Call[T], handle: RequestHandle) -> None:
        self.call = call
        self.handle = handle
        samples = call.recipe.params.n
        self.texts = [""] * samples
        self._ended: list[FinishEvent | None] = [None] * samples
        self._left = samples
        self._outcome: Result[T] | DeepInferError | None = None

    @property
    def done(self) -> bool:
        """Whether every sample has ended."""
        return self._left == 0

    def feed(self, event: TokenEvent | FinishEvent) -> StreamEvent:
        """Take in one engine event and say what it means for the caller."""
        if isinstance(event, TokenEvent):
            self.texts[event.sample] += event.text
            return TextDelta(
                sample=event.sample,
                text=event.text,
                ids=event.ids,
                logprobs=_logprobs(event.logprobs),
            )
        self._ended[event.sample] = event
        self.texts[event.sample] = event.text
        self._left -= 1
        return Finished(sample=event.sample, reason=event.reason, text=event.text, stop=event.stop)

    def outcome(self) -> Result[T] | DeepInferError:
        """The result, or the error that the call ends with; made once.

        Only when `done`.
        """
        if self._outcome is None:
            try:
                self._outcome = self._result()
            except DeepInferError as error:
                self._outcome = error
        return self._outcome

    def result(self) -> Result[T]:
        """The result; raises the error instead if the call ended with one."""
        outcome = self.outcome()
        if isinstance(outcome, DeepInferError):
            raise outcome
        return outcome

    def _result(self) -> Result[T]:
        ended = [event for event in self._ended if event is not None]
        for event in ended:
            self._raise_failure(event)
        samples = [self._sample(event) for event in ended]
        first = samples[0]
        return Result(
            **dict(first),
            usage=Usage(
                prompt_tokens=ended[0].usage.prompt_tokens,
                completion_tokens=sum(event.usage.completion_tokens for event in ended),
            ),
            seed=cast("int", self.call.recipe.params.seed),
            recipe=self.call.recipe,
            more_samples=tuple(samples[1:]),
        )

    def _raise_failure(self, event: FinishEvent) -> None:
        if event.reason == "error":
            if event.error is None:
                raise EngineFailure("the engine closed the request without saying why")
            raise from_engine_error(event.error) from event.error
        if event.reason == "timeout":
            raise GenerationTimeout(
                f"the call's deadline passed after {len(event.ids)} tokens",
                text=event.text,
                hint="Raise timeout_s or lower max_tokens; the text so far is on error.text",
            )
        if event.reason == "cancelled":
            raise GenerationCancelled(
                f"the call was cancelled after {len(event.ids)} tokens",
                text=event.text,
                hint="The text so far is on error.text",
            )

    def _sample(self, event: FinishEvent) -> Sample[T]:
        schema = self.call.schema
        value: Any = event.text if schema is None else schema.parse(event.text)
        asked = self.call.recipe.params.logprobs is not None
        timings = event.timings
        return Sample(
            value=value,
            text=event.text,
            ids=event.ids,
            logprobs=_logprobs(event.logprobs) if asked else None,
            finish_reason=event.reason,
            stop=event.stop,
            limited=event.narrowed,
            timings=Timings(
                queue_s=timings.queue_s, prefill_s=timings.prefill_s, decode_s=timings.decode_s
            ),
        )


def _one_schema(schema: type[T] | Schema[T] | None, sampling: SamplingParams) -> Schema[T] | None:
    older = sampling.so_args
    if older is None:
        return None if schema is None else cast("Schema[T]", schema_of(schema))
    if schema is not None:
        raise InvalidArgument(
            "the call has both schema= and sampling.so_args; they are one constraint",
            hint="Give only schema=",
        )
    makers: dict[str, Callable[..., Schema[Any]]] = {
        "json": Schema.json,
        "regex": Schema.regex,
        "ebnf": Schema.ebnf,
    }
    return cast("Schema[T]", makers[older.schema_type](older.schema_))


def _room(runtime: Runtime, prompt_ids: tuple[int, ...]) -> int:
    context = runtime.context
    room = context - len(prompt_ids)
    if room < 1:
        raise PromptTooLong(
            f"the prompt is {len(prompt_ids)} tokens long, and the model's context holds "
            f"{context}, output included",
            hint=f"Shorten the prompt to at most {context - 1} tokens",
        )
    return room


def _check_with_schema(params: SamplingParams) -> None:
    if params.stop or params.stop_token_ids:
        raise InvalidArgument(
            f"stop={list(params.stop + params.stop_token_ids)!r} together with a schema could cut "
            "the output off before it is valid",
            hint="Drop the stop texts, or put the end into the schema (Schema.regex, Schema.ebnf)",
        )


def _check_budget(least: int, params: SamplingParams, room: int) -> None:
    if params.max_tokens is not None and params.max_tokens < least:
        raise BudgetTooSmall(
            f"max_tokens={params.max_tokens} cannot hold any output of this schema: "
            f"the shortest needs {least} tokens",
            least=least,
            hint=f"Use max_tokens={least} or more",
        )
    if room < least:
        raise PromptTooLong(
            f"the prompt leaves room for {room} tokens, and the shortest output of this schema "
            f"needs {least}",
            hint="Shorten the prompt, or allow shorter output in the schema",
        )


def _check_timeout(timeout_s: float | None) -> float | None:
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or timeout_s <= 0:
        raise InvalidArgument(
            f"timeout_s={timeout_s!r} is not allowed", hint="timeout_s is a number above 0, or None"
        )
    return float(timeout_s)


def _sampler_params(params: SamplingParams, seed: int, vocab_size: int) -> SamplerParams:
    for name, ids in (
        ("logit_bias", tuple(params.logit_bias)),
        ("stop_token_ids", params.stop_token_ids),
    ):
        wrong = [token for token in ids if token >= vocab_size]
        if wrong:
            raise InvalidArgument(
                f"{name} names token {wrong[0]}, which the model does not have",
                hint=f"Its token ids go from 0 to {vocab_size - 1}",
            )
    return SamplerParams(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        logit_bias=tuple(params.logit_bias.items()),
        seed=seed,
        draw=params.draw,
        logprobs=params.logprobs,
        logprobs_mode=params.logprobs_mode,
    )


def _logprobs(entries: Sequence[Any]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(id=e.id, logprob=e.logprob, rank=e.rank, top=e.top) for e in entries)
