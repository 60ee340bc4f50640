"""The derivative by a single byte, for following one text where all 256 would cost too much."""

from __future__ import annotations

from .derivative import moves
from .expr import Pool
from .node import Kind, Node

_DIRECT = {Kind.SEQ, Kind.ALT, Kind.REF, Kind.REPEAT, Kind.AND, Kind.NOT}


def byte_step(pool: Pool, node: Node, byte: int) -> Node:
    """What is left of `node` after one byte; the same as the derivative by every byte says.

    Args:
        pool: The grammar's expressions, without growing terminals (they look at what follows).
        node: An expression.
        byte: The byte.
    """
    try:
        return _step(pool, node, byte)
    except RecursionError:  # the other way keeps a stack of its own
        return _known_step(pool, node, byte)


def _step(pool: Pool, node: Node, byte: int) -> Node:
    kind = node.kind
    if node.moves is not None or (kind not in _DIRECT and kind is not Kind.BYTES):
        return _known_step(pool, node, byte)
    if kind is Kind.BYTES:
        return pool.epsilon if node.mask >> byte & 1 else pool.never
    if kind is Kind.SEQ:
        found = []
        while node.kind is Kind.SEQ:
            after = _step(pool, node.head, byte)
            if after.kind is not Kind.NEVER:
                found.append(pool.seq(after, node.tail))
            if not node.head.nullable:
                break
            node = node.tail
        else:
            found.append(_step(pool, node, byte))
        return found[0] if len(found) == 1 else pool.alt(found)
    if kind is Kind.ALT:
        return pool.alt([_step(pool, part, byte) for part in node.parts])
    if kind is Kind.REF:
        return _step(pool, pool.body(node), byte)
    if kind is Kind.REPEAT:
        after = _step(pool, node.head, byte)
        if after.kind is Kind.NEVER:
            return after
        high = node.high - 1 if node.high > 0 else node.high
        return pool.seq(after, pool.repeat(node.head, max(node.low - 1, 0), high))
    if kind is Kind.AND:
        return pool.all_of([_step(pool, part, byte) for part in node.parts])
    return pool.complement(_step(pool, node.head, byte))


def _known_step(pool: Pool, node: Node, byte: int) -> Node:
    for mask, target in moves(pool, node):
        if mask >> byte & 1:
            return target
    return pool.never
