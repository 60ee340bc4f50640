"""The blocking verbs: generate, stream, map, chat.

They work in scripts, in notebooks and under a running event loop: the engine has its own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .arguments import checked
from .batch import OnError, finish_all, outcomes, start_all
from .chat import Message, check_messages, prompt_text
from .errors import DeepInferError
from .params import SamplingParams
from .result import Result
from .schema import Schema
from .session_base import SAMPLING_FIELDS, SAMPLING_HINT, SessionBase
from .stream import Stream
from .waiting import wait

if TYPE_CHECKING:
    from .call import Assembly

T = TypeVar("T")


class SyncVerbs(SessionBase):
    """Verbs that block until the answer is there."""

    @overload
    def generate(
        self,
        prompt: str,
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Result[str]: ...
    @overload
    def generate(
        self,
        prompt: str,
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Result[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    def generate(
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
        with self._interrupts.guard(running):
            assembly = self._live().submit(
                prompt_text(prompt),
                schema=schema,
                sampling=self._params(sampling),
                raw=raw,
                timeout_s=timeout_s,
            )
            running.append(assembly)
            wait(assembly)
        return assembly.result()

    @overload
    def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Stream[str]: ...
    @overload
    def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Stream[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        schema: type[Any] | Schema[Any] | None = None,
        sampling: SamplingParams | None = None,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Stream[Any]:
        """Answer one prompt (or conversation) and yield events while the text is made.

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
        return Stream(assembly, self._interrupts, self)

    @overload
    def map(
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
    def map(
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
    def map(
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
    def map(
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
    def map(
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

        Result i is what `generate` gives for prompt i with the same arguments.

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

        with self._interrupts.guard(running):
            started = start_all(prompts, submit, running, on_error)
            finish_all(running, on_error)
        return outcomes(started)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        schema: None = None,
        sampling: SamplingParams | None = None,
        timeout_s: float | None = None,
    ) -> Result[str]: ...
    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        schema: type[T] | Schema[T],
        sampling: SamplingParams | None = None,
        timeout_s: float | None = None,
    ) -> Result[T]: ...
    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    def chat(
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
        with self._interrupts.guard(running):
            assembly = self._live().submit(
                check_messages(messages),
                schema=schema,
                sampling=self._params(sampling),
                timeout_s=timeout_s,
            )
            running.append(assembly)
            wait(assembly)
        return assembly.result()
