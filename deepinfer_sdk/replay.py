"""Comparing a repeated run with the recorded one, token by token. Plain data in, plain data out."""

from __future__ import annotations

from typing import Any

from .result import ReplayReport, Result


def compare(recorded: Result[Any], repeated: Result[Any]) -> ReplayReport:
    """Where the repeated run first differs from the recorded one."""
    old, new = recorded.recipe.versions, repeated.recipe.versions
    changed = {
        name: (old.get(name, "absent"), new.get(name, "absent"))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }
    for index, (was, now) in enumerate(zip(recorded.samples, repeated.samples, strict=True)):
        if was.ids == now.ids and was.text == now.text:
            continue
        position = _first_difference(was.ids, now.ids)
        return ReplayReport(
            same=False,
            sample=index,
            position=position,
            expected=was.ids[position] if position < len(was.ids) else None,
            got=now.ids[position] if position < len(now.ids) else None,
            text=now.text,
            changed_versions=changed,
        )
    return ReplayReport(same=True, text=repeated.text, changed_versions=changed)


def _first_difference(was: tuple[int, ...], now: tuple[int, ...]) -> int:
    for position, (a, b) in enumerate(zip(was, now, strict=False)):
        if a != b:
            return position
    return min(len(was), len(now))
