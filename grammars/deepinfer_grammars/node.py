"""The nodes of byte expressions; made and normalised by `expr.Pool` only."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

ALL_BYTES = (1 << 256) - 1


class Kind(IntEnum):
    """What a node is."""

    NEVER = 0
    EPSILON = 1
    BYTES = 2
    SEQ = 3
    ALT = 4
    REPEAT = 5
    AND = 6
    NOT = 7
    REF = 8
    GREEDY = 9
    TAIL = 10
    LAZY = 11


class Node:
    """One expression; made by a `Pool` only, compared by identity.

    Attributes:
        id: Creation index; children always have smaller ids than their parents.
        kind: What the node is.
        mask: `BYTES`: the accepted bytes as a 256-bit integer.
        head: `SEQ`: first part (never a `SEQ`); `REPEAT`, `NOT`, `GREEDY`: the operand; `LAZY`:
            an expression whose shortest match is as long as its own.
        tail: `SEQ`: the rest; `LAZY`: the body, once made.
        parts: `ALT`, `AND`: the operands; `LAZY`: what its body may use.
        low: `REPEAT`: fewest repetitions; `REF`: the rule index.
        high: `REPEAT`: most repetitions, or -1 for unbounded.
        nullable: Whether the empty text matches; None while it depends on an undefined rule.
        open_end: Whether a `GREEDY` terminal may still be growing at the end.
        build: `LAZY`: makes the body.
        moves: The derivative by every byte, once computed: disjoint (mask, node) pairs.
    """

    __slots__ = (
        "build",
        "head",
        "high",
        "id",
        "kind",
        "low",
        "mask",
        "moves",
        "nullable",
        "open_end",
        "parts",
        "tail",
    )

    def __init__(self, node_id: int, kind: Kind) -> None:
        self.id = node_id
        self.kind = kind
        self.mask = 0
        self.head: Node = self
        self.tail: Node = self
        self.parts: tuple[Node, ...] = ()
        self.low = 0
        self.high = 0
        self.nullable: bool | None = False
        self.open_end = False
        self.build: Callable[[], Node] | None = None
        self.moves: tuple[tuple[int, Node], ...] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind.name} #{self.id}>"
