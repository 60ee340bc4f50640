"""Stream[T] and AsyncStream[T]: a running call as an iterator of typed events.

Leaving the loop early cancels the call. Holds the session, so that it stays open meanwhile.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import DeepInferError, GenerationCancelled, InvalidArgument
from .stream_events import StreamEvent
from .waiting import AsyncEvents, Interrupts

if TYPE_CHECKING:
    from .call import Assembly
    from .result import Result

T = TypeVar("T")


class _Running(Generic[T]):
    """What both kinds of stream share."""

    def __init__(self, assembly: Assembly[T], interrupts: Interrupts, keep: object) -> None:
        self._assembly = assembly
        self._interrupts = interrupts
        self._keep = keep
        self._cancelled = False

    @property
    def text(self) -> str:
        """Everything generated so far (of the first sample)."""
        return self._assembly.texts[0]

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything generated so far, per sample."""
        return tuple(self._assembly.texts)

    @property
    def done(self) -> bool:
        """Whether the call has ended."""
        return self._assembly.done

    @property
    def result(self) -> Result[T]:
        """The result, once the stream has been read to its end.

        Raises:
            InvalidArgument: The stream has not been read to its end.
            OutputError: The call ended without a usable value.
        """
        if self._cancelled:
            raise GenerationCancelled(
                f"the stream was left after {len(self.text)} characters, so there is no result",
                text=self.text,
                hint="Read the stream to its end; the text so far is on error.text",
            )
        if not self._assembly.done:
            raise InvalidArgument(
                "the stream has not ended yet, so there is no result",
                hint="Read it to its end first: for event in stream: ...",
            )
        return self._assembly.result()

    def cancel(self) -> None:
        """Stop generating. Does nothing after the end."""
        if not self._assembly.done and not self._cancelled:
            self._cancelled = True
            self._assembly.handle.cancel()

    def _failure(self) -> DeepInferError | None:
        if self._cancelled:
            return None
        outcome = self._assembly.outcome()
        return outcome if isinstance(outcome, DeepInferError) else None


class Stream(_Running[T]):
    """A running call: iterate over it for events, read `text` any time, and `result` at the end."""

    def __iter__(self) -> _Loop[T]:
        return _Loop(self)

    def __next__(self) -> StreamEvent:
        assembly = self._assembly
        with self._interrupts.guard([assembly]):
            while not assembly.done and not self._cancelled:
                event = assembly.handle.next_event()
                if event is not None:
                    return assembly.feed(event)
        failure = self._failure()
        if failure is not None:
            raise failure
        raise StopIteration

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()


class _Loop(Generic[T]):
    """One `for` loop over a stream; when the loop is left, this goes away and cancels."""

    def __init__(self, stream: Stream[T]) -> None:
        self._stream = stream

    def __iter__(self) -> _Loop[T]:
        return self

    def __next__(self) -> StreamEvent:
        return next(self._stream)

    def __del__(self) -> None:
        self._stream.cancel()


class AsyncStream(_Running[T]):
    """`Stream` for `async for`; the same events in the same order."""

    def __init__(self, assembly: Assembly[T], interrupts: Interrupts, keep: object) -> None:
        super().__init__(assembly, interrupts, keep)
        self._events: AsyncEvents | None = None

    def __aiter__(self) -> _AsyncLoop[T]:
        return _AsyncLoop(self)

    async def __anext__(self) -> StreamEvent:
        assembly = self._assembly
        if self._events is None:
            self._events = AsyncEvents(assembly)
        with self._interrupts.guard([assembly], blocking=False):
            if not assembly.done and not self._cancelled:
                return assembly.feed(await self._events.next())
        failure = self._failure()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()


class _AsyncLoop(Generic[T]):
    """One `async for` loop over a stream; when the loop is left, this goes away and cancels."""

    def __init__(self, stream: AsyncStream[T]) -> None:
        self._stream = stream

    def __aiter__(self) -> _AsyncLoop[T]:
        return self

    async def __anext__(self) -> StreamEvent:
        return await anext(self._stream)

    def __del__(self) -> None:
        self._stream.cancel()
