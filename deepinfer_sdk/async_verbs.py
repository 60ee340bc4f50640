"""The awaiting verbs: agenerate, astream, amap, achat.

The twins of the blocking verbs on the same session; nothing blocks the event loop while tokens are
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .arguments import checked
from .batch import OnError, finish_all_async, outcomes, start_all
from .chat import Message, check_messages, prompt_text
from .errors import DeepInferError
from .params import SamplingParams
from .result import Result
from .schema import Schema
from .session_base import SAMPLING_FIELDS, SAMPLING_HINT, SessionBase
from .stream import AsyncStream
from .waiting import wait_async

if TYPE_CHECKING:
    from .call import Assembly

T = TypeVar("T")


class AsyncVerbs(SessionBase):
    """Verbs for `await` and `async for`."""

    @overload
    async def agenerate(
        self,
        prompt: str,
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Result[str]: ...
    @overload
    async def agenerate(
        self,
        prompt: str,
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Result[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    async def agenerate(
        self,
        prompt: str,
        *,
        schema: type[Any] | Schema[Any] | None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Result[Any]:
        """Answer one prompt.

        Args:
            prompt: The text; for a chat model it becomes one user message.
            schema: A type or Schema for the output; plain text without one.
            sampling: How to draw and when to stop; the session's defaults if None.
            raw: Send the prompt as it is, not wrapped as a user message of the chat template.
            timeout_s: Deadline in seconds.

        Raises:
            InvalidArgument: The prompt is empty or too long, or arguments do not go together.
            SchemaError: The schema cannot be used, or `max_tokens` is too small for it.
            OutputError: A validator refused the output, or the deadline passed.
        """
        running: list[Assembly[Any]] = []
        with self._interrupts.guard(running, blocking=False):
            assembly = self._live().submit(
                prompt_text(prompt),
                schema=schema,
                sampling=self._params(sampling),
                raw=raw,
                timeout_s=timeout_s,
            )
            running.append(assembly)
            await wait_async(assembly)
        return assembly.result()

    @overload
    def astream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncStream[str]: ...
    @overload
    def astream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncStream[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    def astream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: type[Any] | Schema[Any] | None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncStream[Any]:
        """Answer one prompt (or conversation) and yield events while the text is made.

        Call it inside a coroutine, without `await`: `async for event in session.astream(...)`.

        Args:
            prompt: A text, or a list of messages.
            schema: A type or Schema for the output; plain text without one.
            sampling: How to draw and when to stop; the session's defaults if None.
            raw: Send the prompt as it is, not wrapped as a user message of the chat template.
            timeout_s: Deadline in seconds.

        Raises:
            DeepInferError: As for `generate`; what is known beforehand is raised here.
        """
        assembly = self._live().submit(
            prompt,
            schema=schema,
            sampling=self._params(sampling),
            raw=raw,
            timeout_s=timeout_s,
        )
        return AsyncStream(assembly, self._interrupts, self)

    @overload
    async def amap(
        self,
        prompts: Iterable[str],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> list[Result[str]]: ...
    @overload
    async def amap(
        self,
        prompts: Iterable[str],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> list[Result[T]]: ...
    @overload
    async def amap(
        self,
        prompts: Iterable[str],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
        on_error: Literal["return"],
    ) -> list[Result[str] | DeepInferError]: ...
    @overload
    async def amap(
        self,
        prompts: Iterable[str],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
        on_error: Literal["return"],
    ) -> list[Result[T] | DeepInferError]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    async def amap(
        self,
        prompts: Iterable[str],
        *,
        schema: type[Any] | Schema[Any] | None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
        on_error: OnError = "raise",
    ) -> Any:
        """Answer many prompts; results come in the order of the prompts.

        Result i is what `agenerate` gives for prompt i with the same arguments.

        Args:
            prompts: The texts.
            schema: A type or Schema for the output; plain text without one.
            sampling: How to draw and when to stop; the session's defaults if None.
            raw: Send the prompt as it is, not wrapped as a user message of the chat template.
            timeout_s: Deadline in seconds.
            on_error: ``"raise"`` stops everything at the first error; ``"return"`` puts errors in
                the place of their results.

        Raises:
            DeepInferError: As for `generate`, with a note naming the prompt.
        """
        runtime = self._live()
        params = self._params(sampling)
        running: list[Assembly[Any]] = []

        def submit(prompt: object) -> Assembly[Any]:
            return runtime.submit(
                prompt_text(prompt), schema=schema, sampling=params, raw=raw, timeout_s=timeout_s
            )

        with self._interrupts.guard(running, blocking=False):
            started = start_all(prompts, submit, running, on_error)
            await finish_all_async(running, on_error)
        return outcomes(started)

    @overload
    async def achat(
        self,
        messages: Sequence[Message],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        timeout_s: float | None = None,
    ) -> Result[str]: ...
    @overload
    async def achat(
        self,
        messages: Sequence[Message],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        timeout_s: float | None = None,
    ) -> Result[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    async def achat(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | Schema[Any] | None = None,
        sampling: SamplingParams | None = None,
        timeout_s: float | None = None,
    ) -> Result[Any]:
        """Answer a conversation.

        Args:
            messages: Turns like {"role": "user", "content": "..."}, the oldest first.
            schema: A type or Schema for the output; plain text without one.
            sampling: How to draw and when to stop; the session's defaults if None.
            timeout_s: Deadline in seconds.

        Raises:
            DeepInferError: As for `generate`.
        """
        running: list[Assembly[Any]] = []
        with self._interrupts.guard(running, blocking=False):
            assembly = self._live().submit(
                check_messages(messages),
                schema=schema,
                sampling=self._params(sampling),
                timeout_s=timeout_s,
            )
            running.append(assembly)
            await wait_async(assembly)
        return assembly.result()
