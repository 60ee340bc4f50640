r"""Lexer terminals: the text that Python's `re.match` takes at a place, as an expression.

Most terminals are such that every match is found first (`[a-z]\w*`, `"[^"]*"`): then maximal munch
over the plain expression is exact. The others (lazy repeats, `a|ab`, lookaheads, lookbehinds)
become an automaton of prioritised threads, written as rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ConstraintTooLarge, SchemaNotSupported
from .expr import Pool
from .node import Node
from .regex import regex_node
from .regex_syntax import Parser
from .regex_threads import END, UNKNOWN, Thread, Threads
from .regex_tree import Chars, Choice, Repeat, Sequence, Tree
from .utf8 import Ranges, char_set, intersect, normalise

_MOST_STATES = 2_000

_State = tuple[tuple[Thread, ...], int]


def terminal_node(pool: Pool, pattern: str) -> Node:
    r"""What `re.match(pattern)` takes, where the next byte cannot go on with it.

    A text that is a match only before certain others (`a\B`) is left out.

    Args:
        pool: Where to build.
        pattern: A pattern of Python's `re`.

    Raises:
        InvalidConstraint: Malformed; `position` says where.
        SchemaNotSupported: Not regular, may be empty, or depends on text outside of the match.
        ConstraintTooLarge: Too long, nested too deeply, or too many states.
    """
    tree = Parser(pattern, "python").parse()
    if _found_first(tree) is not None:
        node = regex_node(pool, pattern, dialect="python")
    else:
        automaton = _FirstMatch(pool, tree)
        if automaton.longest:
            node = regex_node(pool, pattern, dialect="python")
        else:
            node = automaton.node()
    if node.nullable:
        raise SchemaNotSupported(
            "it may be empty",
            hint="Make it match something and the place where it is used optional",
        )
    return pool.greedy(node)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Facts about a part that decide whether what follows it could be taken for more of it."""

    empty: bool
    first: Ranges
    more: Ranges  # characters that can continue a complete match


def _found_first(tree: Tree) -> _Shape | None:
    """The shape of a pattern where no text can be read in two ways; None if that is not certain."""
    if isinstance(tree, Chars):
        return _Shape(False, tree.ranges, ())
    if isinstance(tree, Sequence):
        return _sequence_shape(tree)
    if isinstance(tree, Choice):
        return _choice_shape(tree)
    if isinstance(tree, Repeat) and not tree.lazy:
        part = _found_first(tree.item)
        if part is None or part.empty or (tree.high != 1 and intersect(part.more, part.first)):
            return None
        more = [*part.more, *_if(tree.high != tree.low, part.first)]
        return _Shape(tree.low == 0, part.first, normalise(more))
    return None


def _sequence_shape(tree: Sequence) -> _Shape | None:
    whole = _Shape(True, (), ())
    for item in tree.items:
        part = _found_first(item)
        if part is None or intersect(whole.more, part.first):
            return None
        if whole.empty and intersect(whole.first, part.first):
            return None
        more = [*part.more, *_if(part.empty, part.first), *_if(part.empty, whole.more)]
        first = [*whole.first, *_if(whole.empty, part.first)]
        whole = _Shape(whole.empty and part.empty, normalise(first), normalise(more))
    return whole


def _choice_shape(tree: Choice) -> _Shape | None:
    letters = [option.ranges for option in tree.options if isinstance(option, Chars)]
    if len(letters) == len(tree.options):
        return _Shape(False, normalise(pair for ranges in letters for pair in ranges), ())
    shapes = [_found_first(option) for option in tree.options]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or any(shape.empty for shape in known[:-1]):
        return None
    first = normalise(pair for shape in known for pair in shape.first)
    if sum(_size(shape.first) for shape in known) != _size(first):
        return None  # two options can begin with the same character
    more = normalise(pair for shape in known for pair in shape.more)
    return _Shape(known[-1].empty, first, more)


def _if(wanted: bool, ranges: Ranges) -> Ranges:
    return ranges if wanted else ()


def _size(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


class _FirstMatch:
    """The automaton of prioritised threads of one pattern.

    Attributes:
        longest: Whether every match is found first and nothing around it matters.
    """

    def __init__(self, pool: Pool, tree: Tree) -> None:
        self._pool = pool
        self._threads = Threads(tree)
        self._ends: list[bool] = []
        self._targets: list[dict[int, int]] = []  # class -> state, or -1: may not follow here
        self._explore()
        forbidden = any(-1 in targets.values() for targets in self._targets)
        self.longest = not (forbidden or self._threads.cut or self._threads.sees_around)

    def _explore(self) -> None:
        threads = self._threads
        start: _State = (threads.start(), UNKNOWN)
        numbers: dict[_State, int] = {start: 0}
        queue: list[_State] = [start]
        for state in queue:
            running, last = state
            at_end = threads.step(running, last, END).matched
            targets: dict[int, int] = {}
            for char_class in range(len(threads.classes)):
                step = threads.step(running, last, char_class)
                if step.threads:
                    after: _State = (step.threads, threads.before(char_class))
                    if after not in numbers:
                        if len(numbers) >= _MOST_STATES:
                            raise ConstraintTooLarge(
                                f"it needs more than {_MOST_STATES} states",
                                hint="Avoid overlapping alternatives beside large counted repeats",
                            )
                        numbers[after] = len(numbers)
                        queue.append(after)
                    targets[char_class] = numbers[after]
                elif at_end and not step.matched:
                    targets[char_class] = -1
            self._ends.append(at_end)
            self._targets.append(targets)
        if not any(self._ends):
            raise SchemaNotSupported(
                "it must be followed by a certain text", hint="Move that text into the rule"
            )

    def node(self) -> Node:
        """The automaton as rules, one for each state."""
        pool = self._pool
        states = [pool.rule("terminal state") for _ in self._ends]
        dead = pool.rule("end of a terminal")
        pool.define(dead, pool.never)
        for number, targets in enumerate(self._targets):
            classes: dict[int, list[tuple[int, int]]] = {}
            for char_class, target in targets.items():
                classes.setdefault(target, []).extend(self._threads.classes[char_class])
            parts = [
                pool.seq(char_set(pool, ranges), dead if target < 0 else states[target])
                for target, ranges in classes.items()
            ]
            pool.define(states[number], pool.alt([*parts, *[pool.epsilon] * self._ends[number]]))
        if self._ends[0]:
            return pool.epsilon
        return states[0]
