"""Many prompts at once: order kept, one progress line, errors as values if asked for.

The engine batches the requests; item i is what `generate` would return for it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

from .display.progress import progress
from .errors import DeepInferError, InvalidArgument
from .result import Result
from .waiting import Interrupts, wait, wait_async

if TYPE_CHECKING:
    from .call import Assembly

T = TypeVar("T")

OnError = Literal["raise", "return"]


def start_all(
    prompts: Iterable[object],
    submit: Callable[[object], Assembly[T]],
    interrupts: Interrupts,
    on_error: OnError,
) -> list[Assembly[T] | DeepInferError]:
    """Submit every prompt; what is wrong with one is a value in its place, or raised.

    Raises:
        InvalidArgument: `prompts` is one text, or `on_error` is not a mode.
        DeepInferError: A prompt was refused and `on_error` is ``"raise"``; nothing keeps running.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Iterable):
        raise InvalidArgument(
            f"map got a {type(prompts).__name__}, not a list of prompts",
            hint="Pass a list: session.map([...]); for one prompt use session.generate(...)",
        )
    if on_error not in ("raise", "return"):
        raise InvalidArgument(
            f"on_error={on_error!r} is not a mode", hint='Use on_error="raise" or "return"'
        )
    started: list[Assembly[T] | DeepInferError] = []
    running: list[Assembly[T]] = []
    with interrupts.guard(running):
        for index, prompt in enumerate(prompts):
            try:
                assembly = submit(prompt)
            except DeepInferError as error:
                error.add_note(f"  in prompt {index} of map")
                if on_error == "raise":
                    raise
                started.append(error)
            else:
                running.append(assembly)
                started.append(assembly)
    return started


def finish_all(
    started: list[Assembly[T] | DeepInferError], interrupts: Interrupts, on_error: OnError
) -> list[Result[T] | DeepInferError]:
    """Wait for everything that was started."""
    running = _running(started)
    with interrupts.guard(running), progress("generating") as advance:
        for done, assembly in enumerate(running, 1):
            wait(assembly)
            advance(done, len(running))
            _raise_if_asked(assembly, on_error)
    return _outcomes(started)


async def finish_all_async(
    started: list[Assembly[T] | DeepInferError], interrupts: Interrupts, on_error: OnError
) -> list[Result[T] | DeepInferError]:
    """`finish_all` on the running event loop."""
    running = _running(started)
    with interrupts.guard(running, blocking=False), progress("generating") as advance:
        for done, assembly in enumerate(running, 1):
            await wait_async(assembly)
            advance(done, len(running))
            _raise_if_asked(assembly, on_error)
    return _outcomes(started)


def _running(started: list[Assembly[T] | DeepInferError]) -> list[Assembly[T]]:
    return [item for item in started if not isinstance(item, DeepInferError)]


def _raise_if_asked(assembly: Assembly[T], on_error: OnError) -> None:
    if on_error == "raise":
        assembly.result()


def _outcomes(
    started: list[Assembly[T] | DeepInferError],
) -> list[Result[T] | DeepInferError]:
    return [item if isinstance(item, DeepInferError) else item.outcome() for item in started]
