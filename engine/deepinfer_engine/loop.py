"""The body of the engine's thread: commands, steps, results.

Host-side only: what runs a step is behind `Executor`. Errors stay with the request that caused
them.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from .blocks import BlockPool
from .config import EngineConfig
from .errors import EngineError, ErrorKind
from .executor import Choice, Executor
from .handle import RequestHandle
from .request import FinishReason, TokenLogprob
from .scheduler import Entry, Scheduler, halves
from .sequence import Sequence

_log = logging.getLogger("deepinfer_engine")
_log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class TokenTable:
    """What the loop knows of a tokenizer: bytes of text tokens, ids that end the text."""

    token_bytes: tuple[bytes | None, ...]
    eos_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Launched:
    """A step on its way, and the sequences that draw in it, with their epochs."""

    step: object
    drawing: list[tuple[Sequence, int]]


class Loop:
    """The state of a running engine; everything but `commands` belongs to its thread.

    Args:
        executor: Runs steps.
        tokens: The tokenizer's table.
        config: Sizes and limits.
        num_blocks: Cache blocks.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        executor: Executor,
        tokens: TokenTable,
        config: EngineConfig,
        num_blocks: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.pool = BlockPool(num_blocks, config.block_tokens)
        self.scheduler = Scheduler(config, self.pool)
        self.clock = clock
        self.started: Future[None] = Future()
        self.failure: EngineError | None = None
        self.requests = self.finished = self.steps = 0
        self.prompt_tokens = self.output_tokens = 0
        self._executor = executor
        self._release: Callable[[Sequence], None] = executor.release
        self._tokens = tokens
        self._live: list[Sequence] = []
        self._launched: deque[_Launched] = deque()

    def run(self) -> None:
        """The body of the engine's thread; `started` tells whether it came up."""
        try:
            self._executor.start()
        except BaseException as error:
            self.started.set_exception(error)
            return
        self.started.set_result(None)
        try:
            self.failure = self._work()
            # Old handles and closed engines may be kept for long, and lead here; the cache must
            # not be kept with them.
            self._release = _nothing
            self._launched.clear()
            del self._executor
            if self.failure is not None:
                self._answer(self.failure)
        finally:
            while not self.commands.empty():  # what arrived together with the order to close
                command = self.commands.get()
                if command is not None:
                    command()
            self._end_all("cancelled")

    def _work(self) -> EngineError | None:
        """Steps until the order to close; the error if something stopped them."""
        try:
            while self._drain(block=not self._live):
                self.turn()
        except BaseException as error:
            _log.exception("the engine stopped")
            return EngineError(
                "engine", f"the engine stopped: {error!r}", hint="Open a new session"
            )
        return None

    def _answer(self, failure: EngineError) -> None:
        """Tell everyone that the engine has failed, until the order to close."""
        self._end_all("error", failure)
        while (command := self.commands.get()) is not None:
            command()
            self._end_all("error", failure)

    def _end_all(self, reason: FinishReason, error: EngineError | None = None) -> None:
        for sequence in list(self._live):
            self._close(sequence, reason, error=error)

    def _drain(self, *, block: bool) -> bool:
        """Carry out waiting commands; False once the engine is to close."""
        while True:
            try:
                command = self.commands.get(block=block)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()
            block = False

    def admit(self, sequences: list[Sequence]) -> None:
        """Take in the sequences of a new request."""
        self.requests += 1
        for sequence in sequences:
            self._live.append(sequence)
            constraint = sequence.request.constraint
            try:
                empty = constraint is not None and constraint.complete(sequence.state)
            except Exception as error:
                failure = EngineError("grammar_dead", f"the constraint failed: {error!r}")
                self._close(sequence, "error", error=failure)
                continue
            if empty:
                self._close(sequence, "stop")  # the empty text, and nothing else
            else:
                self.scheduler.add(sequence)

    def cancel(self, handle: RequestHandle) -> None:
        """End the sequences of a request."""
        for sequence in [s for s in self._live if s.handle is handle]:
            self._close(sequence, "cancelled")

    def turn(self) -> None:
        """One step: expire, plan, run, take in the results."""
        now = self.clock()
        for sequence in [s for s in self._live if s.deadline is not None and s.deadline <= now]:
            self._close(sequence, "timeout")
        entries = self.scheduler.plan()
        for entry in entries:
            if entry.sequence.admitted_at is None:
                entry.sequence.admitted_at = now
        if entries:
            self.steps += 1
            self._launch(entries)
        while len(self._launched) > (self._executor.depth if entries else 0):
            self._collect(self._launched.popleft())

    def _launch(self, entries: list[Entry]) -> None:
        """Launch entries; on an error launch halves, until the one that causes it is alone."""
        try:
            step = self._executor.launch(entries)
        except Exception as error:
            _log.debug("a step failed", exc_info=True)
            self._launch_halves(entries, error)
            return
        drawing = []
        for entry in entries:
            sequence = entry.sequence
            sequence.computed = entry.start + entry.count
            if entry.start < len(sequence.request.prompt_ids):
                self.prompt_tokens += entry.count
            if entry.samples:
                sequence.drawing += 1
                drawing.append((sequence, sequence.epoch))
        self._launched.append(_Launched(step, drawing))

    def _collect(self, launched: _Launched) -> None:
        choices = self._executor.collect(launched.step)
        for (sequence, epoch), choice in zip(launched.drawing, choices, strict=True):
            if sequence.closed or sequence.epoch != epoch:
                continue
            sequence.drawing -= 1
            if not choice.again:
                self._retire(sequence, choice)
            if choice.again or choice.rewind:
                sequence.rewind()

    def _launch_halves(self, entries: list[Entry], error: Exception) -> None:
        rows = sum(entry.count for entry in entries)
        if isinstance(error, MemoryError) and rows > 1:
            self.scheduler.limit_rows(rows // 2)
        elif len(entries) == 1:
            kind: ErrorKind = "memory" if isinstance(error, MemoryError) else "engine"
            failure = EngineError(kind, f"a step of this request failed: {error!r}")
            self._close(entries[0].sequence, "error", error=failure)
            return
        for half in halves(entries):
            if not half[0].sequence.closed:  # the first half of a chunk may have ended it
                self._launch(half)

    def _retire(self, sequence: Sequence, choice: Choice) -> None:
        try:
            self._take(sequence, choice)
            if sequence.handle.failure is not None:
                raise sequence.handle.failure
        except Exception as error:
            _log.debug("retiring a token failed", exc_info=True)
            failure = EngineError("engine", f"taking in a token failed: {error!r}")
            self._close(sequence, "error", error=failure)

    def _take(self, sequence: Sequence, choice: Choice) -> None:
        request, drawn = sequence.request, choice.drawn
        sequence.narrowed = sequence.narrowed or choice.narrowed
        if drawn is None:
            reason: FinishReason = "stop" if choice.error is None else "error"
            self._close(sequence, reason, error=choice.error)
            return
        token = drawn.token
        if token in self._tokens.eos_ids:
            self._close(sequence, "stop")
            return
        if token in request.stop_ids:
            self._close(sequence, "stop", stop=token)
            return
        logprob = None
        if drawn.logprob is not None and drawn.rank is not None:
            logprob = TokenLogprob(token, drawn.logprob, drawn.rank, drawn.top)
        if request.constraint is not None:
            state = choice.state
            if state is None:
                state = request.constraint.advance(sequence.state, token)
            sequence.state = state
        self.output_tokens += 1
        sequence.add(token, self._tokens.token_bytes[token] or b"", logprob, self.clock())
        if sequence.text.stop is not None:
            self._close(sequence, "stop", stop=sequence.text.stop)
        elif request.constraint is not None and request.constraint.complete(sequence.state):
            self._close(sequence, "stop")
        elif sequence.budget <= 0:
            if request.constraint is None:
                self._close(sequence, "length")
            else:  # complete by construction, but it might have gone on
                sequence.narrowed = True
                self._close(sequence, "stop")

    def _close(
        self,
        sequence: Sequence,
        reason: FinishReason,
        *,
        stop: str | int | None = None,
        error: EngineError | None = None,
    ) -> None:
        if sequence.closed:
            return
        self._live.remove(sequence)
        self.scheduler.remove(sequence)
        self._release(sequence)
        self.finished += 1
        sequence.close(reason, self.clock(), stop=stop, error=error)


def _nothing(sequence: Sequence) -> None:
    """There is no executor any more."""
