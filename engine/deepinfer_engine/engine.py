"""The engine: one thread that turns commands into steps and steps into events.

Host-side only: what runs a step is behind `Executor`. Errors stay with the request that caused them.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blocks import BlockPool
from .config import EngineConfig
from .errors import EngineError
from .executor import Choice, Executor
from .handle import RequestHandle
from .request import FinishReason, GenerationRequest, TokenLogprob
from .scheduler import Entry, Scheduler
from .sequence import Sequence

if TYPE_CHECKING:
    from .model import LoadedModel

_log = logging.getLogger("deepinfer")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since the start, and what is going on now."""

    requests: int
    finished: int
    steps: int
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    running: int
    waiting: int
    blocks_used: int
    blocks_total: int


@dataclass(frozen=True, slots=True)
class TokenTable:
    """What the loop knows of a tokenizer: bytes of text tokens, ids that end the text."""

    token_bytes: tuple[bytes | None, ...]
    eos_ids: tuple[int, ...]


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
        self.requests = self.finished = self.steps = 0
        self.prompt_tokens = self.output_tokens = 0
        self._executor = executor
        self._tokens = tokens
        self._live: list[Sequence] = []

    def run(self) -> None:
        """The body of the engine's thread."""
        try:
            self._executor.start()
            while True:
                if not self._drain(block=not self._live):
                    break
                self.turn()
        except BaseException as error:
            _log.exception("the engine stopped")
            self._fail(error)
        finally:
            while not self.commands.empty():  # what arrived together with the order to close
                command = self.commands.get()
                if command is not None:
                    command()
            self._end_all("cancelled")

    def _fail(self, cause: BaseException) -> None:
        error = EngineError("engine", f"the engine stopped: {cause}", hint="Open a new session")
        self._end_all("error", error)
        while True:  # answer what arrives later, until closed
            command = self.commands.get()
            if command is None:
                return
            command()
            self._end_all("error", error)

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
            self._run(entries)

    def _run(self, entries: list[Entry]) -> None:
        """Run entries; on an error run halves, until the one that causes it is alone."""
        try:
            choices = self._executor.step(entries)
        except Exception as error:
            if len(entries) == 1:
                kind = "memory" if isinstance(error, MemoryError) else "engine"
                _log.debug("a step failed", exc_info=True)
                failure = EngineError(kind, f"a step of this request failed: {error!r}")  # type: ignore[arg-type]
                self._close(entries[0].sequence, "error", error=failure)
                return
            middle = len(entries) // 2
            self._run(entries[:middle])
            self._run(entries[middle:])
            return
        remaining = iter(choices)
        for entry in entries:
            entry.sequence.computed = entry.start + entry.count
            if entry.start < len(entry.sequence.request.prompt_ids):
                self.prompt_tokens += entry.count
            if entry.samples:
                self._retire(entry.sequence, next(remaining))

    def _retire(self, sequence: Sequence, choice: Choice) -> None:
        try:
            self._take(sequence, choice)
        except Exception as error:
            _log.debug("retiring a token failed", exc_info=True)
            failure = EngineError("engine", f"taking in a token failed: {error!r}")
            self._close(sequence, "error", error=failure)

    def _take(self, sequence: Sequence, choice: Choice) -> None:
        request, drawn = sequence.request, choice.drawn
        if drawn is None:
            self._close(sequence, "error", error=choice.error)
            return
        sequence.narrowed = sequence.narrowed or choice.narrowed
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
            sequence.state = request.constraint.advance(sequence.state, token)
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
        self._live.remove(sequence)
        self.scheduler.remove(sequence)
        self.finished += 1
        sequence.close(reason, self.clock(), stop=stop, error=error)


