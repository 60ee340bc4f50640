"""What a token can see of an expression: the part of it that decides which tokens fit."""

from __future__ import annotations

from .distance import Distance
from .expr import Pool
from .node import Kind, Node

_FEW_BYTES = 4


class Lookahead:
    """Expressions of one grammar as tokens of limited length see them.

    Args:
        pool: The grammar's expressions.
        distance: Their distances.
        reach: Bytes of the longest token.
    """

    def __init__(self, pool: Pool, distance: Distance, reach: int) -> None:
        self._pool = pool
        self._distance = distance
        self._reach = reach
        self._known: dict[tuple[Node, int], tuple[Node, int]] = {}

    def __call__(self, node: Node) -> tuple[Node, int]:
        """What a token can see of `node`, and the distance cut away.

        Counters larger than the reach are clamped and what lies further away is replaced by a
        mark. Two expressions with the same result allow the same tokens, and every distance behind
        a token differs by the returned amount.
        """
        if not self._distance.composes:
            return node, 0
        if node.kind is not Kind.SEQ:
            return self._clamped(node, self._reach)
        if is_narrow(node):
            return node, 0  # few ways on: the walk is cheaper than the comparison
        return self._shortened(node, self._reach)

    def _shortened(self, node: Node, reach: int) -> tuple[Node, int]:
        known = self._known
        heads: list[tuple[Node, int]] = []
        while (result := known.get((node, reach))) is None:
            if reach <= 0:
                result = (self._pool.tail_mark, self._distance(node))
            elif node.kind is not Kind.SEQ:
                result = self._clamped(node, reach)
            else:
                heads.append((node, reach))
                # What the head must consume keeps the tail out of sight.
                reach = max(0, reach - self._distance(node.head))
                node = node.tail
                continue
            known[node, reach] = result
            break
        for whole, within in reversed(heads):
            head, cut = self._clamped(whole.head, within)
            result = (self._pool.seq(head, result[0]), cut + result[1])
            known[whole, within] = result
        return result

    def _clamped(self, node: Node, reach: int) -> tuple[Node, int]:
        """A counted repeat with its counters clamped to `reach`, and the distance cut away."""
        unit = self._distance(node.head) if node.kind is Kind.REPEAT else 0
        if not unit or (node.low <= reach and node.high <= reach):
            return node, 0
        low = min(node.low, reach)
        high = -1 if node.high > reach else node.high
        return self._pool.repeat(node.head, low, high), (node.low - low) * unit


def is_narrow(node: Node) -> bool:
    """Whether a few bytes are the only way on."""
    node = node.head if node.kind is Kind.SEQ else node
    return node.kind is Kind.BYTES and node.mask.bit_count() <= _FEW_BYTES
