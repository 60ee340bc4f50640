"""`multipleOf`: texts whose value is, or is not, a multiple of a number.

A text is read digit by digit, keeping the remainder of what it would be as a whole number of the
smallest decimal unit. States are made as they are reached. Where validators divide doubles, only
texts are let in of which they find the same as exact arithmetic.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from functools import cached_property

from .bounds import places_of
from .digit_strings import digit_run, naturals
from .errors import SchemaNotSupported
from .expr import Pool
from .json_doubles import EXACT_WHOLE
from .json_facts import Multiple
from .json_numbers import broken_number, small_number, whole_or_pointed
from .node import Node

_MOST_STATES = 20_000
_MOST_DIGITS = 15  # a decimal with more may be read as one that is a multiple
_WHOLE = -1


def check_multiple(multiple: Multiple) -> None:
    """Refuse a `multipleOf` of too many digits.

    Raises:
        SchemaNotSupported: Too many remainders to tell apart.
    """
    places = places_of(multiple.unit)
    modulus = int(multiple.unit * 10**places)
    reason = None
    if places > _MOST_DIGITS:
        reason = f"has {places} decimals; {_MOST_DIGITS} can be told apart"
    elif modulus * (places + 2) > _MOST_STATES:
        reason = f"needs {modulus} remainders to be told apart"
    if reason is not None:
        raise SchemaNotSupported(
            f"multipleOf {float(multiple.unit):g} {reason}",
            hint="Use a rounder number, or an enum of the allowed numbers",
            pointer=multiple.pointer,
        )


def multiple_node(pool: Pool, multiple: Multiple) -> Node:
    """Numbers that satisfy a `multipleOf` or its negation, both ways.

    Leading zeros may be let in; intersect with the numbers that are wanted.
    """
    node, unit = decimal_multiple_node(pool, multiple), multiple.unit
    if not multiple.divided:
        node = pool.all_of((node, whole_or_pointed(pool, EXACT_WHOLE)))
        return node if multiple.holds else pool.alt((node, broken_number(pool)))
    if multiple.holds:  # multiples of a double, up to where they are doubles themselves
        return pool.all_of((node, _up_to(pool, int(min(unit, Fraction(1)) * EXACT_WHOLE) - 1)))
    short = pool.all_of((node, _short(pool, places_of(unit))))
    return pool.alt((short, small_number(pool, unit / 2)))


def decimal_multiple_node(pool: Pool, multiple: Multiple) -> Node:
    """Plain decimals that satisfy a `multipleOf` or its negation as they are written."""
    places = places_of(multiple.unit)
    modulus = int(multiple.unit * 10**places)
    remainders = _Remainders(pool, modulus, places, holds=multiple.holds)
    return pool.seq(pool.optional(pool.literal("-")), remainders.node(_WHOLE, 0))


def is_rounded(multiple: Multiple) -> bool:
    """Whether doubles are divided by one that is not the number itself."""
    return multiple.divided and Fraction(float(multiple.unit)) != multiple.unit


def _up_to(pool: Pool, most: int) -> Node:
    """Plain decimals with a whole part up to `most`, and integers that are doubles."""
    fraction = pool.optional(pool.seq(pool.literal("."), digit_run(pool, 1, -1)))
    magnitudes = (pool.seq(naturals(pool, 0, most), fraction), naturals(pool, 0, EXACT_WHOLE))
    return pool.seq(pool.optional(pool.literal("-")), pool.alt(magnitudes))


def _short(pool: Pool, places: int) -> Node:
    """Plain decimals in which validators see no multiple of a unit with `places` decimals.

    Neither has more than 15 digits in the same unit, so rounding cannot bridge what lies between.
    """
    parts = []
    for length in range(1, _MOST_DIGITS - places + 1):
        low = 10 ** (length - 1) if length > 1 else 0
        rest = digit_run(pool, 1, _MOST_DIGITS - length)
        fraction = pool.optional(pool.seq(pool.literal("."), rest))
        parts.append(pool.seq(naturals(pool, low, 10**length - 1), fraction))
    return pool.seq(pool.optional(pool.literal("-")), pool.alt(parts))


class _Remainders:
    """The states (decimals read, remainder).

    `_WHOLE` decimals means before the point. The remainder `modulus` stands for a value that has
    digits beyond the smallest unit, and so is no multiple, whatever follows.
    """

    def __init__(self, pool: Pool, modulus: int, places: int, *, holds: bool) -> None:
        self._pool = pool
        self._modulus = modulus
        self._places = places
        self._holds = holds
        self._digits = [pool.literal(str(digit)) for digit in range(10)]
        self._point = pool.literal(".")

    def node(self, decimals: int, remainder: int) -> Node:
        """What may follow in a state."""
        path = self._shortest.get((decimals, remainder))
        if path is None:
            return self._pool.never
        key = ("multiple", self._modulus, self._places, self._holds, decimals, remainder)
        like = self._pool.literal(path)
        return self._pool.lazy(key, like, lambda: self._body(decimals, remainder))

    def _body(self, decimals: int, remainder: int) -> Node:
        pool = self._pool
        parts = [
            pool.seq(self._digits[digit], self.node(*after))
            for digit in range(10)
            if (after := self._after(decimals, remainder, digit)) is not None
        ]
        if decimals == _WHOLE:
            parts.append(pool.seq(self._point, self.node(0, remainder)))
        if self._ends(decimals, remainder):
            parts.append(pool.epsilon)
        return pool.alt(parts)

    def _after(self, decimals: int, remainder: int, digit: int) -> tuple[int, int] | None:
        if decimals < self._places:
            step = decimals if decimals == _WHOLE else decimals + 1
            return step, (10 * remainder + digit) % self._modulus
        if not digit or remainder == self._modulus:
            return decimals, remainder
        return None if self._holds else (decimals, self._modulus)

    def _ends(self, decimals: int, remainder: int) -> bool:
        if remainder == self._modulus:
            return not self._holds
        missing = self._places - max(decimals, 0)
        return (remainder * 10**missing % self._modulus == 0) is self._holds

    @cached_property
    def _shortest(self) -> dict[tuple[int, int], str]:
        """The shortest text from each state to an end, by breadth-first search backwards."""
        states = [(d, r) for d in range(_WHOLE, self._places + 1) for r in range(self._modulus)]
        states.append((self._places, self._modulus))
        before: dict[tuple[int, int], list[tuple[str, tuple[int, int]]]] = {}
        for state in states:
            for digit in range(10):
                after = self._after(*state, digit)
                if after is not None:
                    before.setdefault(after, []).append((str(digit), state))
            if state[0] == _WHOLE:
                before.setdefault((0, state[1]), []).append((".", state))
        found = {state: "" for state in states if self._ends(*state)}
        queue = deque(found)
        while queue:
            state = queue.popleft()
            for sign, earlier in before.get(state, ()):
                if earlier not in found:
                    found[earlier] = sign + found[state]
                    queue.append(earlier)
        return found
