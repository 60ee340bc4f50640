"""Why a text does not fit a grammar, in words: at which byte, what was there, what could have been.

Knows only that a grammar can say where a text goes wrong.
"""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """The outcome of `Schema.check`; true exactly if the text fits.

    Attributes:
        ok: Whether the text fits.
        byte: Offset of the first byte (of the text in UTF-8) at which nothing valid can go on; the
            length if the text ends too early; None if the form is right.
        reason: The same in words.
    """

    model_config = ConfigDict(frozen=True)

    ok: bool
    byte: int | None
    reason: str

    def __bool__(self) -> bool:
        return self.ok


class _Grammar(Protocol):
    def first_error(self, text: str | bytes) -> int | None: ...


def refusal(grammar: _Grammar, text: str) -> Check | None:
    """Where and why the grammar refuses the text; None if it accepts it."""
    data = text.encode("utf-8", "surrogatepass")
    at = grammar.first_error(data)
    if at is None:
        return None
    expected = _expected(grammar, data[:at])
    after = data[max(0, at - 20) : at].decode("utf-8", "replace")
    place = f"after {after!r}" if after else "at the start"
    if at == len(data):
        return Check(ok=False, byte=at, reason=f"the text ends too early: {place} {expected}")
    found = data[at:].decode("utf-8", "replace")[0]
    return Check(ok=False, byte=at, reason=f"byte {at} is {found!r}, but {place} {expected}")


def _expected(grammar: _Grammar, prefix: bytes) -> str:
    """The bytes that may follow a valid prefix, as readable ranges."""
    longer = len(prefix) + 1
    fits = []
    for byte in range(256):
        at = grammar.first_error(prefix + bytes((byte,)))
        if at is None or at >= longer:
            fits.append(byte)
    ascii_ranges = _ranges([byte for byte in fits if byte < 0x80])
    if any(byte >= 0x80 for byte in fits):
        ascii_ranges.append("other characters")
    if not ascii_ranges:
        return "the text must end"
    return f"only {', '.join(ascii_ranges)} can follow"


def _ranges(codes: list[int]) -> list[str]:
    groups: list[list[int]] = []
    for code in codes:
        if groups and code == groups[-1][-1] + 1:
            groups[-1].append(code)
        else:
            groups.append([code])
    named: list[str] = []
    for group in groups:
        if len(group) < 3:
            named.extend(repr(chr(code)) for code in group)
        else:
            named.append(f"{chr(group[0])!r} to {chr(group[-1])!r}")
    return named
