"""Repeats with anchors or lookaheads inside, written without them.

What an iteration may be then depends on the text around it. So the whole pattern becomes a
deterministic automaton, over letters that stand for sets of characters that nothing in the pattern
tells apart, and the automaton an expression again, by removing its states one by one (Kleene 1956;
Brzozowski and McCluskey 1963). The result is an ordinary expression: it can be intersected and
complemented like any other.
"""

from __future__ import annotations

from collections.abc import Callable

from .derivative import finish_rules, moves
from .errors import ConstraintTooLarge, SchemaNotSupported
from .expr import Pool
from .node import Node
from .regex_before import NEWLINE, partition, word_sets
from .regex_tree import Anchor, Behind, Chars, Choice, Look, Repeat, Sequence, Tree
from .utf8 import Ranges, contains, normalise

LOOP_LIMIT = 64  # copies of a part with places that are written out
_MOST_LETTERS = 256
_MOST_STATES = 2_000
_MOST_REMOVED = 150
_MOST_NODES = 50_000


def has_loop_with_places(tree: Tree) -> bool:
    """Whether an unbounded repeat has an anchor, lookahead or lookbehind inside."""
    stack = [(tree, False)]
    while stack:
        node, looped = stack.pop()
        if isinstance(node, Anchor | Look | Behind):
            if looped:
                return True
            if isinstance(node, Look):
                stack.append((node.item, False))
        elif isinstance(node, Repeat):
            single = isinstance(node.item, Anchor | Look | Behind)
            stack.append((node.item, looped or (node.high < 0 and not single)))
        elif isinstance(node, Sequence):
            stack += [(item, looped) for item in node.items]
        elif isinstance(node, Choice):
            stack += [(option, looped) for option in node.options]
    return False


class Letters:
    """One byte for each set of characters that nothing in a pattern tells apart.

    Args:
        tree: The pattern.

    Attributes:
        groups: The characters of each letter.
        mask: The bytes that are letters.

    Raises:
        ConstraintTooLarge: There are more than 256 sets.
    """

    def __init__(self, tree: Tree) -> None:
        sets: dict[Ranges, None] = {NEWLINE: None}
        stack = [tree]
        while stack:
            node = stack.pop()
            if isinstance(node, Chars | Behind):
                sets[node.ranges] = None
            elif isinstance(node, Anchor):
                sets.update(dict.fromkeys(word_sets(node)))
            elif isinstance(node, Repeat | Look):
                stack.append(node.item)
            else:
                stack += node.items if isinstance(node, Sequence) else node.options
        self.groups = partition(tuple(sets))
        if len(self.groups) > _MOST_LETTERS:
            raise ConstraintTooLarge(
                f"a pattern with an anchor or lookahead inside a repeat tells {len(self.groups)} "
                f"kinds of characters apart; at most {_MOST_LETTERS} work"
            )
        self.mask = (1 << len(self.groups)) - 1

    def encode(self, pool: Pool, ranges: Ranges) -> Node:
        """One letter out of those whose characters are in `ranges`."""
        held = (contains(ranges, group[0][0]) for group in self.groups)
        return pool.byte_set(sum(1 << letter for letter, inside in enumerate(held) if inside))

    def characters(self, mask: int) -> Ranges:
        """The characters of a set of letters."""
        held = [group for letter, group in enumerate(self.groups) if mask >> letter & 1]
        return normalise(pair for group in held for pair in group)


