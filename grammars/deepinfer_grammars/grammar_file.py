"""Compiled grammars as bytes, so that a large one is compiled once.

A grammar with expressions that are made on demand cannot be written.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable

from .digest import PLAIN_KINDS
from .disk_cache import DiskCache
from .distance import Distance
from .expr import Pool
from .grammar import Grammar
from .node import Kind, Node

_NULLABLE = (False, True, None)
_ALONE = {Kind.NEVER: "never", Kind.EPSILON: "eps", Kind.TAIL: "tail"}


def stored_grammar(cache: DiskCache, name: bytes, make: Callable[[], Grammar]) -> Grammar:
    """The grammar of a name, from the cache or compiled and kept there.

    Args:
        cache: Where to look.
        name: All that the grammar depends on: front end, source and options.
        make: Compiles it.

    Raises:
        GrammarError: It could not be compiled.
    """
    data = cache.read(b"grammar " + name)
    if data is not None:
        grammar = read_grammar(data, lambda pool: make().build(pool))
    else:
        grammar = make()
        written = write_grammar(grammar)
        if written is not None:
            cache.write(b"grammar " + name, written)
    grammar.stored_as = name
    return grammar


def write_grammar(grammar: Grammar) -> bytes | None:
    """The expressions that a grammar is made of; None if some are made on demand."""
    pool = grammar.pool
    with grammar.lock:
        nodes = _reachable(pool, grammar.root)
        if any(node.kind not in PLAIN_KINDS for node in nodes):
            return None
        number = {node: index for index, node in enumerate(nodes)}
        records = [
            (
                int(node.kind),
                node.mask,
                -1 if node.head is node else number[node.head],
                -1 if node.tail is node else number[node.tail],
                tuple([number[part] for part in node.parts]),
                node.low,
                node.high,
                _NULLABLE.index(node.nullable),
                node.open_end,
            )
            for node in nodes
        ]
        bodies = [-1 if body is None else number[body] for body in pool.rule_bodies]
        root, names = number[grammar.root], [str(name) for name in pool.rule_names]
        known = grammar.distance.known(nodes)
        return marshal.dumps((str(grammar.kind), root, names, bodies, records, known))


def read_grammar(data: bytes, build: Callable[[Pool], Node]) -> Grammar:
    """The grammar that was written, with the way to build it into another pool."""
    kind, root, rule_names, rule_bodies, records, distances = marshal.loads(data)
    pool = Pool()
    nodes: list[Node] = []
    kinds = list(Kind)
    for index, (code, mask, _, _, _, low, high, nullable, open_end) in enumerate(records):
        node = Node(index, kinds[code])
        node.mask = mask
        node.low = low
        node.high = high
        node.nullable = _NULLABLE[nullable]
        node.open_end = open_end
        nodes.append(node)
    for node, (_, _, head, tail, parts, *_) in zip(nodes, records, strict=True):
        if head >= 0:
            node.head = nodes[head]
        if tail >= 0:
            node.tail = nodes[tail]
        if parts:
            node.parts = tuple([nodes[part] for part in parts])
    pool.adopt({_key(node): node for node in nodes})
    pool.rule_names = rule_names
    pool.rule_bodies = [None if body < 0 else nodes[body] for body in rule_bodies]
    pool.budget.compiled()
    return Grammar.restored(build, kind, nodes[root], pool, Distance.restored(pool, distances))


def _reachable(pool: Pool, root: Node) -> list[Node]:
    """The expressions of a grammar in the order of their age; the pool's own come first."""
    seen = {pool.never, pool.epsilon, pool.tail_mark, pool.anything}
    stack = [root, *[body for body in pool.rule_bodies if body is not None]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.parts)
            stack.extend(part for part in (node.head, node.tail) if part is not node)
    return sorted(seen, key=lambda node: node.id)


def _key(node: Node) -> tuple[object, ...]:
    """What identifies a node within its pool."""
    kind = node.kind
    if kind is Kind.BYTES:
        return ("bytes", node.mask)
    if kind is Kind.SEQ:
        return ("seq", node.head.id, node.tail.id)
    if kind is Kind.REPEAT:
        return ("repeat", node.head.id, node.low, node.high)
    if kind in (Kind.ALT, Kind.AND):
        return ("alt" if kind is Kind.ALT else "and", *[part.id for part in node.parts])
    if kind in (Kind.NOT, Kind.GREEDY):
        return ("not" if kind is Kind.NOT else "greedy", node.head.id)
    return ("ref", node.low) if kind is Kind.REF else (_ALONE[kind],)
