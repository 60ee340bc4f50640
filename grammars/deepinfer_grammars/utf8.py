"""Sets of Unicode code points as byte expressions.

A code point set is a sorted tuple of disjoint inclusive ranges. Surrogates (U+D800-U+DFFF) have no
UTF-8 form and are dropped. The range splitting follows the well-known scheme of splitting at the
boundaries where the number or the leading bytes of the encoding change (Unicode 15, table 3-7).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

from .expr import Pool
from .node import Node

Ranges = tuple[tuple[int, int], ...]

MAX_CODE_POINT = 0x10FFFF
ANY_CHAR: Ranges = ((0, MAX_CODE_POINT),)
_SURROGATES = (0xD800, 0xDFFF)
_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, MAX_CODE_POINT)


def normalise(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort, clip and join ranges that overlap or touch."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if first > last:
            continue
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def invert(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All code points outside `ranges`."""
    result = []
    start = 0
    for first, last in normalise(ranges):
        if first > start:
            result.append((start, first - 1))
        start = last + 1
    if start <= MAX_CODE_POINT:
        result.append((start, MAX_CODE_POINT))
    return tuple(result)


def intersect(left: Iterable[tuple[int, int]], right: Iterable[tuple[int, int]]) -> Ranges:
    """Code points in both sets."""
    return invert([*invert(left), *invert(right)])


def contains(ranges: Ranges, code: int) -> bool:
    """Whether a sorted set holds a code point."""
    at = bisect_right(ranges, (code, MAX_CODE_POINT + 1)) - 1
    return at >= 0 and ranges[at][1] >= code


def char_set(pool: Pool, ranges: Iterable[tuple[int, int]]) -> Node:
    """One UTF-8 encoded character out of `ranges`."""
    wanted = normalise(ranges)
    known = pool.memo.get(("char_set", wanted))
    if known is None:
        known = pool.memo["char_set", wanted] = pool.alt(
            pool.seq(*(pool.byte_range(low, high) for low, high in sequence))
            for sequence in _sequences(wanted)
        )
    return known


@lru_cache(maxsize=256)
def _sequences(ranges: Ranges) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The byte sequences of the characters in `ranges`, as products of byte ranges."""
    sequences: list[tuple[tuple[int, int], ...]] = []
    for first, last in ranges:
        for low, high in _without_surrogates(first, last):
            sequences.extend(_split(low, high))
    return tuple(sequences)


def _without_surrogates(first: int, last: int) -> list[tuple[int, int]]:
    low, high = _SURROGATES
    parts = [(first, min(last, low - 1)), (max(first, high + 1), last)]
    return [(a, b) for a, b in parts if a <= b]


def _split(first: int, last: int) -> list[tuple[tuple[int, int], ...]]:
    """Split a range so that each part is a product of byte ranges."""
    for boundary in _LAST_OF_LENGTH:
        if first <= boundary < last:
            return _split(first, boundary) + _split(boundary + 1, last)
    if last <= _LAST_OF_LENGTH[0]:
        return [((first, last),)]
    for trailing in range(1, 4):
        span = 1 << (6 * trailing)
        if first // span == last // span:
            continue
        if first % span:
            boundary = (first // span + 1) * span - 1
            return _split(first, boundary) + _split(boundary + 1, last)
        if last % span != span - 1:
            boundary = last // span * span - 1
            return _split(first, boundary) + _split(boundary + 1, last)
    return [tuple(zip(chr(first).encode(), chr(last).encode(), strict=True))]
