"""How far an expression is from the end of a match, in bytes.

The distance decides two things: an expression is live exactly if its distance is finite, and a
generation with few tokens left may only go where the distance still fits. Sequences, choices and
counted repeats compose; intersections, complements and growing terminals do not, and are settled by
an A* search over derivatives with the composed bound as heuristic.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from .derivative import moves
from .errors import ConstraintTooLarge
from .expr import Pool
from .node import ALL_BYTES, Kind, Node

UNREACHABLE = 1 << 40
_FEW_PARTS = 8  # of an intersection that is searched for the very shortest match


class Distance:
    """Fewest bytes from an expression to the end of a match.

    Args:
        pool: The grammar's pool, with `finish_rules` done.
        alphabet: 256-bit mask of the bytes that may be used.
        max_search: Most expressions one search may open.

    Raises:
        ConstraintTooLarge: A search needed more than `max_search` expressions.
    """

    def __init__(self, pool: Pool, alphabet: int = ALL_BYTES, *, max_search: int = 100_000) -> None:
        self._pool = pool
        self._alphabet = alphabet
        self._max_search = max_search
        self._composed: dict[Node, int] = {}
        self._exact: dict[Node, int] = {}
        self._rules = [UNREACHABLE] * len(pool.rule_bodies)
        self._settled = False
        self._munch = any(node.kind is Kind.GREEDY for node in pool.nodes)
        self._settle_rules()

    def known(self, nodes: Sequence[Node]) -> tuple[list[int], list[int]]:
        """Distances of rules and, where they are known, of nodes (else -1), for `restored`."""
        return self._rules, [self._composed.get(node, -1) for node in nodes]

    @classmethod
    def restored(cls, pool: Pool, known: tuple[list[int], list[int]]) -> Distance:
        """The distances that were `known` of a pool's nodes and rules."""
        bodies, pool.rule_bodies = pool.rule_bodies, []
        distance = cls(pool)
        pool.rule_bodies = bodies
        distance._rules = known[0]
        pairs = zip(pool.nodes, known[1], strict=True)
        distance._composed = {node: value for node, value in pairs if value >= 0}
        return distance

    @property
    def composes(self) -> bool:
        """Whether the distance of a sequence is the sum over its parts (no growing terminals)."""
        return not self._munch

    def __call__(self, node: Node) -> int:
        """Fewest bytes that complete `node`; `UNREACHABLE` if nothing does."""
        known = self._composed.get(node)
        value = self._compose(node) if known is None else known
        if not self._munch or value >= UNREACHABLE:
            return value
        exact = self._exact.get(node)
        return self._search(node, self._exact) if exact is None else exact

    def _settle_rules(self) -> None:
        """Settle all nodes of all rules, nearest first, so that each is evaluated once (Knuth).

        Intersections and complements of rule-free parts are searched when they come up. Those that
        contain rules wait until nothing else is left.
        """
        bodies = [body for body in self._pool.rule_bodies if body is not None]
        users, waiting = self._uses(bodies)
        heap: list[tuple[int, int]] = []  # (distance, id of the node)
        late: list[Node] = []
        for node in waiting:
            if node.kind in (Kind.AND, Kind.NOT) and not node.nullable:
                if _rules_in(node):
                    late.append(node)
                else:
                    heapq.heappush(heap, (self._compose(node), node.id))
            elif not self._settling(node):
                heapq.heappush(heap, (self._combine(node, []), node.id))
        final = self._composed
        settled: set[Node] = set()
        while heap or late:
            if not heap:
                node = late.pop()
                heapq.heappush(heap, (self._compose(node), node.id))
            value, number = heapq.heappop(heap)
            node = self._pool.nodes[number]
            if node in settled or value >= UNREACHABLE:
                continue
            settled.add(node)
            final[node] = value
            for user in users.get(node, ()):
                waiting[user] -= 1
                if user.kind is Kind.REF:
                    self._rules[user.low] = value
                elif waiting[user] and user.kind is not Kind.ALT:
                    continue
                if user not in settled:
                    values = [final.get(n, UNREACHABLE) for n in self._settling(user)]
                    heapq.heappush(heap, (self._combine(user, values), user.id))
        for node in waiting:
            final.setdefault(node, UNREACHABLE)
        for index, body in enumerate(self._pool.rule_bodies):
            if body is not None:
                self._rules[index] = final[body]
        self._settled = True

    def _uses(self, bodies: list[Node]) -> tuple[dict[Node, list[Node]], dict[Node, int]]:
        """Which nodes are evaluated from which, and of how many each."""
        users: dict[Node, list[Node]] = {}
        waiting: dict[Node, int] = {}
        stack = list(bodies)
        while stack:
            node = stack.pop()
            if node in waiting:
                continue
            operands = self._settling(node)
            waiting[node] = len(operands)
            for operand in operands:
                users.setdefault(operand, []).append(node)
            stack.extend(operands)
        return users, waiting

    def _settling(self, node: Node) -> tuple[Node, ...]:
        """What the distance of a node is combined from; nothing where it is known or searched."""
        if node.kind is Kind.REF:
            body = self._pool.rule_bodies[node.low]
            return () if body is None else (body,)
        if node.kind is Kind.AND or (node.kind is Kind.REPEAT and not node.low):
            return ()
        return _operands(node)

    def _compose(self, root: Node) -> int:
        """Evaluate bottom-up, with a stack; values that rest on open rules are not kept."""
        composed = self._composed
        local: dict[Node, int] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            if node in composed or node in local:
                stack.pop()
                continue
            operands = _operands(node)
            missing = [n for n in operands if n not in composed and n not in local]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            values = [composed[n] if n in composed else local[n] for n in operands]
            value = self._combine(node, values)
            final = self._settled or (
                node.kind is not Kind.REF and not any(n in local for n in operands)
            )
            (composed if final else local)[node] = value
        return composed[root] if root in composed else local[root]

    def _combine(self, node: Node, values: list[int]) -> int:
        kind = node.kind
        if kind is Kind.BYTES:
            return 1 if node.mask & self._alphabet else UNREACHABLE
        if kind is Kind.SEQ:
            return min(values[0] + values[1], UNREACHABLE)
        if kind is Kind.ALT:
            return min(values)
        if kind is Kind.REPEAT:
            return min(node.low * values[0], UNREACHABLE) if node.low else 0
        if kind in (Kind.GREEDY, Kind.LAZY):
            return values[0]
        if kind is Kind.REF:
            return self._rules[node.low]
        if kind is Kind.NEVER:
            return UNREACHABLE
        if kind in (Kind.AND, Kind.NOT) and not node.nullable:
            if values and max(values) >= UNREACHABLE:
                return UNREACHABLE
            if len(node.parts) > _FEW_PARTS:
                return self._descend(node)
            return self._search(node, self._composed)
        return 0

    def _descend(self, start: Node) -> int:
        """A short match of an intersection of many parts, straight down the sum of their distances.

        The states between such parts are as many as their subsets, too many for a search. The
        next step depends on the expression only, so that every step brings the end one nearer,
        whoever asked first. Where no step is nearer, the search decides.
        """
        path = [start]
        while True:
            node = path[-1]
            nearest: tuple[int, int, Node] | None = None
            for mask, target in moves(self._pool, node):
                usable = mask & self._alphabet
                if usable:
                    first = (usable & -usable).bit_length()
                    step = (self._sum(target), first, target)
                    nearest = step if nearest is None else min(nearest, step, key=_by_distance)
            if nearest is None or nearest[0] >= self._sum(node):
                value = self._search(node, self._composed)
                break
            node = nearest[2]
            many = node.kind is Kind.AND and len(node.parts) > _FEW_PARTS
            if node in self._composed or not (many or _begins_with_byte(node)):
                value = self._compose(node) + 1
                break
            if node.nullable:
                value = 1
                break
            path.append(node)
        for node in reversed(path):
            self._composed[node] = value
            value += 1
        return value - 1

    def _sum(self, node: Node) -> int:
        """An estimate: the sum over the parts of an intersection."""
        total = 0
        while _begins_with_byte(node):
            total += 1
            node = node.tail
        if node.nullable:
            return total
        parts = node.parts if node.kind is Kind.AND else (node,)
        return min(total + sum(self._compose(part) for part in parts), UNREACHABLE)

    def _bound(self, node: Node) -> int:
        """A cheap lower bound for the search."""
        total = 0
        while _begins_with_byte(node):
            total += 1
            node = node.tail
        known = self._composed.get(node)
        if known is not None:
            return total + known
        if node.nullable:
            return total
        if node.kind is Kind.AND:
            return total + max(self._bound(part) for part in node.parts)
        if node.kind is Kind.ALT:
            return total + min(self._bound(part) for part in node.parts)
        if node.kind is Kind.NOT or (node.kind is Kind.SEQ and node.head.kind is Kind.AND):
            return total + 1
        return total + self._compose(node)

    def _search(self, start: Node, known: dict[Node, int]) -> int:
        """A* from `start` to the nearest end; distances along the path go into `known`."""
        cost = {start: 0}
        parent: dict[Node, Node] = {}
        heap: list[tuple[int, int, int, Node]] = [(self._bound(start), 0, start.id, start)]
        closed: set[Node] = set()
        most_nodes = len(self._pool.nodes) + 5 * self._max_search
        while heap:
            estimate, negative_cost, _, node = heapq.heappop(heap)
            if node in closed:
                continue
            closed.add(node)
            steps = -negative_cost
            rest = 0 if node.nullable else known.get(node)
            if rest is not None:
                if rest < UNREACHABLE:
                    total = steps + rest
                    while True:
                        known[node] = total - cost[node]
                        if node is start:
                            return total
                        node = parent[node]
                continue
            if estimate >= UNREACHABLE:
                continue
            if len(closed) > self._max_search or len(self._pool.nodes) > most_nodes:
                raise ConstraintTooLarge(
                    f"more than {self._max_search} steps were needed to find the shortest match",
                    hint="Simplify the intersection, complement or terminal, or bound its length",
                )
            for mask, target in moves(self._pool, node):
                if not mask & self._alphabet:
                    continue
                if steps + 1 < cost.get(target, UNREACHABLE):
                    cost[target] = steps + 1
                    parent[target] = node
                    ahead = known.get(target)
                    if ahead is None:
                        ahead = self._bound(target)
                    if ahead < UNREACHABLE:
                        heapq.heappush(heap, (steps + 1 + ahead, -steps - 1, target.id, target))
        for node in closed:
            known[node] = UNREACHABLE
        return UNREACHABLE


def _begins_with_byte(node: Node) -> bool:
    return node.kind is Kind.SEQ and node.head.kind is Kind.BYTES


def _by_distance(step: tuple[int, int, Node]) -> tuple[int, int]:
    return step[:2]


def _operands(node: Node) -> tuple[Node, ...]:
    kind = node.kind
    if kind is Kind.SEQ:
        return (node.head, node.tail)
    if kind in (Kind.ALT, Kind.AND):
        return node.parts
    if kind in (Kind.REPEAT, Kind.GREEDY, Kind.LAZY):
        return (node.head,)
    return ()


def _rules_in(body: Node) -> set[int]:
    found: set[int] = set()
    seen = {body}
    stack = [body]
    while stack:
        node = stack.pop()
        if node.kind is Kind.REF:
            found.add(node.low)
        for child in _operands(node):
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return found
