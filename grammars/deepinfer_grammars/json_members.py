"""Members of an object, in the order of the schema or in any order."""

from __future__ import annotations

from .expr import Pool
from .node import Node


class MemberTable:
    """What may follow in an object, by the members that are there.

    Args:
        pool: Where to build.
        comma: What stands between members.
        named: Per property, the nodes of its member, each with the witnesses that it is (as bits).
        required: Names of the properties that must be there.
        extra: Any further member.
        last: A further member that is every witness.
        after: Any further member after that one. It may have the same name, and count instead.
        goal: The bits of all witnesses that the object needs.
        span: Fewest and most members; -1 is no limit.
    """

    def __init__(
        self,
        pool: Pool,
        comma: Node,
        named: dict[str, list[tuple[int, Node]]],
        required: frozenset[str],
        *,
        extra: Node,
        last: Node,
        after: Node,
        goal: int,
        span: tuple[int, int],
    ) -> None:
        self._pool = pool
        self._number = len(pool.nodes)  # a table adds nodes before the next is made
        self._comma = comma
        self._members = list(named.values())
        self._required = [name in required for name in named]
        self._extra = extra
        self._last = last
        self._after = after
        self._goal = goal
        self._sealed = 2 * goal + 1  # all witnesses are there, one by a further member
        low, high = span
        counted = high >= 0 or low > len(required)
        self._low = low if counted else 0
        self._high = high
        # Counts above this one need not be told apart.
        self._top = max(low, high) + 1 if counted else 1

    def ordered(self) -> Node:
        """At least one member, properties in order, then further ones."""
        return self._ordered(tuple(range(len(self._members))), 0, 0)

    def shuffled(self) -> Node:
        """At least one member, in any order."""
        return self._shuffled(tuple(range(len(self._members))), 0, 0)

    def _ordered(self, left: tuple[int, ...], count: int, met: int) -> Node:
        """What may follow when `count` members are there, which are the witnesses `met`.

        The table is built from the last name back, one row per name; a cell of a row is what may
        follow for a number of members and a set of witnesses.
        """
        pool = self._pool
        counts = range(count, min(count + len(left), max(self._top, count)) + 1)
        masks = range(self._goal + 1) if self._goal else (0,)
        row = {(c, m): self._end(c, m) for c in counts for m in masks}
        top = counts[-1]
        for index in reversed(left):
            after, row = row, {}
            for c in counts:
                for m in masks:
                    parts = [] if self._required[index] else [after[c, m]]
                    if not 0 <= self._high <= c:
                        for bits, member in self._members[index]:
                            step = pool.seq(member, after[min(c + 1, top), m | bits])
                            parts.append(self._separated(c, step))
                    row[c, m] = pool.alt(parts)
        return row[count, met]

    def _separated(self, count: int, step: Node) -> Node:
        return self._pool.seq(self._comma, step) if count else step

    def _end(self, count: int, met: int) -> Node:
        """Further members only, after `count` members."""
        pool, high = self._pool, self._high
        least, most = max(self._low - count, 0), high - count if high >= 0 else -1
        if 0 <= high < count:
            return pool.never
        if met >= self._goal:
            return self._extras(count, least, most)
        if most == 0:
            return pool.never
        # Any members, the witness, and what may follow it.
        afterwards = pool.repeat(pool.seq(self._comma, self._after), 0, _less(most))
        witness = pool.seq(self._last, afterwards)
        before = pool.seq(self._comma, witness)
        if count:
            return pool.seq(self._extras(count, max(least - 1, 0), _less(most)), before)
        several = pool.seq(self._extras(0, max(least - 1, 1), _less(most)), before)
        return pool.alt([several, witness]) if least <= 1 else several

    def _extras(self, count: int, least: int, most: int) -> Node:
        """Members of any other names; at least one if there is none so far."""
        pool = self._pool
        more = pool.seq(self._comma, self._extra)
        if count:
            return pool.repeat(more, least, most)
        if most == 0:
            return pool.never
        return pool.seq(self._extra, pool.repeat(more, max(least - 1, 0), _less(most)))

    def _shuffled(self, left: tuple[int, ...], count: int, met: int) -> Node:
        like = self._shortest(left, count, min(met, self._goal))
        if like is self._pool.never:
            return like
        key = ("members", self._number, left, count, met)
        members = [node for member in self._members for _, node in member]
        uses = () if count else (self._extra, self._last, self._after, *members)
        return self._pool.lazy(key, like, lambda: self._body(left, count, met), uses)

    def _shortest(self, left: tuple[int, ...], count: int, met: int) -> Node:
        """An expression as near to its end as what may follow in any order."""
        if not count or self._low or self._goal or self._high >= 0:
            return self._ordered(left, count, met)
        node = self._pool.epsilon
        for index in reversed(left):
            if self._required[index]:
                member = self._pool.alt([member for _, member in self._members[index]])
                node = self._pool.seq(self._comma, member, node)
        return node

    def _body(self, left: tuple[int, ...], count: int, met: int) -> Node:
        pool = self._pool
        parts: list[Node] = []
        after = min(count + 1, self._top)
        if not 0 <= self._high <= count:
            for index in left:
                rest = tuple(other for other in left if other != index)
                for bits, member in self._members[index]:
                    step = pool.seq(member, self._shuffled(rest, after, met | bits))
                    parts.append(self._separated(count, step))
            further = self._after if met == self._sealed > 1 else self._extra
            for member, then in ((further, met), (self._last, self._sealed)):
                step = pool.seq(member, self._shuffled(left, after, then))
                parts.append(self._separated(count, step))
        complete = count >= max(self._low, 1) and met >= self._goal
        if complete and not any(self._required[index] for index in left):
            parts.append(pool.epsilon)
        return pool.alt(parts)


def _less(high: int) -> int:
    return high - 1 if high > 0 else high
