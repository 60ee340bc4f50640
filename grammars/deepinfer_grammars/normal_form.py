"""Small decisions behind the normal form of expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def all_known(values: Iterable[bool | None]) -> bool | None:
    """Whether all values are true; None while that rests on an unknown one."""
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def any_known(values: Iterable[bool | None]) -> bool | None:
    """Whether any value is true; None while that rests on an unknown one."""
    unknown = False
    for value in values:
        if value is True:
            return True
        unknown = unknown or value is None
    return None if unknown else False


def touching_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge repeat ranges that overlap or are adjacent; -1 stands for no upper bound."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and (joined[-1][1] == -1 or low <= joined[-1][1] + 1):
            last_low, last_high = joined[-1]
            top = -1 if -1 in (last_high, high) else max(last_high, high)
            joined[-1] = (last_low, top)
        else:
            joined.append((low, high))
    return joined
