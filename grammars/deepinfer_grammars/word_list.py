"""The texts of an expression that is a plain list of words."""

from __future__ import annotations

from .node import Kind, Node

_MOST_WORDS = 2_000
_LONGEST = 200


def words_of(node: Node) -> list[bytes] | None:
    """All texts of an expression; None if they are too many, or it is more than choices of them."""
    found: list[bytes] = []
    stack = [(b"", node)]
    while stack:
        text, rest = stack.pop()
        head, tail = (rest.head, rest.tail) if rest.kind is Kind.SEQ else (rest, None)
        if len(found) + len(stack) > _MOST_WORDS or len(text) > _LONGEST:
            return None
        if head.kind is Kind.BYTES:
            mask = head.mask
            while mask:
                longer = text + bytes(((mask & -mask).bit_length() - 1,))
                mask &= mask - 1
                if tail is None:
                    found.append(longer)
                else:
                    stack.append((longer, tail))
        elif head.kind is Kind.EPSILON:
            found.append(text)
        elif head.kind is Kind.ALT and tail is None:
            stack.extend((text, part) for part in head.parts)
        else:
            return None
    return found
