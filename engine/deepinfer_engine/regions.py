"""Ranges of a fixed number of places, taken and given back."""

from __future__ import annotations

from bisect import insort


class Regions:
    """Hands out ranges, lowest first; neighbours that are free become one again.

    Args:
        start: The first place.
        size: How many there are.
    """

    def __init__(self, start: int, size: int) -> None:
        self._free: list[tuple[int, int]] = [(start, size)] if size > 0 else []
        self.free = size

    def take(self, size: int) -> int | None:
        """The start of a range of `size` places, or None if no free range is as long."""
        for i, (start, length) in enumerate(self._free):
            if length >= size:
                rest = [(start + size, length - size)] if length > size else []
                self._free[i : i + 1] = rest
                self.free -= size
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Return a range that was taken."""
        self.free += size
        insort(self._free, (start, size))
        i = self._free.index((start, size))
        for left in (i, i - 1):  # join with the next one, then with the one before
            if 0 <= left < len(self._free) - 1:
                (a, n), (b, m) = self._free[left : left + 2]
                if a + n == b:
                    self._free[left : left + 2] = [(a, n + m)]
