"""Multiples of a number that no double is, such as 0.01, for validators that divide doubles.

0.3 is a multiple of 0.1, but not of the double nearest to 0.1 once the quotient is rounded. Which
multiples come out right follows no pattern, so each beginning of a number is a state of its own,
made when a text gets there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from .bounds import Bounds, number_value, places_of
from .expr import Pool
from .json_facts import Facts, Multiple
from .node import Node

_LONGEST = 10**15  # in the smallest unit; with more digits, decimals share doubles
_LARGEST_WHOLE = 2**53
_MOST_TRIED = 64  # candidates of one length
_WHOLE = -1


def quotient_node(pool: Pool, facts: Facts, *, loose: bool) -> Node:
    """Plain decimals with all numeric facts, some of them multiples for which doubles are divided.

    Those with a point have at most 15 digits, counted in the smallest decimal unit. A way on
    is not offered if of every length the first 64 multiples do not fit.

    Args:
        pool: Where to build.
        facts: What is known.
        loose: Whether whole numbers may have a point.
    """
    read = facts.bounds.read_inside()
    if read is None:
        return pool.never
    excluded = [value for value in facts.excluded if type(value) in (int, float)]
    whole = "fraction" not in facts.types
    parts = []
    for sign, part in ((1, read), (-1, read.mirrored())):
        wanted = _Wanted(
            tuple(facts.multiples),
            part.narrow(Bounds(low=Fraction(0))),
            tuple(sign * value for value in excluded),
            whole=whole,
            broken="integer" not in facts.types,
        )
        node = _Numbers(pool, wanted, pointed=loose or not whole).start()
        parts.append(node if sign > 0 else pool.seq(pool.literal("-"), node))
    return pool.alt(parts)


@dataclass(frozen=True)
class _Wanted:
    """Which numbers to write, apart from their sign."""

    multiples: tuple[Multiple, ...]
    bounds: Bounds
    excluded: tuple[int | float, ...]
    whole: bool
    broken: bool

    def fits(self, value: Fraction, read: float) -> bool:
        """Whether a number does, as it is written and as it is read."""
        if self.broken and value.denominator == 1:
            return False
        if any(value == number_value(number) or read == number for number in self.excluded):
            return False
        return all(_agrees(multiple, value, read) for multiple in self.multiples)


def _agrees(multiple: Multiple, value: Fraction, read: float) -> bool:
    """Whether a `multipleOf`, or its negation, is satisfied both ways."""
    unit = multiple.unit
    found = (read / float(unit)).is_integer() if multiple.divided else read % int(unit) == 0
    return found is ((value / unit).denominator == 1) is multiple.holds


class _Numbers:
    """The states (digits read, decimals among them) of the numbers that are wanted.

    `_WHOLE` decimals means before the point.
    """

    def __init__(self, pool: Pool, wanted: _Wanted, *, pointed: bool) -> None:
        self._pool = pool
        self._wanted = wanted
        held = [multiple.unit for multiple in wanted.multiples if multiple.holds]
        held += [Fraction(1)] if wanted.whole else []
        self._places = max(map(places_of, held))
        self._pointed = pointed
        self._scale = 10**self._places
        self._unit = lcm(*(int(unit * self._scale) for unit in held))
        low, high = wanted.bounds.times(self._scale).integers()
        most = _LARGEST_WHOLE * self._scale
        self._low, self._high = low or 0, most if high is None else min(high, most)
        self._key = ("quotients", wanted, pointed)
        self._paths: dict[tuple[int, int], str | None] = {}

    def start(self) -> Node:
        """All of them."""
        parts = [self._step(str(digit), digit, _WHOLE) for digit in range(10)]
        return self._pool.alt(parts)

    def _step(self, byte: str, digits: int, decimals: int) -> Node:
        return self._pool.seq(self._pool.literal(byte), self._node(digits, decimals))

    def _node(self, digits: int, decimals: int) -> Node:
        """What may follow."""
        state = (digits, decimals)
        if decimals == self._places:
            zeros = self._pool.repeat(self._pool.literal("0"), 0)
            return zeros if self._path(*state) is not None else self._pool.never
        path = self._path(*state)
        if path is None:
            return self._pool.never
        like = self._pool.literal(path)
        return self._pool.lazy((*self._key, *state), like, lambda: self._body(*state))

    def _body(self, digits: int, decimals: int) -> Node:
        pool = self._pool
        parts = [pool.epsilon] if self._path(digits, decimals) == "" else []
        if decimals == _WHOLE and self._pointed:
            parts.append(self._step(".", digits, 0))
        if digits or decimals != _WHOLE:  # no leading zeros
            after = decimals if decimals == _WHOLE else decimals + 1
            by_target: dict[Node, int] = {}
            for digit in range(10):
                target = self._node(10 * digits + digit, after)
                by_target[target] = by_target.get(target, 0) | 1 << 48 + digit
            parts += [pool.seq(pool.byte_set(mask), node) for node, mask in by_target.items()]
        return pool.alt(parts)

    def _path(self, digits: int, decimals: int) -> str | None:
        """A shortest text from a state to an end; None if there is none."""
        state = (digits, decimals)
        if state not in self._paths:
            tried = self._candidates(digits, decimals)
            self._paths[state] = next((text for value, text in tried if self._fits(value)), None)
        return self._paths[state]

    def _candidates(self, digits: int, decimals: int) -> Iterator[tuple[int, str]]:
        """Multiples of the unit that begin like this, with the text to their end; nearest first."""
        if decimals != _WHOLE:
            for more in range(0 if decimals else 1, self._places - decimals + 1):
                yield from self._continued(digits, more, self._places - decimals - more)
            return
        most = len(str(_LARGEST_WHOLE)) if digits else 0
        for length in range(most + self._places + 2):
            if length <= most:
                yield from self._continued(digits, length, self._places)
            for whole in range(min(length - 1, most + 1) if self._pointed else 0):
                more = length - 1 - whole
                if more <= self._places:
                    for value, text in self._continued(digits, whole + more, self._places - more):
                        yield value, f"{text[:whole]}.{text[whole:]}"

    def _continued(self, digits: int, more: int, zeros: int) -> Iterator[tuple[int, str]]:
        """Those with `more` further digits, behind which as many `zeros` are thought."""
        scale = 10**zeros
        first = max(digits * 10**more * scale, self._low)
        last = min((digits + 1) * 10**more * scale - 1, self._high)
        if zeros < self._places:
            last = min(last, _LONGEST)
        step = self._unit * scale // gcd(self._unit, scale)
        for value in range(-(-first // step) * step, last + 1, step)[:_MOST_TRIED]:
            yield value, str(value // scale - digits * 10**more).zfill(more) if more else ""

    def _fits(self, value: int) -> bool:
        read = float(f"{value}e-{self._places}")
        return self._wanted.fits(Fraction(value, self._scale), read)
