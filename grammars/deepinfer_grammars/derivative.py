"""Derivatives: what is left of an expression after one byte, for all 256 bytes at once.

Brzozowski derivatives (1964) in the partitioned form of Owens, Reppy and Turon (2009): a node maps
to disjoint (byte mask, derivative) pairs, memoised on the node. Evaluation uses an explicit stack,
so the length of a chain of optional parts or rules cannot exhaust Python's.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import EmptyConstraint, SchemaNotSupported
from .expr import ALL_BYTES, Kind, Node, Pool

Moves = tuple[tuple[int, Node], ...]


def finish_rules(pool: Pool, root: Node) -> None:
    """Settle `nullable` of every node once all rules are defined, and refuse left recursion.

    Args:
        pool: The grammar's pool; every rule reachable from `root` must be defined.
        root: The start expression.

    Raises:
        EmptyConstraint: A used rule was never defined.
        SchemaNotSupported: A rule can reach itself before consuming a byte.
    """
    reachable = reachable_nodes(pool, root)
    pending = [node for node in pool.nodes if node.nullable is None and node.id in reachable]
    # Least fixpoint: start from "no rule is nullable" and raise until nothing changes.
    for node in pending:
        node.nullable = False
    changed = True
    while changed:
        changed = False
        for node in pending:
            if not node.nullable and _nullable(pool, node):
                node.nullable = True
                changed = True
    for node in pool.nodes:
        if node.kind in (Kind.SEQ, Kind.ALT) and node.id in reachable:
            node.open_end = (
                any(part.open_end for part in node.parts)
                if node.kind is Kind.ALT
                else node.tail.open_end or (node.head.open_end and bool(node.tail.nullable))
            )
    _refuse_left_recursion(pool, root)


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
    if kind is Kind.GREEDY:
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
    return []


def _refuse_left_recursion(pool: Pool, root: Node) -> None:
    done: set[int] = set()
    for index, body in enumerate(pool.rule_bodies):
        if body is None:
            continue
        path: list[tuple[Node, list[Node]]] = [(body, _needed(pool, body))]
        active = {body.id}
        while path:
            node, rest = path[-1]
            if not rest:
                path.pop()
                active.discard(node.id)
                done.add(node.id)
                continue
            child = rest.pop()
            if child.id in active:
                names = [pool.rule_names[n.low] for n, _ in path if n.kind is Kind.REF]
                if child.kind is Kind.REF:
                    start = next(i for i, (n, _) in enumerate(path) if n is child)
                    names = [pool.rule_names[n.low] for n, _ in path[start:] if n.kind is Kind.REF]
                cycle = " -> ".join([*names, names[0]]) if names else pool.rule_names[index]
                raise SchemaNotSupported(
                    f"the rule {cycle} refers to itself before consuming any text",
                    hint="Rewrite left recursion as repetition, e.g. expr: term (op term)*",
                )
            if child.id not in done:
                active.add(child.id)
                path.append((child, _needed(pool, child)))


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
