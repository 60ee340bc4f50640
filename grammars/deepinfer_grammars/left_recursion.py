"""Left recursion rewritten into iteration, on the rules themselves.

Derivatives need rules that consume a byte before they come back to themselves. Every rule of a
left-recursive group is split into its empty text and the rest, and the rest is written as

    r_i = r_1 a_i1 | ... | r_n a_in | b_i        (b_i does not begin with any rule of the group)

which is solved like linear equations: x = x a | b has the solution b a* (Arden 1961). Solutions of
large groups could be exponentially long, so they are written as right-recursive rules instead, one
for each pair of a rule and what it may become. This covers direct, indirect and hidden (behind
parts that may be empty) left recursion, and cycles x = x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .errors import ConstraintTooLarge
from .expr import Pool
from .node import Kind, Node

_MOST_SUBSTITUTED = 6  # rules of a group that is solved by substitution
_MOST_STEPS = 200_000  # in the right-recursive rules of a larger group


def remove_left_recursion(pool: Pool, groups: Iterable[list[int]], root: Node) -> None:
    """Rewrite the bodies of left-recursive rules.

    Args:
        pool: `nullable` of all reachable nodes is settled.
        groups: Rule indices, grouped so that rules of a group reach each other at the left.
        root: The start expression.

    Raises:
        ConstraintTooLarge: Too many rules of a group use each other.
    """
    rewriter = _Rewriter(pool, root)
    for group in groups:
        rewriter.solve(group)


class _Rewriter:
    def __init__(self, pool: Pool, root: Node) -> None:
        self._pool = pool
        self._root = root
        self._filled: dict[int, Node] = {}  # rule index -> rule for its non-empty texts
        self._group: set[int] = set()

    def solve(self, group: list[int]) -> None:
        """Give every rule of the group a body without left recursion."""
        pool = self._pool
        bodies = {index: pool.rule_bodies[index] for index in group}
        names = {self._non_empty_rule(index).low: index for index in group}
        self._group = set(names)
        factors: dict[int, dict[int, Node]] = {}
        rests: dict[int, Node] = {}
        for name, index in names.items():
            body = bodies[index] or pool.never
            factors[name], rests[name] = self._left(self._filled_part(body))
        if len(group) <= _MOST_SUBSTITUTED:
            self._solve_by_substitution(factors, rests)
        else:
            uses = [self._root, *rests.values(), *(f for t in factors.values() for f in t.values())]
            used = _rules_used(pool, uses, {*names, *names.values()})
            targets = {name for name, index in names.items() if {name, index} & used}
            self._solve_by_paths(factors, rests, targets)
        for name, index in names.items():
            pool.rule_bodies[name] = rests[name]
            filled = self._filled[index]
            empty = (
                pool.epsilon
                if bodies[index] is not None and _nullable(bodies[index])
                else pool.never
            )
            pool.rule_bodies[index] = pool.alt((filled, empty))

    def _solve_by_substitution(
        self, factors: dict[int, dict[int, Node]], rests: dict[int, Node]
    ) -> None:
        """Put each rule's solution into the other equations; `rests` become the solutions."""
        pool = self._pool
        order = list(rests)
        for done, name in enumerate(order):
            own = factors[name].pop(name, pool.never)
            loop = pool.repeat(self._filled_part(own), 0)
            factors[name] = {other: pool.seq(a, loop) for other, a in factors[name].items()}
            rests[name] = pool.seq(rests[name], loop)
            for other in order[done + 1 :]:
                self._substitute(factors, rests, other, name)
        for done, name in reversed(list(enumerate(order))):
            for other in order[:done]:
                self._substitute(factors, rests, other, name)

    def _solve_by_paths(
        self, factors: dict[int, dict[int, Node]], rests: dict[int, Node], targets: set[int]
    ) -> None:
        """Write what may follow a complete rule until one of `targets` is complete, as rules.

        A text of rule i begins with the rest of some rule k; then k grows into i step by step. With
        E(j) for what may follow a complete j: E(j) = a_jm E(m) | ..., and E(i) may be empty. Steps
        that may add nothing are followed at once, so that no E begins with an E.
        """
        pool = self._pool
        steps: dict[int, list[tuple[int, Node]]] = {name: [] for name in rests}
        idle: dict[int, list[int]] = {name: [] for name in rests}
        for into, terms in factors.items():
            for name, factor in terms.items():
                if factor.nullable:
                    idle[name].append(into)
                filled = self._filled_part(factor)
                if filled is not pool.never:
                    steps[name].append((into, filled))
        becomes = {name: _reached(name, idle.__getitem__) for name in rests}
        onwards = {
            name: [step for other in others for step in steps[other]]
            for name, others in becomes.items()
        }
        if len(targets) * sum(map(len, onwards.values())) > _MOST_STEPS:
            raise ConstraintTooLarge(
                f"{len(rests)} rules are left-recursive through each other",
                hint="Rewrite left recursion as repetition, e.g. expr: term (op term)*",
            )
        solved = dict.fromkeys(rests, pool.never)  # what is never asked for
        for target in sorted(targets):
            follow = {name: pool.rule(f"after {pool.rule_names[name]}") for name in rests}
            for name, rule in follow.items():
                rule.nullable = target in becomes[name]
            for name, rule in follow.items():
                parts = [pool.seq(factor, follow[into]) for into, factor in onwards[name]]
                end = pool.epsilon if rule.nullable else pool.never
                pool.define(rule, pool.alt([end, *parts]))
            solved[target] = pool.alt([pool.seq(rest, follow[k]) for k, rest in rests.items()])
        rests.update(solved)

    def _substitute(
        self, factors: dict[int, dict[int, Node]], rests: dict[int, Node], into: int, name: int
    ) -> None:
        """Replace `name` in the equation of `into` by its own right-hand side."""
        factor = factors[into].pop(name, None)
        if factor is None:
            return
        pool = self._pool
        for other, inner in factors[name].items():
            before = factors[into].get(other, pool.never)
            factors[into][other] = pool.alt((before, pool.seq(inner, factor)))
        rests[into] = pool.alt((rests[into], pool.seq(rests[name], factor)))

    def _non_empty_rule(self, index: int) -> Node:
        """The rule for the non-empty texts of a rule, declared on first use."""
        known = self._filled.get(index)
        if known is None:
            known = self._pool.rule(self._pool.rule_names[index])
            known.nullable = False
            self._filled[index] = known
        return known

    def _filled_part(self, node: Node) -> Node:
        """The non-empty texts of an expression; rules of the group become their filled rules."""
        pool = self._pool
        kind = node.kind
        if kind is Kind.EPSILON:
            return pool.never
        if kind is Kind.REF:
            if node.low in self._filled:
                return self._filled[node.low]
            if not node.nullable:
                return node
            filled = self._non_empty_rule(node.low)
            pool.rule_bodies[filled.low] = self._filled_part(pool.body(node))
            return filled
        if kind is Kind.ALT:
            return pool.alt([self._filled_part(part) for part in node.parts])
        if kind is Kind.SEQ:
            parts = []
            while node.kind is Kind.SEQ:  # h t = h' t | t' where h may be empty
                parts.append(pool.seq(self._filled_part(node.head), node.tail))
                if not node.head.nullable:
                    return pool.alt(parts)
                node = node.tail
            return pool.alt([*parts, self._filled_part(node)])
        if kind is Kind.REPEAT:
            body = self._filled_part(node.head)
            low = 0 if node.head.nullable else node.low
            high = node.high - 1 if node.high > 0 else node.high
            if node.head.nullable or node.head is not body:
                return pool.seq(body, pool.repeat(node.head, max(low - 1, 0), high))
            return pool.repeat(body, max(low, 1), node.high)
        if node.nullable:
            some = pool.seq(pool.byte_set((1 << 256) - 1), pool.anything)
            return pool.all_of((node, some))
        return node

    def _left(self, node: Node) -> tuple[dict[int, Node], Node]:
        """Split a non-empty expression into what follows each rule of the group, and the rest."""
        pool = self._pool
        if node.kind is Kind.REF and node.low in self._group:
            return {node.low: pool.epsilon}, pool.never
        if node.kind is Kind.ALT:
            factors: dict[int, Node] = {}
            rests = []
            for part in node.parts:
                more, rest = self._left(part)
                rests.append(rest)
                for name, factor in more.items():
                    factors[name] = pool.alt((factors.get(name, pool.never), factor))
            return factors, pool.alt(rests)
        if node.kind is Kind.SEQ:
            factors, rest = self._left(self._filled_part(node.head))
            return (
                {name: pool.seq(factor, node.tail) for name, factor in factors.items()},
                pool.seq(rest, node.tail),
            )
        if node.kind is Kind.REPEAT and self._begins_in_group(node.head):
            high = node.high - 1 if node.high > 0 else node.high
            again = pool.repeat(node.head, max(node.low - 1, 0), high)
            return self._left(pool.seq(self._filled_part(node.head), again))
        return {}, node

    def _begins_in_group(self, node: Node) -> bool:
        factors, _ = self._left(self._filled_part(node))
        return bool(factors)


def _nullable(node: Node | None) -> bool:
    return node is not None and bool(node.nullable)


def _reached(start: int, following: Callable[[int], list[int]]) -> set[int]:
    seen = {start}
    stack = [start]
    while stack:
        for other in following(stack.pop()):
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def _rules_used(pool: Pool, roots: Iterable[Node], wanted: set[int]) -> set[int]:
    """Which of some rules expressions use, other than through those rules themselves."""
    found: set[int] = set()
    stack = list(roots)
    seen = {node.id for node in stack}
    while stack:
        node = stack.pop()
        parts: tuple[Node, ...] = node.parts
        if node.kind is Kind.REF:
            if node.low in wanted:
                found.add(node.low)
                continue
            parts = (pool.body(node),)
        elif node.kind is Kind.SEQ:
            parts = (node.head, node.tail)
        elif node.kind not in (Kind.ALT, Kind.AND):
            parts = (node.head, *node.parts)
        for part in parts:
            if part.id not in seen:
                seen.add(part.id)
                stack.append(part)
    return found
