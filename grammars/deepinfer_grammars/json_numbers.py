"""JSON numbers within exact bounds, as expressions over digits.

Bounds are exact decimals (`fractions.Fraction` of finite decimal expansion), never floats, and the
digit expressions compare decimal strings, so no value is let in or kept out by rounding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from .expr import Pool
from .node import Node

_FLOAT_DIGITS = 300
_LARGEST = Fraction(Decimal("1.7976931348623157e308"))
_LOWEST_EXPONENT, _FULL_EXPONENT = -323, 307


def number_value(value: float | int) -> Fraction:
    """A JSON number as the decimal it was written as."""
    return Fraction(Decimal(json.dumps(value)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of numbers; None is unbounded, `*_open` excludes the end itself."""

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False

    def narrow(self, other: Bounds) -> Bounds:
        """The intersection of two intervals."""
        low, low_open = self.low, self.low_open
        if other.low is not None and (low is None or (other.low, other.low_open) > (low, low_open)):
            low, low_open = other.low, other.low_open
        high, high_open = self.high, self.high_open
        if other.high is not None and (
            high is None or (other.high, not other.high_open) < (high, not high_open)
        ):
            high, high_open = other.high, other.high_open
        return Bounds(low, high, low_open, high_open)

    @property
    def empty(self) -> bool:
        """Whether no number is inside."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))

    def integers(self) -> tuple[int | None, int | None]:
        """The least and the greatest integer inside, None where unbounded."""
        low = high = None
        if self.low is not None:
            low = -((-self.low.numerator) // self.low.denominator)
            low += int(self.low_open and low == self.low)
        if self.high is not None:
            high = self.high.numerator // self.high.denominator
            high -= int(self.high_open and high == self.high)
        return low, high


def integer_node(pool: Pool, bounds: Bounds) -> Node:
    """Integers inside `bounds`, without leading zeros, plus sign, or minus zero."""
    low, high = bounds.integers()
    positive = _naturals(pool, max(low or 0, 0), high) if high is None or high >= 0 else pool.never
    if low is None or low < 0:
        most = None if low is None else -low
        least = 1 if high is None or high >= 0 else -high
        negative = pool.seq(pool.literal("-"), _naturals(pool, least, most))
        return pool.alt((positive, negative))
    return positive


def loose_integer_node(pool: Pool, bounds: Bounds) -> Node:
    """Integers inside `bounds`, also spelled with zeros behind a point, as minus zero, or `1e+20`.

    An exponent is offered only where nothing bounds the value.
    """
    zeros = pool.optional(pool.seq(pool.literal("."), pool.repeat(pool.literal("0"), 1)))
    low, high = bounds.integers()
    minus_zero = (low is None or low <= 0) and (high is None or high >= 0)
    unbounded = low is None and high is None
    exact = integer_node(pool, bounds)
    # Behind a point everything is read as a float, which ends near 1e308.
    whole = [pool.seq(_minus(pool), _float_digits(pool)) if unbounded else exact]
    whole += [pool.literal("-0")] if minus_zero else []
    parts = [exact, pool.seq(pool.alt(whole), zeros)]
    if unbounded:
        digits = pool.seq(_minus(pool), _digits(pool, 1, 9), zeros)
        parts.append(pool.seq(digits, _exponents(pool, 0, _FULL_EXPONENT)))
    return pool.alt(parts)


def number_node(pool: Pool, bounds: Bounds) -> Node:
    """Numbers inside `bounds`; with an exponent, one digit stands before the point."""
    if bounds.low is None and bounds.high is None:
        exponent = _exponents(pool, _LOWEST_EXPONENT, _FULL_EXPONENT)
        mantissa = pool.seq(_minus(pool), _digits(pool, 0, 9), _point_and_digits(pool))
        return pool.alt((plain_decimal(pool), pool.seq(mantissa, exponent)))
    zero = Fraction(0)
    parts = []
    if bounds.high is None or bounds.high > 0 or (bounds.high == 0 and not bounds.high_open):
        parts.append(_magnitudes(pool, bounds.narrow(Bounds(low=zero))))
    if bounds.low is None or bounds.low < 0:
        mirrored = Bounds(
            None if bounds.high is None else -bounds.high,
            None if bounds.low is None else -bounds.low,
            bounds.high_open,
            bounds.low_open,
        )
        above_zero = mirrored.narrow(Bounds(low=zero, low_open=True))
        parts.append(pool.seq(pool.literal("-"), _magnitudes(pool, above_zero)))
    return pool.alt(parts)


def _magnitudes(pool: Pool, bounds: Bounds) -> Node:
    """Numbers that are not negative, plain or as one digit, decimals and an exponent."""
    return pool.alt((_decimals(pool, bounds), _scientific(pool, bounds)))


def _scientific(pool: Pool, bounds: Bounds) -> Node:
    """Positive numbers as ``d.ddde+dd``, decade by decade: only the outermost ones need a look."""
    bounds = bounds.narrow(Bounds(high=_LARGEST))
    if bounds.high is None or bounds.high <= 0 or bounds.empty:
        return pool.never
    first, last = _LOWEST_EXPONENT, _exponent(bounds.high)
    partial = {last}
    if bounds.low is not None and bounds.low > 0:
        first = _exponent(bounds.low)
        partial.add(first)
    ten = Bounds(Fraction(1), Fraction(10), high_open=True)
    parts = []
    for exponent in partial:
        if exponent < _LOWEST_EXPONENT:
            continue
        unit = Fraction(10) ** exponent
        low = None if bounds.low is None else bounds.low / unit
        mantissa = Bounds(low, bounds.high / unit, bounds.low_open, bounds.high_open).narrow(ten)
        if not mantissa.empty:
            parts.append(pool.seq(_decimals(pool, mantissa), _exponents(pool, exponent, exponent)))
    first = max(first + (first in partial), _LOWEST_EXPONENT)
    last -= 1
    if first <= last:
        any_mantissa = pool.seq(_digits(pool, 1, 9), _point_and_digits(pool))
        parts.append(pool.seq(any_mantissa, _exponents(pool, first, last)))
    return pool.alt(parts)


def _exponent(value: Fraction) -> int:
    """The e with 10**e <= value < 10**(e + 1)."""
    guess = len(str(value.numerator)) - len(str(value.denominator))
    return guess if Fraction(10) ** guess <= value else guess - 1


def _exponents(pool: Pool, first: int, last: int) -> Node:
    """Exponents from `first` to `last`; single digits may have a zero before them."""
    parts = []
    plus = pool.optional(pool.literal("+"))
    for sign, low, high in ((plus, max(first, 0), last), (pool.literal("-"), -last, -first)):
        low = max(low, 0 if sign is plus else 1)
        if low <= high:
            padded = pool.seq(pool.literal("0"), _naturals(pool, low, min(high, 9)))
            parts.append(pool.seq(sign, pool.alt((_naturals(pool, low, high), padded))))
    return pool.seq(_exponent_mark(pool), pool.alt(parts))


def plain_decimal(pool: Pool) -> Node:
    """Any number without an exponent."""
    return pool.seq(_minus(pool), _float_digits(pool), _point_and_digits(pool))


def broken_decimal(pool: Pool) -> Node:
    """Numbers without an exponent that are not whole."""
    zeros = pool.repeat(pool.literal("0"), 0)
    digits = pool.seq(pool.literal("."), zeros, _digits(pool, 1, 9), _digit_run(pool, 0, -1))
    return pool.seq(_minus(pool), _float_digits(pool), digits)


def value_node(pool: Pool, value: Fraction) -> Node:
    """All spellings of one number that have no exponent."""
    floor, rest = divmod(abs(value).numerator, value.denominator)
    digits = _fraction_digits(Fraction(rest, value.denominator))
    zeros = pool.repeat(pool.literal("0"), 0)
    if digits:
        tail = pool.seq(pool.literal("." + digits), zeros)
    else:
        tail = pool.optional(pool.seq(pool.literal(".0"), zeros))
    sign = pool.literal("-") if value < 0 else pool.epsilon
    if value == 0:
        sign = pool.optional(pool.literal("-"))
    return pool.seq(sign, pool.literal(str(floor)), tail)


def _minus(pool: Pool) -> Node:
    return pool.optional(pool.literal("-"))


def _float_digits(pool: Pool) -> Node:
    """Whole numbers that are finite as floats."""
    return pool.alt(
        (pool.literal("0"), pool.seq(_digits(pool, 1, 9), _digit_run(pool, 0, _FLOAT_DIGITS - 1)))
    )


def _point_and_digits(pool: Pool) -> Node:
    return pool.optional(pool.seq(pool.literal("."), _digit_run(pool, 1, -1)))


def _exponent_mark(pool: Pool) -> Node:
    return pool.byte_set(1 << ord("e") | 1 << ord("E"))


def _digits(pool: Pool, first: int, last: int) -> Node:
    return pool.byte_range(48 + first, 48 + last) if first <= last else pool.never


def _digit_run(pool: Pool, low: int, high: int) -> Node:
    return pool.repeat(_digits(pool, 0, 9), low, high)


def _naturals(pool: Pool, low: int, high: int | None) -> Node:
    """Decimal naturals from `low` to `high` without leading zeros."""
    parts: list[Node] = []
    if high is not None and high < low:
        return pool.never
    if low == 0:
        parts.append(pool.literal("0"))
        low = 1
    length = len(str(low))
    last = None if high is None else len(str(high))
    if last is None:
        parts.append(_same_length(pool, str(low), "9" * length))
        parts.append(pool.seq(_digits(pool, 1, 9), _digit_run(pool, length, -1)))
        return pool.alt(parts)
    if high is not None and low <= high:
        if length == last:
            parts.append(_same_length(pool, str(low), str(high)))
        else:
            parts.append(_same_length(pool, str(low), "9" * length))
            if last - length > 1:
                middle = _digit_run(pool, length, last - 2)
                parts.append(pool.seq(_digits(pool, 1, 9), middle))
            parts.append(_same_length(pool, "1" + "0" * (last - 1), str(high)))
    return pool.alt(parts)


def _same_length(pool: Pool, low: str, high: str) -> Node:
    """Digit strings of one length between two such strings, both included; iterative."""
    at_least = pool.epsilon  # what may follow a prefix equal to low's
    at_most = pool.epsilon
    both = pool.epsilon
    for free, (a, b) in enumerate(zip(reversed(low), reversed(high), strict=True)):
        rest = _digit_run(pool, free, free)
        x, y = int(a), int(b)
        middle = pool.seq(_digits(pool, x + 1, y - 1), rest)
        if x == y:
            both = pool.seq(pool.literal(a), both)
        elif x < y:
            both = pool.alt(
                (pool.seq(pool.literal(a), at_least), middle, pool.seq(pool.literal(b), at_most))
            )
        else:
            both = pool.never
        at_least = pool.alt(
            (pool.seq(pool.literal(a), at_least), pool.seq(_digits(pool, x + 1, 9), rest))
        )
        at_most = pool.alt(
            (pool.seq(pool.literal(b), at_most), pool.seq(_digits(pool, 0, y - 1), rest))
        )
    return both


def _decimals(pool: Pool, bounds: Bounds) -> Node:
    """Non-negative decimals ``int[.digits]`` inside bounds whose low end is not negative."""
    low = bounds.low if bounds.low is not None else Fraction(0)
    floor, low_fraction = divmod(low.numerator, low.denominator)
    low_digits = _fraction_digits(Fraction(low_fraction, low.denominator))
    any_fraction = pool.optional(pool.seq(pool.literal("."), _digit_run(pool, 1, -1)))
    if bounds.high is None:
        return pool.alt(
            (
                pool.seq(
                    pool.literal(str(floor)),
                    _fraction(pool, _above(pool, low_digits, strict=bounds.low_open)),
                ),
                pool.seq(_naturals(pool, floor + 1, None), any_fraction),
            )
        )
    ceiling, high_fraction = divmod(bounds.high.numerator, bounds.high.denominator)
    high_digits = _fraction_digits(Fraction(high_fraction, bounds.high.denominator))
    above = _above(pool, low_digits, strict=bounds.low_open)
    below = _below(pool, high_digits, strict=bounds.high_open)
    if ceiling < floor:
        return pool.never
    if ceiling == floor:
        return pool.seq(pool.literal(str(floor)), _fraction(pool, pool.all_of((above, below))))
    return pool.alt(
        (
            pool.seq(pool.literal(str(floor)), _fraction(pool, above)),
            pool.seq(_naturals(pool, floor + 1, ceiling - 1), any_fraction),
            pool.seq(pool.literal(str(ceiling)), _fraction(pool, below)),
        )
    )


def _fraction_digits(value: Fraction) -> str:
    """The finite decimal expansion of a fraction in [0, 1)."""
    digits = []
    while value:
        value *= 10
        digit = value.numerator // value.denominator
        digits.append(str(digit))
        value -= digit
    return "".join(digits)


def _fraction(pool: Pool, digits: Node) -> Node:
    """A fraction part spelled as nothing (if no digits will do) or ``.`` and at least one digit."""
    some = pool.all_of((digits, _digit_run(pool, 1, -1)))
    dotted = pool.seq(pool.literal("."), some)
    return pool.optional(dotted) if digits.nullable else dotted


def _above(pool: Pool, digits: str, *, strict: bool) -> Node:
    """Digit strings d with 0.d >= 0.digits (> if strict); missing digits are zeros."""
    rest = _digit_run(pool, 0, -1)
    if strict:  # something non-zero must follow an equal prefix
        node = pool.seq(pool.repeat(pool.literal("0"), 0, -1), _digits(pool, 1, 9), rest)
    else:
        node = rest
    for index in reversed(range(len(digits))):
        digit = int(digits[index])
        larger = pool.seq(_digits(pool, digit + 1, 9), rest)
        node = pool.alt((pool.seq(pool.literal(str(digit)), node), larger))
    return node


def _below(pool: Pool, digits: str, *, strict: bool) -> Node:
    """Digit strings d with 0.d <= 0.digits (< if strict); missing digits are zeros."""
    rest = _digit_run(pool, 0, -1)
    node = pool.never if strict else pool.repeat(pool.literal("0"), 0, -1)
    for index in reversed(range(len(digits))):
        digit = int(digits[index])
        smaller = pool.seq(_digits(pool, 0, digit - 1), rest)
        equal = pool.seq(pool.literal(str(digit)), node)
        # Stopping here means zeros from here on: smaller, as the digits end in a non-zero one.
        node = pool.alt((pool.epsilon, equal, smaller))
    return node
