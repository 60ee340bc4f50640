"""The caller's end of a request: a bounded queue of events, and cancellation."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from .request import FinishEvent, TokenEvent

Event = TokenEvent | FinishEvent


class RequestHandle:
    """Events of one request, in order; safe to use from any thread.

    Args:
        samples: Number of samples.
        limit: Events kept before token events are merged.
        on_cancel: Tells the engine to end this request.

    Attributes:
        failure: What a listener raised, if one did; it is not called again, and the engine ends
            the request.
    """

    def __init__(
        self, samples: int, limit: int, on_cancel: Callable[[RequestHandle], None]
    ) -> None:
        self._events: deque[Event] = deque()
        self._ready = threading.Condition()
        self._limit = max(limit, 2 * samples + 1)  # merged, a sample may leave two events
        self.failure: Exception | None = None
        self._on_cancel = on_cancel
        self._listeners: list[Callable[[], None]] = []
        self._open = samples

    @property
    def finished(self) -> bool:
        """Whether every sample has ended (events may still be waiting to be read)."""
        return self._open == 0

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event; None if none came within `timeout` seconds (None waits for ever)."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._events, timeout):
                return None
            return self._events.popleft()

    def cancel(self) -> None:
        """End the request; its samples finish with ``cancelled``. No effect on ended ones."""
        self._on_cancel(self)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` (on the engine's thread) after every new event, and once now if any."""
        with self._ready:
            self._listeners.append(listener)
            waiting = bool(self._events)
        if waiting:
            listener()

    def put(self, event: Event) -> None:
        """Add an event; used by the engine. Never blocks: a full queue merges its token events."""
        with self._ready:
            if isinstance(event, FinishEvent):
                self._open -= 1
            if len(self._events) >= self._limit:
                self._events = deque(_merged(self._events))
            self._events.append(event)
            self._ready.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener()
            except Exception as error:
                self.failure = error
                with self._ready:
                    self._listeners.remove(listener)


def _merged(events: deque[Event]) -> list[Event]:
    """One token event per sample, before that sample's finish event."""
    tokens: dict[int, TokenEvent] = {}
    finishes: list[FinishEvent] = []
    for event in events:
        if isinstance(event, FinishEvent):
            finishes.append(event)
            continue
        before = tokens.get(event.sample)
        if before is not None:
            event = TokenEvent(
                event.sample,
                before.ids + event.ids,
                before.text + event.text,
                before.logprobs + event.logprobs,
            )
        tokens[event.sample] = event
    return [*tokens.values(), *finishes]
