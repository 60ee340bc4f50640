"""The engine: checks requests, hands them to a thread of its own, and closes it."""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .config import EngineConfig
from .errors import EngineError
from .executor import Executor
from .handle import RequestHandle
from .loop import Loop, TokenTable
from .request import GenerationRequest
from .sequence import Sequence

if TYPE_CHECKING:
    from .model import LoadedModel

_numbers = itertools.count()
_running: weakref.WeakKeyDictionary[threading.Thread, Loop] = weakref.WeakKeyDictionary()


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
        _running[self._thread] = loop
        self._thread.start()
        try:
            loop.started.result()
        except Exception as error:
            self._closed = True
            raise EngineError("engine", f"the engine could not start: {error}") from error

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request.

        Raises:
            EngineError: ``closed``; or the request cannot be served (``invalid``, ``too_long``,
                ``budget``), found out before any work is done.
        """
        max_tokens = self._check(request)
        loop = self._loop
        handle = RequestHandle(
            request.n,
            self.config.stream_queue,
            lambda handle: loop.commands.put(lambda: loop.cancel(handle)),
        )
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
            if loop.failure is not None:
                raise loop.failure
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
        eos = self._tokens.eos_ids if request.ignore_eos else ()
        return eos + tuple(i for i in self._controls if i not in request.stop_ids)

    def _check(self, request: GenerationRequest) -> int:
        """Refuse what cannot be served; returns the token budget."""
        size = len(self._tokens.token_bytes)
        prompt = len(request.prompt_ids)
        if not prompt:
            raise EngineError("invalid", "the prompt has no tokens", hint="Pass at least one")
        biased = (token for token, _ in request.sampling.logit_bias)
        named = (*request.prompt_ids, *request.stop_ids, *request.sampling.banned, *biased)
        wrong = [i for i in named if not 0 <= i < size]
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
        if wanted is not None and wanted > room:
            raise EngineError(
                "too_long",
                f"the prompt's {prompt} tokens and max_tokens={wanted} are more than the "
                f"{self.max_len} tokens that the context holds",
                hint=f"Use max_tokens={room} or less, or None for what the context allows",
            )
        max_tokens = room if wanted is None else wanted
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


@atexit.register
def _stop_all() -> None:
    """Stop engine threads before the interpreter goes away under them."""
    loops = dict(_running)
    for loop in loops.values():
        loop.commands.put(None)
    for thread in loops:
        thread.join(timeout=10)
