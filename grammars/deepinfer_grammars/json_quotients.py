"""Multiples of a number that no double is, such as 0.01, for validators that divide doubles.

0.3 is a multiple of 0.1, but not of the double nearest to 0.1 once the quotient is rounded. Which
multiples come out right follows no pattern, so each beginning of a number is a state of its own,
made when a text gets there.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import gcd

from .bounds import Bounds
from .expr import Pool
from .node import Node

_LONGEST = 10**15  # in the smallest unit; with more digits, decimals share doubles
_LARGEST_WHOLE = 2**53
_WHOLE = -1


def quotient_node(pool: Pool, unit: Fraction, bounds: Bounds) -> Node:
    """Plain decimals inside bounds that are multiples of `unit`, also when doubles are divided.

    Those with a point have at most 15 digits, counted in the smallest decimal unit.
    """
    read = bounds.read_inside()
    if read is None:
        return pool.never
    parts = []
    for sign, part in (("", read), ("-", read.mirrored())):
        multiples = _Multiples(pool, unit, part)
        parts.append(pool.seq(pool.literal(sign), multiples.start()))
    return pool.alt(parts)


class _Multiples:
    """The states (digits read, decimals among them) of the multiples that are not negative.

    `_WHOLE` decimals means before the point.
    """

    def __init__(self, pool: Pool, unit: Fraction, bounds: Bounds) -> None:
        self._pool = pool
        self._divisor = float(unit)
        self._places = 0
        while (unit * 10**self._places).denominator != 1:
            self._places += 1
        self._unit = int(unit * 10**self._places)
        scale = 10**self._places
        low, high = bounds.times(scale).integers()
        self._low = max(low or 0, 0)
        self._high = _LARGEST_WHOLE * scale if high is None else min(high, _LARGEST_WHOLE * scale)
        self._key = ("quotient", unit, self._low, self._high)
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
        if decimals == _WHOLE:
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
            self._paths[state] = next(self._ends(digits, decimals), None)
        return self._paths[state]

    def _ends(self, digits: int, decimals: int) -> Iterator[str]:
        """Texts to the nearest ends, shortest first."""
        if decimals != _WHOLE:
            for more in range(0 if decimals else 1, self._places - decimals + 1):
                yield from self._continued(digits, more, self._places - decimals - more)
            return
        most = len(str(_LARGEST_WHOLE)) if digits else 0
        for length in range(most + self._places + 2):
            if length <= most:
                yield from self._continued(digits, length, self._places)
            for whole in range(min(length - 1, most + 1)):
                more = length - 1 - whole
                if more <= self._places:
                    for text in self._continued(digits, whole + more, self._places - more):
                        yield f"{text[:whole]}.{text[whole:]}"

    def _continued(self, digits: int, more: int, zeros: int) -> Iterator[str]:
        """Digits, `more` of them, that lead to a multiple if as many `zeros` are thought behind."""
        scale = 10**zeros
        first = max(digits * 10**more * scale, self._low)
        last = min((digits + 1) * 10**more * scale - 1, self._high)
        if zeros < self._places:
            last = min(last, _LONGEST)
        step = self._unit * scale // gcd(self._unit, scale)
        for value in range(-(-first // step) * step, last + 1, step):
            if self._divides(value):
                yield str(value // scale - digits * 10**more).zfill(more) if more else ""

    def _divides(self, value: int) -> bool:
        """Whether the quotient of doubles is whole."""
        return (float(f"{value}e-{self._places}") / self._divisor).is_integer()
