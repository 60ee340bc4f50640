"""Derivatives: what is left of an expression after one byte, for all 256 bytes at once.

Brzozowski derivatives (1964) in the partitioned form of Owens, Reppy and Turon (2009): a node maps
to disjoint (byte mask, derivative) pairs, memoised on the node. Evaluation uses an explicit stack,
so the length of a chain of optional parts or rules cannot exhaust Python's.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import EmptyConstraint, SchemaNotSupported
from .expr import Pool
from .left_recursion import remove_left_recursion
from .node import ALL_BYTES, Kind, Node

Moves = tuple[tuple[int, Node], ...]


def finish_rules(pool: Pool, root: Node) -> None:
    """Settle `nullable` of every node once all rules are defined, and rewrite left recursion.

    Args:
        pool: The grammar's pool; every rule reachable from `root` must be defined.
        root: The start expression.

    Raises:
        EmptyConstraint: A used rule was never defined.
        SchemaNotSupported: Left recursion that cannot be rewritten.
    """
    reachable = reachable_nodes(pool, root)
    pending = [node for node in pool.nodes if node.nullable is None and node.id in reachable]
    # Least fixpoint: start from "no rule is nullable"; what changes is passed on to its users.
    users: dict[Node, list[Node]] = {}
    for node in pending:
        node.nullable = False
        for child in _children(pool, node):
            users.setdefault(child, []).append(node)
    while pending:
        node = pending.pop()
        if not node.nullable and _nullable(pool, node):
            node.nullable = True
            pending += users.get(node, ())
    groups = _left_recursive(pool, root)
    if groups:
        remove_left_recursion(pool, groups, root)
        left = _left_recursive(pool, root)
        if left:
            cycle = " -> ".join(pool.rule_names[index] for index in left[0])
            raise SchemaNotSupported(
                f"the left recursion of {cycle} cannot be rewritten",
                hint="Rewrite left recursion as repetition, e.g. expr: term (op term)*",
            )
    for node in pool.nodes:
        if node.kind is Kind.ALT:
            node.open_end = any(part.open_end for part in node.parts)
        elif node.kind is Kind.SEQ:
            head_open = node.head.open_end and bool(node.tail.nullable)
            node.open_end = node.tail.open_end or head_open


def reachable_nodes(pool: Pool, root: Node) -> set[int]:
    """Ids of the nodes that `root` consists of, through rule bodies."""
    seen = {root.id}
    stack = [root]
    while stack:
        for child in _children(pool, stack.pop()):
            if child.id not in seen:
                seen.add(child.id)
                stack.append(child)
    return seen


def _children(pool: Pool, node: Node) -> Iterable[Node]:
    kind = node.kind
    if kind is Kind.SEQ:
        return (node.head, node.tail)
    if kind in (Kind.ALT, Kind.AND):
        return node.parts
    if kind in (Kind.REPEAT, Kind.NOT, Kind.GREEDY):
        return (node.head,)
    if kind is Kind.REF:
        return (pool.body(node),)
    if kind is Kind.LAZY:
        return (node.head, *node.parts)
    return ()


def _nullable(pool: Pool, node: Node) -> bool:
    kind = node.kind
    if kind is Kind.SEQ:
        return bool(node.head.nullable and node.tail.nullable)
    if kind is Kind.ALT:
        return any(part.nullable for part in node.parts)
    if kind is Kind.AND:
        return all(part.nullable for part in node.parts)
    if kind is Kind.REPEAT:
        return node.low == 0 or bool(node.head.nullable)
    if kind is Kind.NOT:
        # Complements are taken of rule-free expressions only, so this is never reached early.
        raise SchemaNotSupported("the complement of a recursive rule cannot be enforced")
    if kind in (Kind.GREEDY, Kind.LAZY):
        return bool(node.head.nullable)
    if kind is Kind.REF:
        return bool(pool.body(node).nullable)
    return bool(node.nullable)


def _needed(pool: Pool, node: Node) -> list[Node]:
    """The nodes whose moves are combined into the moves of `node`."""
    kind = node.kind
    if kind is Kind.SEQ:
        head = node.head
        if head.kind is Kind.BYTES:
            return []
        first = head.head if head.kind is Kind.GREEDY else head
        return [first, node.tail] if head.nullable else [first]
    if kind is Kind.REF:
        return [pool.body(node)]
    if kind in (Kind.ALT, Kind.AND):
        return list(node.parts)
    if kind in (Kind.REPEAT, Kind.NOT, Kind.GREEDY):
        return [node.head]
    if kind is Kind.LAZY:
        if node.tail is node and node.build is not None:
            node.tail = node.build()
        return [node.tail]
    return []


def _left_recursive(pool: Pool, root: Node) -> list[list[int]]:
    """Groups of rules that reach each other before consuming a byte (Tarjan 1972, no recursion)."""
    reachable = reachable_nodes(pool, root)
    rules = [node.low for node in pool.nodes if node.kind is Kind.REF and node.id in reachable]
    edges = {index: _left_corners(pool, index) for index in rules}
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_rules: list[int] = []
    place: dict[int, int] = {}  # of a rule in open_rules
    groups: list[list[int]] = []
    for first in rules:
        if first in number:
            continue
        path = [(first, iter(edges[first]))]
        number[first] = lowest[first] = len(number)
        place[first] = len(open_rules)
        open_rules.append(first)
        while path:
            rule, rest = path[-1]
            child = next(rest, None)
            if child is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[rule])
                if lowest[rule] == number[rule]:
                    at = place.pop(rule)
                    group = open_rules[at:]
                    del open_rules[at:]
                    for done in group:
                        place.pop(done, None)
                    if len(group) > 1 or rule in edges[rule]:
                        groups.append(group)
            elif child not in number:
                number[child] = lowest[child] = len(number)
                place[child] = len(open_rules)
                open_rules.append(child)
                path.append((child, iter(edges[child])))
            elif child in place:
                lowest[rule] = min(lowest[rule], number[child])
    return groups


def _left_corners(pool: Pool, index: int) -> list[int]:
    """Rules with which the body of a rule may begin."""
    body = pool.rule_bodies[index]
    found: dict[int, None] = {}
    stack = [] if body is None else [body]
    seen = {node.id for node in stack}
    while stack:
        node = stack.pop()
        if node.kind is Kind.REF:
            found[node.low] = None
            continue
        if node.kind is Kind.LAZY:  # never begins with a rule
            continue
        for need in _needed(pool, node):
            if need.id not in seen:
                seen.add(need.id)
                stack.append(need)
    return list(found)


def moves(pool: Pool, node: Node) -> Moves:
    """All derivatives of `node`: disjoint (byte mask, node) pairs without `NEVER`."""
    if node.moves is not None:
        return node.moves
    stack = [node]
    while stack:
        top = stack[-1]
        if top.moves is not None:
            stack.pop()
            continue
        missing = [need for need in _needed(pool, top) if need.moves is None]
        if missing:
            stack.extend(missing)
            continue
        top.moves = _combine(pool, top)
        stack.pop()
    result = node.moves
    if result is None:
        raise EmptyConstraint(f"no derivative of {node!r}")
    return result


def _known(node: Node) -> Moves:
    return node.moves or ()


def _combine(pool: Pool, node: Node) -> Moves:
    kind = node.kind
    if kind is Kind.BYTES:
        return ((node.mask, pool.epsilon),)
    if kind is Kind.SEQ:
        return _seq_moves(pool, node)
    if kind is Kind.ALT:
        return merge(pool, [pair for part in node.parts for pair in _known(part)])
    if kind is Kind.REF:
        return _known(pool.body(node))
    if kind is Kind.LAZY:
        return _known(node.tail)
    if kind is Kind.REPEAT:
        high = node.high - 1 if node.high > 0 else node.high
        rest = pool.repeat(node.head, max(node.low - 1, 0), high)
        if node.low <= 1 and node.high == -1:
            rest = pool.repeat(node.head, 0, -1)
        return _group((mask, pool.seq(after, rest)) for mask, after in _known(node.head))
    if kind is Kind.AND:
        result = _known(node.parts[0])
        for part in node.parts[1:]:
            result = tuple(
                (both, pool.all_of((left, right)))
                for mask, left in result
                for other, right in _known(part)
                if (both := mask & other)
            )
        return _group(result)
    if kind is Kind.NOT:
        covered = 0
        pairs = []
        for mask, after in _known(node.head):
            covered |= mask
            pairs.append((mask, pool.complement(after)))
        if covered != ALL_BYTES:
            pairs.append((ALL_BYTES ^ covered, pool.anything))
        return _group(pairs)
    if kind is Kind.GREEDY:
        return _group((mask, pool.greedy(after)) for mask, after in _known(node.head))
    return ()


def _seq_moves(pool: Pool, node: Node) -> Moves:
    head, tail = node.head, node.tail
    if head.kind is Kind.BYTES:
        return ((head.mask, tail),)
    if head.kind is Kind.GREEDY:
        grown = [(m, pool.seq(pool.greedy(after), tail)) for m, after in _known(head.head)]
        if head.nullable:
            extending = 0
            for mask, _ in grown:
                extending |= mask
            grown += [(m & ~extending, after) for m, after in _known(tail) if m & ~extending]
        return _group(grown)
    if not head.nullable:
        return _group((mask, pool.seq(after, tail)) for mask, after in _known(head))
    pairs = [(mask, pool.seq(after, tail)) for mask, after in _known(head)]
    pairs.extend(_known(tail))
    return merge(pool, pairs)


def _group(pairs: Iterable[tuple[int, Node]]) -> Moves:
    """Unite the masks of equal targets of already disjoint pairs and drop dead ones."""
    by_target: dict[Node, int] = {}
    for mask, target in pairs:
        if target.kind is not Kind.NEVER:
            by_target[target] = by_target.get(target, 0) | mask
    return tuple((mask, target) for target, mask in by_target.items())


def merge(pool: Pool, pairs: list[tuple[int, Node]]) -> Moves:
    """Make overlapping (mask, node) pairs disjoint; where they overlap the targets unite."""
    cells: list[tuple[int, list[Node]]] = []
    covered = 0
    for mask, target in pairs:
        if not mask & covered:
            cells.append((mask, [target]))
            covered |= mask
            continue
        rest = mask & ~covered
        split: list[tuple[int, list[Node]]] = []
        for cell_mask, targets in cells:
            both = cell_mask & mask
            if not both:
                split.append((cell_mask, targets))
                continue
            if both != cell_mask:
                split.append((cell_mask ^ both, targets))
            split.append((both, [*targets, target]))
        if rest:
            split.append((rest, [target]))
        cells = split
        covered |= mask
    return _group((mask, pool.alt(targets)) for mask, targets in cells)
