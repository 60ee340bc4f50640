"""The bytes with which the texts of an expression may begin."""

from __future__ import annotations

from .expr import Pool
from .node import ALL_BYTES, Kind, Node


class FirstBytes:
    """First bytes of the expressions of one grammar.

    Args:
        pool: The grammar's expressions, with its rules defined.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[Node, int] = {}

    def __call__(self, node: Node) -> int:
        """256-bit mask that holds the first byte of every text, and maybe more."""
        known = self._known.get(node)
        if known is None:
            self._known[node] = ALL_BYTES  # for a rule that begins with itself
            try:
                known = self._known[node] = self._combined(node)
            except RecursionError:
                known = ALL_BYTES
        return known

    def _combined(self, node: Node) -> int:
        kind = node.kind
        if kind is Kind.BYTES:
            return node.mask
        if kind is Kind.SEQ:
            mask = 0
            while node.kind is Kind.SEQ:
                mask |= self(node.head)
                if node.head.nullable is False:
                    return mask
                node = node.tail
            return mask | self(node)
        if kind is Kind.ALT:
            mask = 0
            for part in node.parts:
                mask |= self(part)
            return mask
        if kind is Kind.AND:
            mask = ALL_BYTES
            for part in node.parts:
                mask &= self(part)
            return mask
        if kind in (Kind.REPEAT, Kind.GREEDY):
            return self(node.head)
        if kind is Kind.REF:
            return self(self._pool.body(node))
        return 0 if kind in (Kind.EPSILON, Kind.NEVER, Kind.TAIL) else ALL_BYTES
