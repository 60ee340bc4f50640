"""`multipleOf`: decimal texts whose value is, or is not, a multiple of a number.

A text is read digit by digit, keeping the remainder of what it would be as a whole number of the
smallest decimal unit. States are made as they are reached.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from functools import cached_property

from .errors import SchemaNotSupported
from .expr import Pool
from .node import Node

_MOST_STATES = 20_000
_WHOLE = -1


def multiple_node(pool: Pool, unit: Fraction, *, holds: bool, pointer: str) -> Node:
    """Texts ``-?digits[.digits]`` with a value that is a multiple of `unit`, or is not.

    Leading zeros are let in; intersect with the numbers that are wanted.

    Raises:
        SchemaNotSupported: Too many remainders to tell apart.
    """
    places = 0
    while (unit * 10**places).denominator != 1:
        places += 1
    modulus = int(unit * 10**places)
    if modulus * (places + 2) > _MOST_STATES:
        raise SchemaNotSupported(
            f"multipleOf {float(unit):g} needs {modulus} remainders to be told apart",
            hint="Use a rounder number, or an enum of the allowed numbers",
            pointer=pointer,
        )
    remainders = _Remainders(pool, modulus, places, holds=holds)
    return pool.seq(pool.optional(pool.literal("-")), remainders.node(_WHOLE, 0))


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
