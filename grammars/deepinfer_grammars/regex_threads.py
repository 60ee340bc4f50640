r"""Patterns as prioritised threads: what a backtracking matcher tries, in its order.

Python's `re` does not look for the longest match but takes the first one that it finds: `a|ab` at
"abc" matches "a". A state here is the ordered list of what may still match, as in the Pike virtual
machine (Cox 2009); a thread that has matched hides everything after it. Characters are grouped
into classes that no set of the pattern tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .errors import SchemaNotSupported
from .regex_before import NEWLINE, partition, word_sets
from .regex_tree import Anchor, Behind, Chars, Choice, Look, Repeat, Sequence, Tree
from .utf8 import Ranges, contains

END = -1  # in place of the class of the next character: the text ends
UNKNOWN = -2  # in place of the class of the last character: nothing consumed yet


class Item(NamedTuple):
    """Something to match: a tree by number, with the counts of a repeat under way."""

    tree: int
    low: int = 0  # in a sequence: the part to go on with
    high: int = 0
    empty_so_far: bool = False  # the iteration that ends here has consumed nothing yet
    again: bool = False  # the end of an iteration


Rest = tuple["Item", "Rest"] | tuple[()]
Pending = frozenset[tuple[bool, frozenset[Rest]]]  # lookaheads: negative?, what is left of them
Thread = tuple[Rest, Pending]
_NOTHING: Pending = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """What the next character does: threads that consume it, or the end of the match before it."""

    threads: tuple[Thread, ...]
    matched: bool


class Threads:
    """Runs the threads of one pattern.

    Args:
        tree: The pattern.

    Attributes:
        classes: The characters of each class.
        cut: Whether a thread was hidden behind a match so far.
        sees_around: Whether there are anchors, lookaheads or lookbehinds.
    """

    def __init__(self, tree: Tree) -> None:
        self._trees: list[Tree] = []
        self._parts: list[tuple[int, ...]] = []
        self._sets: list[Ranges] = []
        self.cut = self.sees_around = False
        self._sees_before = False
        self._root = self._number(tree)
        self.classes = partition(tuple(dict.fromkeys(self._sets)))
        self._members: dict[Ranges, frozenset[int]] = {
            ranges: frozenset(
                c for c, own in enumerate(self.classes) if contains(ranges, own[0][0])
            )
            for ranges in self._sets
        }

    def start(self) -> tuple[Thread, ...]:
        """The threads before the first character."""
        return (((Item(self._root), ()), _NOTHING),)

    def before(self, char_class: int) -> int:
        """What to remember of the last character: its class, if the pattern looks back at all."""
        return char_class if self._sees_before else UNKNOWN

    def _number(self, tree: Tree) -> int:
        parts: list[int] = []
        self.sees_around |= isinstance(tree, Anchor | Look | Behind)
        if isinstance(tree, Chars | Behind):
            self._sets.append(tree.ranges)
            self._sees_before |= isinstance(tree, Behind)
        elif isinstance(tree, Anchor):
            self._sees_before = True
            self._sets += [NEWLINE, *word_sets(tree)]
        elif isinstance(tree, Sequence):
            parts = [self._number(item) for item in tree.items]
        elif isinstance(tree, Choice):
            parts = [self._number(item) for item in tree.options]
        else:
            parts = [self._number(tree.item)]
        self._trees.append(tree)
        self._parts.append(tuple(parts))
        return len(self._trees) - 1

    # -- stepping -----------------------------------------------------------------------------

    def step(self, threads: tuple[Thread, ...], last: int, following: int) -> Step:
        """What happens to ordered threads between the characters `last` and `following`.

        Raises:
            SchemaNotSupported: The outcome depends on more than the next character.
        """
        kept: dict[Thread, None] = {}
        seen: set[Thread] = set()
        matched = open_match = False
        for rest, pending in threads:
            left = self._advance(pending, last, following)
            if left is None:
                continue
            for after, waiting in self._expand(rest, left, last, following, seen):
                if after is not None:
                    if matched:
                        self.cut |= (after, waiting) not in kept
                    elif open_match:
                        raise _far_sighted()
                    else:
                        kept[after, waiting] = None
                elif not waiting:
                    matched = True
                elif any(not negative for negative, _ in waiting):
                    raise _far_sighted()
                else:
                    open_match = not matched
        return Step(tuple(kept), matched and not open_match)

    def _advance(self, pending: Pending, last: int, following: int) -> Pending | None:
        """Lookaheads one character on; None if one of them fails."""
        if not pending:
            return pending
        left: set[tuple[bool, frozenset[Rest]]] = set()
        for negative, rests in pending:
            verdict = self._look(negative, rests, last, following)
            if verdict is False:
                return None
            if verdict is not True:
                left.add((negative, verdict))
        return frozenset(left)

    def _look(
        self, negative: bool, rests: frozenset[Rest], last: int, following: int
    ) -> bool | frozenset[Rest]:
        seen: set[Thread] = set()
        left: set[Rest] = set()
        for rest in rests:
            for after, waiting in self._expand(rest, _NOTHING, last, following, seen):
                if waiting:
                    raise SchemaNotSupported("a lookahead stands inside a lookahead")
                if after is None or not after:
                    return not negative
                left.add(after)
        return frozenset(left) if left else negative

    def _expand(
        self, rest: Rest, pending: Pending, last: int, following: int, seen: set[Thread]
    ) -> Iterator[tuple[Rest | None, Pending]]:
        """Ends of the threads out of one, in order: after `following`, or None for a match."""
        stack: list[Thread] = [(rest, pending)]
        while stack:
            thread = stack.pop()
            if thread in seen:
                continue
            seen.add(thread)
            rest, pending = thread
            if not rest:
                yield None, pending
                continue
            item, rest = rest
            tree, parts = self._trees[item.tree], self._parts[item.tree]
            if isinstance(tree, Chars):
                if following in self._members[tree.ranges]:
                    yield _moved(rest), pending
            elif isinstance(tree, Sequence):
                if item.low + 1 < len(parts):
                    rest = (Item(item.tree, item.low + 1), rest)
                stack.append(((Item(parts[item.low]), rest) if parts else rest, pending))
            elif isinstance(tree, Choice):
                stack += [((Item(part), rest), pending) for part in reversed(parts)]
            elif isinstance(tree, Repeat):
                stack += [(way, pending) for way in _ways(item, tree, parts[0], rest)]
            elif isinstance(tree, Look):
                verdict = self._look(
                    tree.negative, frozenset({(Item(parts[0]), ())}), last, following
                )
                if isinstance(verdict, frozenset):
                    stack.append((rest, pending | {(tree.negative, verdict)}))
                elif verdict:
                    stack.append((rest, pending))
            elif self._holds(tree, last, following):
                stack.append((rest, pending))

    def _holds(self, tree: Anchor | Behind, last: int, following: int) -> bool:
        if isinstance(tree, Anchor) and tree.kind in ("end", "last_line_end"):
            raise SchemaNotSupported("the end of the text is asked for")
        if isinstance(tree, Anchor) and tree.kind == "line_end":
            return following == END or following in self._members[NEWLINE]
        if last == UNKNOWN:
            raise SchemaNotSupported("it looks at what stands before it")
        if isinstance(tree, Behind):
            return (last in self._members[tree.ranges]) != tree.negative
        if tree.kind == "line_start":
            return last in self._members[NEWLINE]
        if tree.kind == "start":
            return False
        word = self._members[word_sets(tree)[0]]
        return ((last in word) != (following in word)) == (tree.kind == "word")


def _ways(item: Item, tree: Repeat, body: int, rest: Rest) -> list[Rest]:
    """Ways to go on with a repeat, the preferred one last."""
    low, high = (item.low, item.high) if item.again else (tree.low, tree.high)
    if high == 0:
        return [rest]
    marker = Item(item.tree, max(low - 1, 0), high - 1 if high > 0 else -1, True, True)
    once: Rest = (Item(body), (marker, rest))
    if low > 0:
        return [once]
    if item.again and item.empty_so_far:  # another empty iteration would change nothing
        return [rest]
    return [once, rest] if tree.lazy else [rest, once]


def _moved(rest: Rest) -> Rest:
    """The same, after a character: iterations under way are not empty."""
    if not rest:
        return ()
    item, tail = rest  # as deep as groups are nested
    return (item._replace(empty_so_far=False), _moved(tail))


def _far_sighted() -> SchemaNotSupported:
    return SchemaNotSupported("its end depends on more than the next character")
