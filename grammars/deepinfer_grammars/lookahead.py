"""What a token can see of an expression: the part of it that decides which tokens fit."""

from __future__ import annotations

from .distance import Distance
from .expr import Pool
from .node import Kind, Node


def shorten(pool: Pool, distance: Distance, node: Node, reach: int) -> tuple[Node, int]:
    """What a token of at most `reach` bytes can see of `node`, and the distance cut away.

    Counters larger than `reach` are clamped and what lies further away is replaced by a mark. Two
    expressions with the same result allow the same tokens, and every distance behind a token
    differs by the returned amount.
    """
    if not distance.composes:
        return node, 0
    if node.kind is Kind.REPEAT:
        return _clamp(pool, distance, node, reach)
    if node.kind is not Kind.SEQ or is_narrow(node):
        return node, 0  # few ways on: the walk is cheaper than the comparison
    spine: list[Node] = []
    extra = 0
    while node.kind is Kind.SEQ and reach > 0:
        head, cut = _clamp(pool, distance, node.head, reach)
        spine.append(head)
        extra += cut
        # What the head must consume keeps the tail out of sight.
        reach -= distance(node.head)
        node = node.tail
    last, cut = _clamp(pool, distance, node, reach)
    if reach <= 0:
        last, cut = pool.tail_mark, distance(node)
    return pool.seq(*spine, last), extra + cut


def _clamp(pool: Pool, distance: Distance, node: Node, reach: int) -> tuple[Node, int]:
    """A counted repeat with its counters clamped to `reach`, and the distance cut away."""
    unit = distance(node.head) if node.kind is Kind.REPEAT else 0
    if not unit:
        return node, 0
    low = min(node.low, reach)
    high = -1 if node.high > reach else node.high
    return pool.repeat(node.head, low, high), (node.low - low) * unit


def is_narrow(node: Node) -> bool:
    """Whether a few bytes are the only way on."""
    node = node.head if node.kind is Kind.SEQ else node
    return node.kind is Kind.BYTES and node.mask.bit_count() <= 4
