"""A compiled grammar: the expression, its rules, and matching of whole texts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .derivative import finish_rules, moves
from .distance import UNREACHABLE, Distance
from .errors import ConstraintTooLarge, EmptyConstraint, InvalidConstraint
from .expr import Pool
from .node import Node

Build = Callable[[Pool], Node]


class Grammar:
    """A set of texts, described by an expression over bytes.

    Args:
        build: Writes the grammar into a fresh pool and returns the start expression.
        kind: What it was compiled from, for messages (``"regex"``, ``"json_schema"``, ...).

    Attributes:
        pool: The nodes and rules; guarded by `lock` once the grammar is shared.
        root: The start expression.
        stored_as: Its name in a cache on disk, if it has one.

    Raises:
        GrammarError: The constraint is malformed, unsupported, too large, or matches nothing.
    """

    def __init__(self, build: Build, kind: str) -> None:
        self.build = build
        self.kind = kind
        self.lock = threading.RLock()
        self.stored_as: bytes | None = None
        self.pool = Pool()
        try:
            self.root = build(self.pool)
            finish_rules(self.pool, self.root)
            self._distance = Distance(self.pool)
            empty = self._distance(self.root) >= UNREACHABLE
            self.pool.budget.compiled()
        except RecursionError:
            raise too_deep(kind) from None
        if empty:
            raise EmptyConstraint(
                f"no text satisfies this {kind} constraint",
                hint="Look for bounds or patterns that contradict each other, or that ask for more "
                "than 2^40 bytes",
            )

    @classmethod
    def restored(
        cls, build: Build, kind: str, root: Node, pool: Pool, distance: Distance
    ) -> Grammar:
        """A grammar whose expressions were compiled before."""
        grammar = object.__new__(cls)
        grammar.build = build
        grammar.kind = kind
        grammar.lock = threading.RLock()
        grammar.pool = pool
        grammar.root = root
        grammar.stored_as = None
        grammar._distance = distance
        return grammar

    @property
    def distance(self) -> Distance:
        """Fewest bytes to the end of a match, if all 256 bytes may be used."""
        return self._distance

    def accepts(self, text: str | bytes) -> bool:
        """Whether the whole text satisfies the constraint."""
        return self.first_error(text) is None

    def first_error(self, text: str | bytes) -> int | None:
        """Byte offset where no valid text can go on; `len` if it ends too early; or None."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        with self.lock:
            node = self.root
            for offset, byte in enumerate(data):
                after = self._after(node, byte)
                if after is None:
                    return offset
                node = after
            return None if node.nullable else len(data)

    def ends(self, data: bytes, start: int = 0) -> list[int]:
        """Offsets, ascending, where a text of the grammar that begins at `start` may end."""
        found: list[int] = []
        with self.lock:
            node: Node | None = self.root
            for offset in range(start, len(data) + 1):
                if node is None:
                    break
                if node.nullable:
                    found.append(offset)
                if offset < len(data):
                    node = self._after(node, data[offset])
        return found

    def _after(self, node: Node, byte: int) -> Node | None:
        """What is left after a byte; None if it does not fit."""
        try:
            for mask, target in moves(self.pool, node):
                if mask >> byte & 1:
                    return target if self._distance(target) < UNREACHABLE else None
        except RecursionError:
            raise too_deep(self.kind) from None
        return None


def too_deep(kind: str) -> ConstraintTooLarge:
    """The error for a constraint that is nested more deeply than Python can follow."""
    return ConstraintTooLarge(
        f"the {kind} constraint is nested too deeply",
        hint="Flatten it, or name the nested parts as definitions",
    )


def compile_choice(options: Sequence[str]) -> Grammar:
    """Exactly one of the given texts.

    Raises:
        EmptyConstraint: There are no options.
        InvalidConstraint: An option holds half a character.
    """
    words = list(options)
    if not words:
        raise EmptyConstraint("a choice needs at least one option")
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidConstraint(
                f"the option {word!r} holds half a character (a lone surrogate)",
                hint="Write the whole character",
            ) from None
    return Grammar(lambda pool: pool.words(words), "choice")


def compile_union(grammars: Sequence[Grammar]) -> Grammar:
    """Any text that one of the grammars accepts.

    Raises:
        EmptyConstraint: There are no grammars.
    """
    if not grammars:
        raise EmptyConstraint("a union needs at least one constraint")
    builds = [grammar.build for grammar in grammars]
    return Grammar(lambda pool: pool.alt([build(pool) for build in builds]), "union")
