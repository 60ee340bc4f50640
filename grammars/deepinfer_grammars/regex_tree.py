"""The tree of a parsed regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .utf8 import Ranges

Dialect = Literal["common", "python"]
Charset = Literal["common", "ascii", "unicode", "either"]
AnchorKind = Literal["start", "end", "line_start", "line_end", "last_line_end", "word", "no_word"]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after the other."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options."""

    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` copies, -1 for any number; `lazy` ones prefer few."""

    item: Tree
    low: int
    high: int
    position: int
    lazy: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the text; `charset` says what a word character is.

    ``common``: ASCII and Unicode must both find the place, ``either``: one of them is enough.
    """

    kind: AnchorKind
    charset: Charset = "unicode"


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead."""

    item: Tree
    negative: bool
    position: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A lookbehind at one character."""

    ranges: Ranges
    negative: bool
    position: int


Tree = Chars | Sequence | Choice | Repeat | Anchor | Look | Behind


@dataclass(frozen=True, slots=True)
class Flags:
    """Inline flags in force."""

    ignore_case: bool = False
    dot_all: bool = False
    multiline: bool = False
    verbose: bool = False
    charset: Charset = "common"


def shortest(tree: Tree) -> int:
    """Characters of the shortest text that can match, if every set has a character."""
    if isinstance(tree, Chars):
        return 1
    if isinstance(tree, Sequence):
        return sum(shortest(item) for item in tree.items)
    if isinstance(tree, Choice):
        return min(shortest(option) for option in tree.options)
    return tree.low * shortest(tree.item) if isinstance(tree, Repeat) else 0
