"""JSON numbers within exact bounds, as expressions over digits.

Whole numbers without a point are read exactly; all other spellings are inside the bounds as the
decimals that they are and as the doubles that they are read as.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from .bounds import Bounds, number_value
from .digit_strings import FLOAT_DIGITS, decimals, digit_run, naturals, one_digit, split
from .expr import Pool
from .json_doubles import EXACT_WHOLE, between_whole, reads_as
from .node import Node

_LEAST_EXPONENT = -323
_BEYOND = Fraction(10) ** 308  # a power of ten that is finite as a double
_LONG = 16  # from this exponent on json.dumps writes one, with at most as many decimals
_ONE_DIGIT = Bounds(Fraction(1), Fraction(10), high_open=True)
_SMALL = Bounds(Fraction(Decimal("1e-323")), Fraction(Decimal("1e-4")), high_open=True)


def integer_node(pool: Pool, bounds: Bounds) -> Node:
    """Integers inside `bounds`, without leading zeros, plus sign, or minus zero."""
    low, high = bounds.integers()
    positive = naturals(pool, max(low or 0, 0), high) if high is None or high >= 0 else pool.never
    if low is None or low < 0:
        most = None if low is None else -low
        least = 1 if high is None or high >= 0 else -high
        negative = pool.seq(pool.literal("-"), naturals(pool, least, most))
        return pool.alt((positive, negative))
    return positive


def loose_integer_node(pool: Pool, bounds: Bounds) -> Node:
    """Integers inside `bounds`, also spelled with zeros behind a point, as minus zero, or `1e+20`.

    A number below 1e16 has an exponent only where nothing bounds it.
    """
    read = bounds.read_inside()
    parts = [integer_node(pool, bounds)]
    if read is not None:
        parts.append(_signed(pool, read, lambda part: _pointed_integers(pool, part)))
        long = pool.optional(pool.seq(pool.literal("."), digit_run(pool, 1, _LONG)))
        parts.append(_signed(pool, read, lambda part: _scientific(pool, part, _LONG, long)))
        if _unbounded(bounds):
            short = pool.optional(_zeros(pool))
            parts.append(_signed(pool, read, lambda part: _scientific(pool, part, 0, short)))
        parts.append(_minus_zero(pool, read))
    return pool.alt(parts)


def number_node(pool: Pool, bounds: Bounds) -> Node:
    """Numbers inside `bounds`; with an exponent, one digit stands before the point."""
    read = bounds.read_inside()
    ends = (bounds.low, bounds.high)
    # Integers of moderate size are among the decimals.
    large = read is None or any(end is not None and abs(end) >= EXACT_WHOLE for end in ends)
    parts = [integer_node(pool, bounds)] if large else []
    if read is not None:
        parts.append(_signed(pool, read, lambda part: decimals(pool, part)))
        parts.append(_signed(pool, read, lambda part: _scientific(pool, part)))
        parts.append(_minus_zero(pool, read))
    return pool.alt(parts)


def broken_number(pool: Pool) -> Node:
    """Numbers that are not whole, neither as they are written nor as they are read."""
    known = pool.memo.get(("broken number",))
    if known is None:
        decimals_between = pool.seq(_minus(pool), between_whole(pool))
        known = pool.alt((decimals_between, small_number(pool, Fraction(1))))
        pool.memo["broken number",] = known
    return known


def small_number(pool: Pool, below: Fraction) -> Node:
    """Numbers nearer to 0 than `below` and 1e-4, but not 0, spelled with an exponent."""
    near = _SMALL.narrow(Bounds(high=below, high_open=True))
    return pool.seq(_minus(pool), _scientific(pool, near))


def whole_or_pointed(pool: Pool, most: int) -> Node:
    """Integers of any size, and up to `most` also with zeros behind a point."""
    pointed = pool.seq(naturals(pool, 0, most), _zeros(pool))
    return pool.seq(_minus(pool), pool.alt((naturals(pool, 0, None), pointed)))


def value_node(pool: Pool, value: float | int) -> Node:
    """All spellings of one number without an exponent that are read as that number."""
    exact = number_value(value)
    whole, digits = split(abs(exact))
    zeros = pool.repeat(pool.literal("0"), 0)
    if digits:
        tails = [pool.seq(pool.literal("." + digits), zeros)]
    else:
        tails = [pool.epsilon] if value == exact.numerator else []
        tails += [_zeros(pool)] if reads_as(exact, value) else []
    sign = pool.literal("-") if value < 0 else pool.epsilon
    if value == 0:
        sign = _minus(pool)
    return pool.seq(sign, pool.literal(str(whole)), pool.alt(tails))


def _unbounded(bounds: Bounds) -> bool:
    return bounds.low is None and bounds.high is None


def _signed(pool: Pool, bounds: Bounds, magnitudes: Callable[[Bounds], Node]) -> Node:
    """Numbers inside bounds, from those without a sign; minus zero if nothing is bounded."""
    if _unbounded(bounds):
        return pool.seq(_minus(pool), magnitudes(Bounds(low=Fraction(0))))
    positive = bounds.narrow(Bounds(low=Fraction(0)))
    negative = bounds.mirrored().narrow(Bounds(low=Fraction(0), low_open=True))
    parts = [] if positive.empty else [magnitudes(positive)]
    if not negative.empty:
        parts.append(pool.seq(pool.literal("-"), magnitudes(negative)))
    return pool.alt(parts)


def _minus_zero(pool: Pool, bounds: Bounds) -> Node:
    zero = Bounds(Fraction(0), Fraction(0))
    if bounds.narrow(zero).empty:
        return pool.never
    return pool.seq(pool.literal("-0"), pool.optional(_zeros(pool)))


def _pointed_integers(pool: Pool, bounds: Bounds) -> Node:
    low, high = bounds.integers()
    return pool.seq(naturals(pool, low or 0, high, most=FLOAT_DIGITS), _zeros(pool))


def _scientific(
    pool: Pool, bounds: Bounds, least: int = _LEAST_EXPONENT, tail: Node | None = None
) -> Node:
    """Positive numbers as ``d.ddde+dd``, decade by decade: only the outermost ones need a look.

    Args:
        pool: Where to build.
        bounds: Where they are; not below 0.
        least: The least exponent.
        tail: What stands between the first digit and the exponent; any decimals if left out.
    """
    bounds = bounds.narrow(Bounds(Fraction(10) ** least, _BEYOND, high_open=True))
    if bounds.empty or bounds.low is None or bounds.high is None:
        return pool.never
    if tail is None:
        tail = pool.optional(pool.seq(pool.literal("."), digit_run(pool, 1, -1)))
    shape = pool.seq(one_digit(pool, 1, 9), tail)
    parts = []
    first, last = _exponent(bounds.low), _exponent(bounds.high)
    whole = range(first, last + 1)
    for exponent in {first, last}:
        mantissa = bounds.times(Fraction(10) ** -exponent).narrow(_ONE_DIGIT)
        if mantissa == _ONE_DIGIT:
            continue
        whole = range(whole.start + (exponent == first), whole.stop - (exponent == last))
        if not mantissa.empty:
            digits = pool.all_of((decimals(pool, mantissa), shape))
            parts.append(pool.seq(digits, _exponents(pool, exponent, exponent)))
    if whole:
        parts.append(pool.seq(shape, _exponents(pool, whole[0], whole[-1])))
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
            padded = pool.seq(pool.literal("0"), naturals(pool, low, min(high, 9)))
            parts.append(pool.seq(sign, pool.alt((naturals(pool, low, high), padded))))
    return pool.seq(pool.byte_set(1 << ord("e") | 1 << ord("E")), pool.alt(parts))


def _minus(pool: Pool) -> Node:
    return pool.optional(pool.literal("-"))


def _zeros(pool: Pool) -> Node:
    """A point and zeros."""
    return pool.seq(pool.literal("."), pool.repeat(pool.literal("0"), 1))
