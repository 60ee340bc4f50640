"""The tree of a parsed regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .utf8 import Ranges

AnchorKind = Literal["start", "end", "line_start", "line_end", "word", "no_word"]


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
    """`low` to `high` copies, -1 for any number."""

    item: Tree
    low: int
    high: int
    position: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the text."""

    kind: AnchorKind


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead."""

    item: Tree
    negative: bool


Tree = Chars | Sequence | Choice | Repeat | Anchor | Look


@dataclass(frozen=True, slots=True)
class Flags:
    """Inline flags in force."""

    ignore_case: bool = False
    dot_all: bool = False
    multiline: bool = False
    verbose: bool = False
    charset: Literal["common", "ascii", "unicode"] = "common"
