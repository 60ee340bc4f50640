"""What places in a pattern look back at: the start of the text, or kinds of the last character.

Characters that no anchor or lookbehind of a pattern tells apart are one kind, so most patterns have
one or two.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from .char_sets import ASCII_WORD, unicode_set
from .regex_tree import Anchor, Behind, Choice, Look, Repeat, Sequence, Tree
from .utf8 import MAX_CODE_POINT, Ranges, contains

NEWLINE: Ranges = ((10, 10),)
START = 0  # the kind of nothing at all


class Before(NamedTuple):
    """What stands before a place.

    Attributes:
        kind: `START`, or 1 + the kind of the last character.
        moved: Whether the iteration under way of the innermost loop has consumed anything.
    """

    kind: int
    moved: bool = True


class Kinds:
    """The kinds of characters that a pattern looks back at.

    Args:
        tree: The pattern.

    Attributes:
        groups: The characters of each kind.
    """

    def __init__(self, tree: Tree) -> None:
        self.groups = partition(tuple(dict.fromkeys(_looked_at(tree))))

    def behind(self, before: Before, ranges: Ranges) -> bool:
        """Whether the last character is one of `ranges`, which the pattern asks for somewhere."""
        return before.kind != START and contains(ranges, self.groups[before.kind - 1][0][0])


def word_sets(anchor: Anchor) -> tuple[Ranges, ...]:
    r"""What a ``\b`` or ``\B`` takes for word characters; both readings if they must agree."""
    sets = {"ascii": (ASCII_WORD,), "unicode": (unicode_set("w"),)}
    return sets.get(anchor.charset, (ASCII_WORD, unicode_set("w")))


@lru_cache(maxsize=64)
def partition(sets: tuple[Ranges, ...]) -> tuple[Ranges, ...]:
    """Characters grouped by which of the sets hold them, the group of the lowest first."""
    cuts = {0, MAX_CODE_POINT + 1}
    cuts.update(edge for ranges in sets for low, high in ranges for edge in (low, high + 1))
    groups: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
    for low, after in pairwise(sorted(cuts)):
        key = tuple(contains(ranges, low) for ranges in sets)
        groups.setdefault(key, []).append((low, after - 1))
    return tuple(tuple(group) for group in groups.values())


def _looked_at(tree: Tree) -> list[Ranges]:
    """The sets of characters that places of a pattern ask for in what stands before them."""
    found: list[Ranges] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Behind):
            found.append(node.ranges)
        elif isinstance(node, Anchor):
            if node.kind == "line_start":
                found.append(NEWLINE)
            elif node.kind in ("word", "no_word"):
                found += word_sets(node)
        elif isinstance(node, Repeat | Look):
            stack.append(node.item)
        elif isinstance(node, Sequence):
            stack += node.items
        elif isinstance(node, Choice):
            stack += node.options
    return found
