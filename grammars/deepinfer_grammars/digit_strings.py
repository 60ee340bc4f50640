"""Decimal digit strings within bounds, as expressions; values are compared digit by digit.

Bounds are fractions of finite decimal expansion, so no value is let in or kept out by rounding.
"""

from __future__ import annotations

from fractions import Fraction

from .bounds import Bounds
from .expr import Pool
from .node import Node

INT_DIGITS = 4300
"""Digits of the longest integer that Python's json reads."""
FLOAT_DIGITS = 300
"""Digits before the point that are finite in any float, and zeros behind it that are not lost."""


def one_digit(pool: Pool, first: int, last: int) -> Node:
    """One digit from `first` to `last`."""
    return pool.byte_range(48 + first, 48 + last) if first <= last else pool.never


def digit_run(pool: Pool, low: int, high: int) -> Node:
    """`low` to `high` digits, -1 for any number."""
    return pool.repeat(one_digit(pool, 0, 9), low, high)


def naturals(pool: Pool, low: int, high: int | None, *, most: int = INT_DIGITS) -> Node:
    """Decimal naturals from `low` to `high`, of at most `most` digits, without leading zeros."""
    parts: list[Node] = []
    if high is not None and high < low:
        return pool.never
    if low == 0:
        parts.append(pool.literal("0"))
        low = 1
    length = len(str(low))
    if high is None:
        parts.append(_same_length(pool, str(low), "9" * length))
        if length < most:
            parts.append(pool.seq(one_digit(pool, 1, 9), digit_run(pool, length, most - 1)))
    elif low <= high:
        last = len(str(high))
        if length == last:
            parts.append(_same_length(pool, str(low), str(high)))
        else:
            parts.append(_same_length(pool, str(low), "9" * length))
            if last - length > 1:
                middle = digit_run(pool, length, last - 2)
                parts.append(pool.seq(one_digit(pool, 1, 9), middle))
            parts.append(_same_length(pool, "1" + "0" * (last - 1), str(high)))
    return pool.alt(parts)


def _same_length(pool: Pool, low: str, high: str) -> Node:
    """Digit strings of one length between two such strings, both included; iterative."""
    at_least = pool.epsilon  # what may follow a prefix equal to low's
    at_most = pool.epsilon
    both = pool.epsilon
    for free, (a, b) in enumerate(zip(reversed(low), reversed(high), strict=True)):
        rest = digit_run(pool, free, free)
        x, y = int(a), int(b)
        middle = pool.seq(one_digit(pool, x + 1, y - 1), rest)
        if x == y:
            both = pool.seq(pool.literal(a), both)
        elif x < y:
            both = pool.alt(
                (pool.seq(pool.literal(a), at_least), middle, pool.seq(pool.literal(b), at_most))
            )
        else:
            both = pool.never
        at_least = pool.alt(
            (pool.seq(pool.literal(a), at_least), pool.seq(one_digit(pool, x + 1, 9), rest))
        )
        at_most = pool.alt(
            (pool.seq(pool.literal(b), at_most), pool.seq(one_digit(pool, 0, y - 1), rest))
        )
    return both


def decimals(pool: Pool, bounds: Bounds) -> Node:
    """Non-negative decimals ``int[.digits]`` inside bounds whose low end is not negative.

    Without a high end they have at most `FLOAT_DIGITS` digits before the point.
    """
    low = bounds.low if bounds.low is not None else Fraction(0)
    floor, low_digits = split(low)
    above = _above(pool, low_digits, strict=bounds.low_open)
    any_fraction = pool.optional(pool.seq(pool.literal("."), digit_run(pool, 1, -1)))
    first = pool.seq(pool.literal(str(floor)), dotted(pool, above))
    if bounds.high is None:
        later = naturals(pool, floor + 1, None, most=FLOAT_DIGITS)
        return pool.alt((first, pool.seq(later, any_fraction)))
    ceiling, high_digits = split(bounds.high)
    below = _below(pool, high_digits, strict=bounds.high_open)
    if ceiling < floor:
        return pool.never
    if ceiling == floor:
        return pool.seq(pool.literal(str(floor)), dotted(pool, pool.all_of((above, below))))
    inside = pool.seq(naturals(pool, floor + 1, ceiling - 1), any_fraction)
    return pool.alt((first, inside, pool.seq(pool.literal(str(ceiling)), dotted(pool, below))))


def between(pool: Pool, low: Fraction, high: Fraction) -> Node:
    """Digits behind a point: a value from `low`, or above it if it is 0, to `high` below 1."""
    above = _above(pool, split(low)[1], strict=not low)
    return pool.all_of((above, _below(pool, split(high)[1], strict=False), digit_run(pool, 1, -1)))


def split(value: Fraction) -> tuple[int, str]:
    """The whole part of a number that is not negative, and the digits behind its point."""
    whole, rest = divmod(value.numerator, value.denominator)
    return whole, fraction_digits(Fraction(rest, value.denominator))


def fraction_digits(value: Fraction) -> str:
    """The finite decimal expansion of a fraction in [0, 1)."""
    found = []
    while value:
        value *= 10
        digit = value.numerator // value.denominator
        found.append(str(digit))
        value -= digit
    return "".join(found)


def dotted(pool: Pool, digits: Node) -> Node:
    """A fraction part spelled as nothing (if no digits will do) or ``.`` and at least one digit."""
    some = pool.all_of((digits, digit_run(pool, 1, -1)))
    fraction = pool.seq(pool.literal("."), some)
    return pool.optional(fraction) if digits.nullable else fraction


def _above(pool: Pool, digits: str, *, strict: bool) -> Node:
    """Digit strings d with 0.d >= 0.digits (> if strict); missing digits are zeros."""
    rest = digit_run(pool, 0, -1)
    if strict:  # something non-zero must follow an equal prefix, and be more than 0 in a float
        zeros = pool.repeat(pool.literal("0"), 0, FLOAT_DIGITS)
        node = pool.seq(zeros, one_digit(pool, 1, 9), rest)
    else:
        node = rest
    for index in reversed(range(len(digits))):
        digit = int(digits[index])
        larger = pool.seq(one_digit(pool, digit + 1, 9), rest)
        node = pool.alt((pool.seq(pool.literal(str(digit)), node), larger))
    return node


def _below(pool: Pool, digits: str, *, strict: bool) -> Node:
    """Digit strings d with 0.d <= 0.digits (< if strict); missing digits are zeros."""
    rest = digit_run(pool, 0, -1)
    node = pool.never if strict else pool.repeat(pool.literal("0"), 0, -1)
    for index in reversed(range(len(digits))):
        digit = int(digits[index])
        smaller = pool.seq(one_digit(pool, 0, digit - 1), rest)
        equal = pool.seq(pool.literal(str(digit)), node)
        # Stopping here means zeros from here on: smaller, as the digits end in a non-zero one.
        node = pool.alt((pool.epsilon, equal, smaller))
    return node
