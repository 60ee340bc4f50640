"""Where a decimal and the double that it is read as agree.

A validator compares what a parser made of a text: a whole number without a point or an exponent
stays exact, anything else becomes a double. A text is right only if both the number that is written
and the number that is read satisfy the schema.
"""

from __future__ import annotations

from fractions import Fraction

from .digit_strings import between, naturals
from .expr import Pool
from .node import Node

EXACT_WHOLE = 2**53
"""Whole numbers up to here are doubles."""

_BITS = 53
_DIGITS = 17  # of a decimal that tells a double from its neighbours


def reads_as(decimal: Fraction, value: float | int) -> bool:
    """Whether a decimal with a point is read as a double that equals `value`."""
    try:
        return float(decimal) == value
    except OverflowError:
        return False


def between_whole(pool: Pool) -> Node:
    """Decimals ``int.digits``, not negative, that are read as a double that is not whole.

    Doubles between two powers of two are equally far apart, so what is read as the whole number
    below or above is equally near to it.
    """
    parts = [_between_whole(pool, range(1), Fraction(1, 2 ** (_BITS + 1)))]
    for exponent in range(_BITS - 1):  # from there on all doubles are whole
        whole = range(2**exponent, 2 ** (exponent + 1))
        parts.append(_between_whole(pool, whole, Fraction(2**exponent, 2**_BITS)))
    return pool.alt(parts)


def _between_whole(pool: Pool, whole: range, near: Fraction) -> Node:
    """Decimals with one of these whole parts that are farther than `near` from whole numbers."""
    unit = Fraction(1, 10 ** (_DIGITS - len(str(whole[0]))))
    least = (near // unit + 1) * unit
    fraction = between(pool, least if whole[0] else Fraction(0), 1 - least)
    return pool.seq(naturals(pool, whole[0], whole[-1]), pool.literal("."), fraction)
