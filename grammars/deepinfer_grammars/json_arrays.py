"""Arrays, from the facts about their items."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from .errors import ConstraintTooLarge, SchemaNotSupported
from .json_facts import Claim, Conjunction, Either, Facts, spelling
from .node import Node

if TYPE_CHECKING:
    from .json_schema import SchemaCompiler

_MOST_CELLS = 20_000
_MOST_DISTINCT = 64
_MOST_TUPLES = 4096


def array_node(compiler: SchemaCompiler, facts: Facts) -> Node:
    """An array whose items satisfy all facts, within all bounds on their number."""
    low, high = facts.size
    if 0 <= high < low:
        return compiler.pool.never
    if facts.unique is not None and high not in (0, 1):
        return _distinct(compiler, facts, facts.unique)
    if facts.contains:
        return _counted(compiler, facts)
    return _plain(compiler, facts)


def _plain(compiler: SchemaCompiler, facts: Facts) -> Node:
    pool = compiler.pool
    low, high = facts.size
    comma = compiler.layout.mark(pool, ",")
    fixed = _fixed(facts)
    fixed = fixed if high < 0 else min(fixed, high)
    free = pool.seq(comma, compiler.rule(_item(facts, fixed)))
    # What may follow the first item, built from the end: free items, then the leading ones.
    lead = max(fixed, 1)
    content = pool.repeat(free, max(low - lead, 0), high - lead if high >= 0 else -1)
    for index in reversed(range(1, fixed)):
        step = pool.seq(comma, compiler.rule(_item(facts, index)), content)
        content = step if index < low else pool.optional(step)
    first = compiler.rule(_item(facts, 0)) if high != 0 else pool.never
    content = pool.seq(first, content)
    return compiler.layout.enclose(pool, "[", content, "]", empty=low == 0)


def _fixed(facts: Facts) -> int:
    """From this index on all items are alike."""
    leading = [len(items.leading) for items in facts.items]
    return max(leading + [rule.start for rule in facts.contains], default=0)


def _item(facts: Facts, index: int) -> Conjunction:
    """What the item at `index` must satisfy, beside what `contains` asks of some items."""
    claims: set[Claim | Either] = set()
    for items in facts.items:
        claim = items.leading[index] if index < len(items.leading) else items.rest
        if claim is not None:
            claims.add(claim)
    for rule in facts.open_items:
        inner = [items for items in facts.items if rule.scope in items.scopes]
        if any(index < len(items.leading) or items.closes for items in inner):
            continue
        if any(rule.scope in other.scopes for other in facts.open_items):
            continue
        seen = [c.claim for c in facts.contains if rule.scope in c.scopes]
        claims.add(Either((rule.claim, *seen)) if seen else rule.claim)
    return frozenset(claims)


def _counted(compiler: SchemaCompiler, facts: Facts) -> Node:
    """Items with `contains`, which need their matches to be counted."""
    table = _MatchTable(compiler, facts)
    return compiler.layout.enclose(
        compiler.pool, "[", table.content(), "]", empty=table.done(table.start)
    )


_Cell = tuple[int, ...]


class _MatchTable:
    """Rules for what may follow, one per cell: items so far, then matches so far per `contains`.

    Counts stop where no bound can tell more of them apart. Under an upper bound an item is either
    shown to match or shown not to; for a lower bound alone it may be left open.
    """

    def __init__(self, compiler: SchemaCompiler, facts: Facts) -> None:
        self._compiler = compiler
        self._facts = facts
        self._rules = [rule for rule in facts.contains if rule.low > 0 or rule.high >= 0]
        low, high = facts.size
        tops = [max(low, high + 1 if high >= 0 else 0, _fixed(facts))]
        tops += [max(rule.low, rule.high + 1 if rule.high >= 0 else 0) for rule in self._rules]
        self._tops = tuple(tops)
        self.start: _Cell = (0,) * len(tops)
        cells = 1
        for top in tops:
            cells *= top + 1
        if cells > _MOST_CELLS:
            raise ConstraintTooLarge(
                f"the bounds on items and matches need {cells} cases to be told apart",
                hint="Use smaller bounds",
                pointer=facts.contains[0].pointer,
            )

    def content(self) -> Node:
        """At least one item."""
        compiler, pool = self._compiler, self._compiler.pool
        comma = compiler.layout.mark(pool, ",")
        ways: dict[_Cell, list[tuple[Conjunction, _Cell]]] = {}
        reached = [self.start]
        for cell in reached:
            if cell not in ways:
                ways[cell] = self._items(cell)
                reached += [then for _, then in ways[cell]]
        pointer = self._facts.contains[0].pointer
        rule = {cell: pool.rule(f"{pointer} after {cell}") for cell in ways}
        for cell, items in ways.items():
            parts = [pool.seq(comma, compiler.rule(item), rule[then]) for item, then in items]
            if self.done(cell):
                parts.append(pool.epsilon)
            pool.define(rule[cell], pool.alt(parts))
        first = ways[self.start]
        return pool.alt([pool.seq(compiler.rule(item), rule[then]) for item, then in first])

    def done(self, cell: _Cell) -> bool:
        """Whether the array may end."""
        enough = zip(cell[1:], self._rules, strict=True)
        return cell[0] >= self._facts.size[0] and all(hits >= rule.low for hits, rule in enough)

    def _items(self, cell: _Cell) -> list[tuple[Conjunction, _Cell]]:
        """What the next item may be, and the cell behind it."""
        if cell[0] == self._facts.size[1]:
            return []
        base = _item(self._facts, cell[0])
        found = []
        for matched in product((False, True), repeat=len(self._rules)):
            claims = set(base)
            then = [min(cell[0] + 1, self._tops[0])]
            for rule, hit, hits, top in zip(
                self._rules, matched, cell[1:], self._tops[1:], strict=True
            ):
                if hit:
                    claims.add(rule.claim)
                    useless = cell[0] < rule.start or (rule.high < 0 and hits == top)
                    if useless or 0 <= rule.high <= hits:
                        break
                elif rule.high >= 0 and cell[0] >= rule.start:
                    claims.add(~rule.claim)
                then.append(min(hits + hit, top))
            else:
                found.append((frozenset(claims), tuple(then)))
        return found


def _distinct(compiler: SchemaCompiler, facts: Facts, pointer: str) -> Node:
    """Items that all differ, where finitely many values are possible."""
    fixed = _fixed(facts)
    low, high = facts.size
    closed = compiler.impossible(_item(facts, fixed)) or 0 <= high <= fixed
    if closed:
        top = fixed if high < 0 else min(fixed, high)
        lists = [compiler.finite(_item(facts, index)) for index in range(top)]
        return _tuples(compiler, facts, lists, pointer)
    values = compiler.finite(_item(facts, fixed)) if not facts.contains else None
    if fixed or values is None or len(values) > _MOST_DISTINCT:
        raise SchemaNotSupported(
            "uniqueItems cannot be enforced where the items have too many possible values",
            hint="Give the items an enum, or drop uniqueItems and check it on the value",
            pointer=pointer,
        )
    count = len(values)
    high = count if high < 0 else min(high, count)
    if high < low:
        return compiler.pool.never
    content = _Drawn(compiler, [compiler.values([v]) for v in values], low, high)
    first = content.node(tuple(range(count)), 0)
    return compiler.layout.enclose(compiler.pool, "[", first, "]", empty=low == 0)


class _Drawn:
    """Any of the given items in any order, each at most once."""

    def __init__(self, compiler: SchemaCompiler, items: list[Node], low: int, high: int) -> None:
        self._pool = compiler.pool
        self._comma = compiler.layout.mark(compiler.pool, ",")
        self._items = items
        self._low, self._high = low, high

    def node(self, left: tuple[int, ...], taken: int) -> Node:
        """What may follow when the items `left` are still to be had."""
        pool = self._pool
        key = ("distinct", *(item.id for item in self._items), left, self._low, self._high)
        missing = max(self._low - taken, 0 if taken else 1)
        some = pool.alt([self._items[index] for index in left])
        step = pool.seq(self._comma, some)
        like = pool.repeat(step, missing, missing)
        if not taken:
            like = pool.seq(some, pool.repeat(step, missing - 1, missing - 1))
        return pool.lazy(key, like, lambda: self._body(left, taken))

    def _body(self, left: tuple[int, ...], taken: int) -> Node:
        pool = self._pool
        parts = [pool.epsilon] if taken >= self._low and taken else []
        if taken < self._high:
            for index in left:
                others = tuple(other for other in left if other != index)
                step = pool.seq(self._items[index], self.node(others, taken + 1))
                parts.append(pool.seq(self._comma, step) if taken else step)
        return pool.alt(parts)


def _tuples(
    compiler: SchemaCompiler, facts: Facts, lists: list[list[Any] | None], pointer: str
) -> Node:
    """All arrays of distinct values, one out of each list."""
    low = facts.size[0]
    found: list[list[Any]] = [[]] if low == 0 else []
    partial: list[list[Any]] = [[]]
    for index, values in enumerate(lists):
        if values is None or len(partial) * len(values) > _MOST_TUPLES:
            raise SchemaNotSupported(
                "uniqueItems cannot be enforced where the items have too many possible values",
                hint="Give the items an enum, or drop uniqueItems and check it on the value",
                pointer=pointer,
            )
        partial = [
            [*so_far, value]
            for so_far in partial
            for value in values
            if all(spelling(value) != spelling(other) for other in so_far)
        ]
        if index + 1 >= low:
            found += partial
    if facts.contains:
        raise SchemaNotSupported(
            "uniqueItems beside contains cannot be enforced", pointer=pointer, hint="Drop one"
        )
    return compiler.values(found)
