"""Checks of call arguments that Python itself reports badly: unknown keywords, stray positions.

Knows the shape of a signature and nothing about sessions.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from .errors import InvalidArgument, UnknownArgument

P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that looks most like `name`, if any does."""
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return found[0] if found else None


def unknown_argument(where: str, name: str, valid: Iterable[str]) -> UnknownArgument:
    """The error for a keyword that does not exist, naming the nearest one that does."""
    names = list(valid)
    close = nearest(name, names)
    hint = f"Did you mean {close!r}? " if close else ""
    return UnknownArgument(
        f"{where} has no argument {name!r}", hint=f"{hint}It takes {', '.join(names)}"
    )


def checked(elsewhere: Iterable[str], hint: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a method report calls that do not fit its signature as our errors.

    Args:
        elsewhere: Names that are often passed here but belong to another object.
        hint: Where those belong; ``{name}`` is replaced.
    """
    moved = frozenset(elsewhere)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name != "self"]
        keywords = [p.name for p in parameters]
        where = f"{function.__qualname__.split('.')[-1]}()"
        if where == "__init__()":
            where = "Session()"

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name in keywords:
                    continue
                if name in moved:
                    raise UnknownArgument(
                        f"{where} has no argument {name!r}", hint=hint.format(name=name)
                    )
                raise unknown_argument(where, name, keywords)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
                raise InvalidArgument(
                    f"{where}: {error}",
                    hint=f"Pass {', '.join(positional)} first and everything else by keyword",
                ) from None
            return function(*args, **kwargs)

        return call

    return decorate
