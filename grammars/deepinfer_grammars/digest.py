"""Digests of expressions, to find them again in other grammars.

A digest covers the whole of an expression, with the rules it refers to. Only expressions whose
rules are small have one, because rules may refer to each other in circles. Equal expressions may
have different digests if they were built in another order; different ones never share one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from .expr import Pool
from .growing import growing
from .node import Kind, Node

_MOST_NODES = 160
PLAIN_KINDS = {
    Kind.NEVER, Kind.EPSILON, Kind.BYTES, Kind.SEQ, Kind.ALT, Kind.REPEAT, Kind.AND, Kind.NOT,
    Kind.REF, Kind.GREEDY, Kind.TAIL,
}  # fmt: skip


class Digests:
    """Digests of the expressions of one grammar.

    Args:
        pool: The grammar's expressions, with its rules defined.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[Node, bytes | None] = {}
        self._rules: dict[int, bytes | None] = {}

    def __call__(self, node: Node) -> bytes | None:
        """16 bytes; None for an expression with large rules."""
        known = self._known
        if node in known:
            return known[node]
        _evaluate(node, known, self._rule)
        return known[node]

    def _rule(self, index: int) -> bytes | None:
        """The digest of a rule: its body and those of the rules it leads to, written in order."""
        if index in self._rules:
            return self._rules[index]
        self._rules[index] = None
        numbers = {index: 0}
        seen: dict[Node, int] = {}
        written: list[object] = []
        for rule in growing(numbers):
            body = self._pool.rule_bodies[rule]
            stack = [] if body is None else [body]
            while stack:
                node = stack.pop()
                if node in seen:
                    written.append(seen[node])
                    continue
                seen[node] = len(seen)
                parts = _parts(node)
                written += (int(node.kind), node.mask, node.low, node.high, len(parts), b";")
                if node.kind is Kind.REF:
                    if node.low != index and self._rules.get(node.low, b"") is None:
                        return None
                    written[-4] = numbers.setdefault(node.low, len(numbers))
                if node.kind not in PLAIN_KINDS or len(seen) > _MOST_NODES:
                    return None
                stack.extend(parts)
        text = repr(written).encode()
        self._rules[index] = hashlib.blake2b(text, digest_size=16).digest()
        return self._rules[index]


def _evaluate(
    root: Node, known: dict[Node, bytes | None], rule: Callable[[int], bytes | None]
) -> None:
    """Digests of `root` and its parts, bottom-up, into `known`."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        parts = _parts(node)
        missing = [part for part in parts if part not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if node.kind not in PLAIN_KINDS:
            known[node] = None
            continue
        digests = [rule(node.low)] if node.kind is Kind.REF else [known[part] for part in parts]
        present = [digest for digest in digests if digest is not None]
        if len(present) < len(digests):
            known[node] = None
            continue
        if node.kind in (Kind.ALT, Kind.AND):
            present.sort()  # in a pool, they are sorted by age
        own = b"%d %d %d %d " % (
            node.kind, node.mask,
            *((node.low, node.high) if node.kind is Kind.REPEAT else (0, 0)),
        )  # fmt: skip
        known[node] = hashlib.blake2b(own + b"".join(present), digest_size=16).digest()


def _parts(node: Node) -> tuple[Node, ...]:
    if node.kind is Kind.SEQ:
        return (node.head, node.tail)
    if node.kind in (Kind.ALT, Kind.AND):
        return node.parts
    if node.kind in (Kind.REPEAT, Kind.NOT, Kind.GREEDY):
        return (node.head,)
    return ()
