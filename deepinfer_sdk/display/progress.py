"""The only place that shows progress.

A rich bar in a terminal, one display handle in a notebook, one log line elsewhere.
Knows nothing about what is being counted.
"""

from __future__ import annotations

import html
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from deepinfer_sdk.settings import Settings

Unit = Literal["bytes", "items"]
Place = Literal["terminal", "notebook", "log", "off"]
Advance = Callable[[int, int], None]

_log = logging.getLogger("deepinfer_sdk")
_REDRAW_S = 0.05


class _DisplayHandle(Protocol):
    def update(self, data: object, **kwargs: object) -> None: ...


@contextmanager
def progress(label: str, *, unit: Unit = "items", place: Place | None = None) -> Iterator[Advance]:
    """Show one line while the body runs.

    Args:
        label: What is going on, e.g. ``"fetching smollm2-135m"``.
        unit: What is counted.
        place: Where to show it; found out if None.

    Yields:
        A function of (done, total); a total of 0 means not known. Safe to call often, and from
        any one thread.
    """
    target = place if place is not None else _place()
    if target == "terminal":
        with _terminal(label, unit) as advance:
            yield advance
    elif target == "notebook":
        with _notebook(label, unit) as advance:
            yield advance
    elif target == "log":
        with _logged(label) as advance:
            yield advance
    else:
        yield _ignore


def _place() -> Place:
    if Settings.from_environment().progress == "off":
        return "off"
    if _in_kernel():
        return "notebook"
    if sys.stderr is not None and sys.stderr.isatty():
        return "terminal"
    return "log"


def _in_kernel() -> bool:
    """Whether this is a notebook kernel; IPython is looked at only if it is already loaded."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _ignore(done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def _terminal(label: str, unit: Unit) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    counts = (
        [DownloadColumn(), TransferSpeedColumn()] if unit == "bytes" else [MofNCompleteColumn()]
    )
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), *counts, TimeElapsedColumn()]
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield advance


@contextmanager
def _notebook(label: str, unit: Unit) -> Iterator[Advance]:
    display = sys.modules["IPython"].display
    started = time.monotonic()
    handle: _DisplayHandle = display.display(
        display.HTML(_line(label, unit, 0, 0, 0.0)), display_id=True
    )
    shown = started
    last = (0, 0)

    def advance(done: int, total: int) -> None:
        nonlocal shown, last
        last = (done, total)
        now = time.monotonic()
        if now - shown >= _REDRAW_S:
            shown = now
            handle.update(display.HTML(_line(label, unit, done, total, now - started)))

    yield advance
    seconds = time.monotonic() - started
    handle.update(display.HTML(_line(label, unit, *last, seconds)))


def _line(label: str, unit: Unit, done: int, total: int, seconds: float) -> str:
    def amount(count: int) -> str:
        return f"{count / 1e6:.1f} MB" if unit == "bytes" else str(count)

    bar = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
    counts = f"{amount(done)} of {amount(total)}, " if total else ""
    return f"<div>{html.escape(label)} {bar}{counts}{seconds:.1f} s</div>"


@contextmanager
def _logged(label: str) -> Iterator[Advance]:
    started = time.monotonic()
    yield _ignore
    _log.info("%s: done in %.1f s", label, time.monotonic() - started)
