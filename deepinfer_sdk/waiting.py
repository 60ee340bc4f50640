"""Waiting for requests: blocking with Ctrl-C in mind, or on an event loop.

The engine has its own thread, so nothing here starts or patches a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepinfer_engine import FinishEvent, TokenEvent

    from .call import Assembly

_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What an interrupted call had generated.

    Attributes:
        texts: The text so far of every sample (of every prompt, for `map`), in order.
        seeds: The seed of every prompt.
    """

    texts: tuple[str, ...]
    seeds: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """The text so far of the first sample."""
        return self.texts[0] if self.texts else ""


class Interrupts:
    """Keeps what the last interrupted call had generated."""

    def __init__(self) -> None:
        self.last: Interrupted | None = None

    @contextlib.contextmanager
    def guard(self, running: Sequence[Assembly[Any]], *, blocking: bool = True) -> Iterator[None]:
        """Cancel these requests if the body is left by an exception, Ctrl-C above all.

        The partial texts are kept after a Ctrl-C or the cancellation of a task.

        Args:
            running: The requests; the list may grow while the body runs.
            blocking: Whether to wait a moment for the engine to let go of them.
        """
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.keep(running)  # a second Ctrl-C may end the next line
            cancel(running, blocking=blocking)
            self.keep(running)
            raise
        except BaseException:
            cancel(running, blocking=blocking)
            raise

    def keep(self, running: Sequence[Assembly[Any]]) -> None:
        """Remember the texts of these requests."""
        self.last = Interrupted(
            texts=tuple(text for assembly in running for text in assembly.texts),
            seeds=tuple(assembly.call.recipe.params.seed for assembly in running),
        )


def cancel(running: Sequence[Assembly[Any]], *, blocking: bool) -> None:
    """Cancel requests and take in what they still had to say."""
    for assembly in running:
        if not assembly.done:
            assembly.handle.cancel()
    for assembly in running:
        while not assembly.done:
            event = assembly.handle.next_event(timeout=_GRACE_S if blocking else 0)
            if event is None:
                break
            assembly.feed(event)


def wait(assembly: Assembly[Any]) -> None:
    """Block until every sample has ended."""
    while not assembly.done:
        event = assembly.handle.next_event()
        if event is not None:
            assembly.feed(event)


class AsyncEvents:
    """The events of one request on the running event loop.

    Args:
        assembly: The request; its engine thread wakes the loop.
    """

    def __init__(self, assembly: Assembly[Any]) -> None:
        self._handle = assembly.handle
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._handle.add_listener(self._wake)

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed before the request ended
            self._loop.call_soon_threadsafe(self._ready.set)

    async def next(self) -> TokenEvent | FinishEvent:
        """The next event."""
        while True:
            self._ready.clear()
            event = self._handle.next_event(timeout=0)
            if event is not None:
                return event
            await self._ready.wait()


async def wait_async(assembly: Assembly[Any]) -> None:
    """Let the loop run until every sample has ended."""
    if assembly.done:
        return
    events = AsyncEvents(assembly)
    while not assembly.done:
        assembly.feed(await events.next())
