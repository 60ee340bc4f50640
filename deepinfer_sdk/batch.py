"""Many prompts at once: order kept, one progress line, errors as values if asked for.

The engine batches the requests; item i is what `generate` would return for it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

from .display.progress import progress
from .errors import DeepInferError, InvalidArgument
from .result import Result
from .waiting import wait, wait_async

if TYPE_CHECKING:
    from .call import Assembly

T = TypeVar("T")

OnError = Literal["raise", "return"]


def start_all(
    prompts: Iterable[object],
    submit: Callable[[object], Assembly[T]],
    running: list[Assembly[T]],
    on_error: OnError,
) -> list[Assembly[T] | DeepInferError]:
    """Submit every prompt; what is wrong with one is a value in its place, or raised.

    Args:
        prompts: The texts.
        submit: Starts one.
        running: Gets every request as soon as it runs, so that the caller can cancel it.
        on_error: Whether errors are raised or returned.

    Raises:
        InvalidArgument: `prompts` is one text, or `on_error` is not a mode.
        DeepInferError: A prompt was refused and `on_error` is ``"raise"``.
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
    for index, prompt in enumerate(prompts):
        try:
            running.append(submit(prompt))
        except DeepInferError as error:
            error.add_note(f"  in prompt {index} of map")
            if on_error == "raise":
                raise
            started.append(error)
        else:
            started.append(running[-1])
    return started


def finish_all(running: list[Assembly[T]], on_error: OnError) -> None:
    """Wait for everything that was started; raise the first error if asked to."""
    with progress("generating") as advance:
        for done, assembly in enumerate(running, 1):
            wait(assembly)
            advance(done, len(running))
            if on_error == "raise":
                assembly.result()


async def finish_all_async(running: list[Assembly[T]], on_error: OnError) -> None:
    """`finish_all` on the running event loop."""
    with progress("generating") as advance:
        for done, assembly in enumerate(running, 1):
            await wait_async(assembly)
            advance(done, len(running))
            if on_error == "raise":
                assembly.result()


def outcomes(
    started: list[Assembly[T] | DeepInferError],
) -> list[Result[T] | DeepInferError]:
    """Results in the order of the prompts, errors in their places."""
    return [item if isinstance(item, DeepInferError) else item.outcome() for item in started]