def without_places(
    scratch: Pool, root: Node, letters: Letters, encode: Callable[[Ranges], Node], pool: Pool
) -> Node:
    """An expression over letters as one over characters that has no rules and intersections.

    Args:
        scratch: The pool of `root`.
        root: The expression; its loops are rules.
        letters: The letters.
        encode: How a set of characters is written in `pool`.
        pool: Where to build.

    Raises:
        SchemaNotSupported: A loop with places stands inside of a negative lookahead.
        ConstraintTooLarge: The automaton has too many states.
    """
    try:
        finish_rules(scratch, root)
    except SchemaNotSupported:
        raise SchemaNotSupported(
            "a repeat with an anchor or lookahead inside stands in a negative lookahead"
        ) from None
    states = [root]
    numbers = {root: 0}
    edges: list[dict[int, int]] = []  # state -> target -> letters
    for state in states:
        targets: dict[int, int] = {}
        for bytes_of, after in moves(scratch, state):
            mask = bytes_of & letters.mask
            if not mask:
                continue
            if after not in numbers:
                if len(states) >= _MOST_STATES or len(scratch.nodes) > 50 * _MOST_STATES:
                    raise _too_many()
                numbers[after] = len(states)
                states.append(after)
            targets[numbers[after]] = targets.get(numbers[after], 0) | mask
        edges.append(targets)
    block, edges, final = _smallest(edges, [bool(state.nullable) for state in states])
    return _removed(pool, edges, final, block, lambda mask: encode(letters.characters(mask)))


def _smallest(
    edges: list[dict[int, int]], final: list[bool]
) -> tuple[int, list[dict[int, int]], list[bool]]:
    """The start, edges and ends of the smallest automaton with the same texts (Moore 1956)."""
    live = [*final]
    changed = True
    while changed:
        changed = False
        for state, targets in enumerate(edges):
            if not live[state] and any(live[target] for target in targets):
                live[state] = changed = True
    blocks = [int(end) for end in final]
    count = len(set(blocks))
    while True:
        names: dict[tuple[object, ...], int] = {}
        refined = []
        for state, targets in enumerate(edges):
            ways: dict[int, int] = {}
            for target, mask in targets.items():
                if live[target]:
                    ways[blocks[target]] = ways.get(blocks[target], 0) | mask
            refined.append(names.setdefault((blocks[state], *sorted(ways.items())), len(names)))
        blocks = refined
        if len(names) == count:
            break
        count = len(names)
    merged: list[dict[int, int]] = [{} for _ in range(count)]
    ends = [False] * count
    for state, targets in enumerate(edges):
        block = blocks[state]
        ends[block] = final[state]
        if live[state] and not merged[block]:
            for target, mask in targets.items():
                if live[target]:
                    merged[block][blocks[target]] = merged[block].get(blocks[target], 0) | mask
    return blocks[0], merged, ends


def _removed(
    pool: Pool,
    edges: list[dict[int, int]],
    final: list[bool],
    start: int,
    written: Callable[[int], Node],
) -> Node:
    """The texts from `start` to an end, with the states removed one after the other."""
    if len(edges) > _MOST_REMOVED:
        raise _too_many()
    end = len(edges)
    ways: dict[int, dict[int, Node]] = {
        state: {target: written(mask) for target, mask in targets.items()}
        for state, targets in enumerate(edges)
    }
    for state, accepts in enumerate(final):
        if accepts:
            ways[state][end] = pool.epsilon
    begin = end + 1
    ways[begin] = {start: pool.epsilon}
    before = len(pool.nodes)
    left = set(range(len(edges)))
    while left:
        into = {state: [s for s in ways if s != state and state in ways[s]] for state in left}
        # What has few ways in and out adds the least.
        state = min(left, key=lambda s: (len(into[s]) * len(ways[s]), s))
        left.discard(state)
        out = ways.pop(state)
        loop = pool.repeat(out.pop(state, pool.never), 0)
        for earlier in into[state]:
            first = pool.seq(ways[earlier].pop(state), loop)
            for target, second in out.items():
                known = ways[earlier].get(target, pool.never)
                ways[earlier][target] = pool.alt((known, pool.seq(first, second)))
        if len(pool.nodes) - before > _MOST_NODES:
            raise _too_many()
    return ways[begin].get(end, pool.never)


def _too_many() -> ConstraintTooLarge:
    return ConstraintTooLarge(
        "a repeat with an anchor or lookahead inside leads to too many states",
        hint="Move the anchor or lookahead out of the repeat, or use smaller counts",
    )
