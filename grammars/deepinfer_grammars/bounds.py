"""Intervals of numbers, as decimals and as the doubles that decimals are read as."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_BEYOND = 2**1024  # no double is as large


def number_value(value: float | int) -> Fraction:
    """A JSON number as the decimal it was written as."""
    return Fraction(value) if isinstance(value, int) else Fraction(Decimal(json.dumps(value)))


def places_of(value: Fraction) -> int:
    """Digits behind the point of a number with a finite decimal expansion."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    return places


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of numbers; None is unbounded, `*_open` excludes the end itself.

    `least` and `most` are the outermost doubles inside: a whole number or a decimal may lie between
    two doubles, and the double next to an open end is read from some decimals beyond that double.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    least: float = -math.inf
    most: float = math.inf

    @classmethod
    def above(cls, number: float | int, *, is_open: bool) -> Bounds:
        """Numbers from one on, or beyond it."""
        return cls(number_value(number), None, is_open, least=_least(number, is_open=is_open))

    @classmethod
    def below(cls, number: float | int, *, is_open: bool) -> Bounds:
        """Numbers up to one, or before it."""
        return cls.above(-number, is_open=is_open).mirrored()

    def before(self) -> Bounds:
        """What is too low to be inside."""
        most = math.nextafter(self.least, -math.inf)
        return Bounds(high=self.low, high_open=not self.low_open, most=most)

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
        least, most = max(self.least, other.least), min(self.most, other.most)
        return Bounds(low, high, low_open, high_open, least, most)

    def mirrored(self) -> Bounds:
        """The interval of the negated numbers."""
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return Bounds(low, high, self.high_open, self.low_open, -self.most, -self.least)

    def times(self, factor: Fraction | int) -> Bounds:
        """The interval of the numbers times a positive factor, as decimals."""
        low = None if self.low is None else self.low * factor
        high = None if self.high is None else self.high * factor
        return Bounds(low, high, self.low_open, self.high_open)

    def read_inside(self) -> Bounds | None:
        """The decimals inside that are also read as doubles inside; None if there are none.

        The ends are shortest spellings of doubles, or None where no double is beyond; an open end
        at 0 stays open.
        """
        if self.least > self.most or math.inf in (self.least, -self.most):
            return None
        low = None if self.low is not None and self.low < -_BEYOND else self.low
        high = None if self.high is not None and self.high > _BEYOND else self.high
        found = Bounds(low, high, self.low_open, self.high_open)
        found = found.narrow(Bounds(self._first_read()))
        found = found.narrow(Bounds(self.mirrored()._first_read()).mirrored())
        return None if found.empty else found

    def _first_read(self) -> Fraction | None:
        """The least double, unless there is none or it is just above 0."""
        just_above_zero = self.low == 0 and self.low_open and self.least == math.ulp(0)
        return None if math.isinf(self.least) or just_above_zero else number_value(self.least)

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


def _least(number: float | int, *, is_open: bool) -> float:
    """The least double that is not below a number, or above it."""
    try:
        double = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    if double < number or (is_open and double == number):
        return math.nextafter(double, math.inf)
    return double