class Engine:
    """Generates tokens for requests, batched together on a thread of its own.

    A token is a function of the model, the prompt, the parameters, the seed and the position only:
    the same alone, in any batch, with any chunking, and after a preemption.

    Args:
        model: A loaded model; engines may share it.
        config: Sizes and limits.
        clock: Seconds, monotonic; for deadlines and timings.

    Raises:
        EngineError: The cache would not hold a single block, or a limit is out of range.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = EngineConfig() if config is None else config
        if config.max_len is not None and config.max_len > model.max_len:
            raise EngineError(
                "invalid",
                f"max_len={config.max_len} is more than the {model.max_len} tokens of the model",
                hint=f"Use max_len={model.max_len} or less",
            )
        executor, num_blocks, self.max_len = model.executor(config)
        self._setup(executor, model.token_table, config, num_blocks, clock)

    @classmethod
    def over(
        cls,
        executor: Executor,
        tokens: TokenTable,
        config: EngineConfig,
        *,
        num_blocks: int,
        max_len: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> Engine:
        """An engine over any executor."""
        engine = cls.__new__(cls)
        engine.max_len = max_len
        engine._setup(executor, tokens, config, num_blocks, clock)
        return engine

    def _setup(
        self,
        executor: Executor,
        tokens: TokenTable,
        config: EngineConfig,
        num_blocks: int,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self._tokens = tokens
        self._controls = tuple(
            i
            for i, data in enumerate(tokens.token_bytes)
            if data is None and i not in tokens.eos_ids
        )
        loop = Loop(executor, tokens, config, num_blocks, clock)
        self._loop = loop
        # The thread knows the loop but not this object, so a forgotten engine can be collected.
        self._thread = threading.Thread(target=loop.run, name="deepinfer-engine", daemon=True)
        self._lock = threading.Lock()
        self._closed = False
        self._close_loop = weakref.finalize(self, loop.commands.put, None)
        self._thread.start()

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request.

        Raises:
            EngineError: ``closed``; or the request cannot be served (``invalid``, ``too_long``,
                ``budget``), found out before any work is done.
        """
        max_tokens = self._check(request)
        loop = self._loop
        handle: RequestHandle | None = None

        def cancel() -> None:
            if handle is not None:
                loop.commands.put(lambda: loop.cancel(handle))

        handle = RequestHandle(request.n, self.config.stream_queue, cancel)
        banned = self._banned(request)
        now = loop.clock()
        sequences = [
            Sequence.open(
                next(_numbers),
                request,
                sample,
                handle,
                max_tokens=max_tokens,
                banned=banned,
                now=now,
            )
            for sample in range(request.n)
        ]
        with self._lock:
            if self._closed:
                raise EngineError("closed", "this engine is closed", hint="Open a new one")
            loop.commands.put(lambda: loop.admit(sequences))
        return handle

    def close(self) -> None:
        """End all requests (``cancelled``) and stop the thread; may be called twice."""
        with self._lock:
            self._closed = True
            self._close_loop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def stats(self) -> EngineStats:
        """Counters, read without stopping the engine."""
        loop = self._loop
        return EngineStats(
            requests=loop.requests,
            finished=loop.finished,
            steps=loop.steps,
            prompt_tokens=loop.prompt_tokens,
            output_tokens=loop.output_tokens,
            preemptions=loop.scheduler.preemptions,
            running=len(loop.scheduler.running),
            waiting=len(loop.scheduler.waiting),
            blocks_used=loop.pool.used,
            blocks_total=loop.pool.total,
        )

    def _banned(self, request: GenerationRequest) -> tuple[int, ...]:
        """Ids that are never drawn: control tokens, unless the request stops at them."""
        if request.constraint is not None:  # the mask holds text and end-of-text only
            return self._tokens.eos_ids if request.ignore_eos else ()
        eos = self._tokens.eos_ids if request.ignore_eos else ()
        return eos + tuple(i for i in self._controls if i not in request.stop_ids)

    def _check(self, request: GenerationRequest) -> int:
        """Refuse what cannot be served; returns the token budget."""
        size = len(self._tokens.token_bytes)
        prompt = len(request.prompt_ids)
        if not prompt:
            raise EngineError("invalid", "the prompt has no tokens", hint="Pass at least one")
        wrong = [i for i in (*request.prompt_ids, *request.stop_ids) if not 0 <= i < size]
        if wrong:
            raise EngineError("invalid", f"token {wrong[0]} is outside 0 to {size - 1}")
        if request.n < 1:
            raise EngineError("invalid", f"n is {request.n}; it must be at least 1")
        if any(not stop for stop in request.stop):
            raise EngineError("invalid", "a stop text is empty", hint="Remove it")
        room = self.max_len - prompt
        if room < 1:
            raise EngineError(
                "too_long",
                f"the prompt has {prompt} tokens and the context holds {self.max_len}, output "
                "included",
                hint=f"Shorten the prompt to at most {self.max_len - 1} tokens",
            )
        wanted = request.max_tokens
        if wanted is not None and wanted < 1:
            raise EngineError("invalid", f"max_tokens is {wanted}; it must be at least 1")
        max_tokens = room if wanted is None else min(wanted, room)
        if request.min_tokens > max_tokens:
            raise EngineError(
                "invalid", f"min_tokens is {request.min_tokens}, more than {max_tokens}"
            )
        if request.constraint is not None:
            self._check_constraint(request, max_tokens, room)
        return max_tokens

    def _check_constraint(self, request: GenerationRequest, max_tokens: int, room: int) -> None:
        constraint = request.constraint
        if constraint is None:
            return
        if constraint.vocab_size != len(self._tokens.token_bytes):
            raise EngineError(
                "invalid",
                f"the constraint is for {constraint.vocab_size} tokens, the model has "
                f"{len(self._tokens.token_bytes)}",
            )
        least = constraint.fewest_tokens(constraint.start)
        if least > max_tokens:
            raise EngineError(
                "budget",
                f"max_tokens={max_tokens} cannot hold any output of this constraint: the "
                f"shortest needs {least} tokens",
                hint=f"Use max_tokens={least} or more"
                if least <= room
                else "Shorten the prompt or allow shorter output",
            )
