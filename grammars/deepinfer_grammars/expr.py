"""Hash-consed expressions over bytes: the one notation that every front end compiles to.

A `Pool` builds nodes through smart constructors that normalise, so that equal expressions are the
same object and derivatives stay few. Sequences are right-nested, which makes a sequence a stack:
the head is being matched, the tail is what comes after it. A `REF` to a rule at the head enters
the rule and leaves the tail as its continuation, so recursion needs no second mechanism.
This module knows nothing about tokens, JSON or regular expression syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .errors import EmptyConstraint
from .limits import Budget, current_limits
from .node import ALL_BYTES, Kind, Node
from .normal_form import all_known, any_known, touching_spans


class Pool:
    """Owns the nodes and rules of one grammar and builds them in normal form.

    Attributes:
        memo: What front ends have built already, by keys of their own.
        size: Expressions so far; one of many parts counts as many, as it takes as long to make.
    """

    def __init__(self) -> None:
        self.budget = Budget(current_limits())
        self.nodes: list[Node] = []
        self.size = 0
        self.memo: dict[tuple[object, ...], Node] = {}
        self._interned: dict[tuple[object, ...], Node] = {}
        self.rule_names: list[str] = []
        self.rule_bodies: list[Node | None] = []
        self.never = self._make(("never",), Kind.NEVER)
        self.epsilon = self._make(("eps",), Kind.EPSILON)
        self.epsilon.nullable = True
        self.tail_mark = self._make(("tail",), Kind.TAIL)
        self.anything = self._make(("not", self.never.id), Kind.NOT)
        self.anything.head = self.never
        self.anything.nullable = True

    def _make(self, key: tuple[object, ...], kind: Kind) -> Node:
        if self.size >= self.budget.check_at:
            self.budget.check(self.size)
        node = Node(len(self.nodes), kind)
        self.size += max(1, len(key) - 3)
        self.nodes.append(node)
        self._interned[key] = node
        return node

    def adopt(self, interned: dict[tuple[object, ...], Node]) -> None:
        """Take the nodes of another pool as they are; the first four are every pool's own."""
        self._interned = interned
        self.nodes = list(interned.values())
        self.size = sum(max(1, len(key) - 3) for key in interned)
        self.never, self.epsilon, self.tail_mark, self.anything = self.nodes[:4]

    # -- leaves -------------------------------------------------------------------------------

    def byte_set(self, mask: int) -> Node:
        """One byte out of `mask` (bit b set means byte b is accepted)."""
        if not mask:
            return self.never
        key = ("bytes", mask)
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.BYTES)
            node.mask = mask
        return node

    def byte_range(self, first: int, last: int) -> Node:
        """One byte from `first` to `last`, both included."""
        return self.byte_set((1 << (last + 1)) - (1 << first))

    def literal(self, text: bytes | str) -> Node:
        """Exactly these bytes (a str is taken as UTF-8)."""
        data = text.encode() if isinstance(text, str) else text
        node = self.epsilon
        for byte in reversed(data):
            node = self._pair(self.byte_set(1 << byte), node)
        return node

    def words(self, texts: Iterable[bytes | str]) -> Node:
        """One of many literals, as a trie with shared suffixes; linear in the total length."""
        data = sorted({t.encode() if isinstance(t, str) else t for t in texts})
        if not data:
            return self.never
        # Sorted words enter the trie along the rightmost path only, so finished branches can be
        # turned into (hash-consed, hence suffix-shared) nodes as soon as a word leaves them.
        ends: list[bool] = [False]
        branches: list[dict[int, Node]] = [{}]
        path = b""

        def close(depth: int) -> None:
            while len(branches) > depth + 1:
                node = self._trie_node(branches.pop(), ends.pop())
                branches[-1][path[len(branches) - 1]] = node

        for word in data:
            common = 0
            while common < min(len(word), len(path)) and word[common] == path[common]:
                common += 1
            close(common)
            path = word
            for _ in range(common, len(word)):
                branches.append({})
                ends.append(False)
            ends[-1] = True
        close(0)
        return self._trie_node(branches[0], ends[0])

    def _trie_node(self, children: dict[int, Node], end: bool) -> Node:
        by_target: dict[Node, int] = {}
        for byte, target in children.items():
            by_target[target] = by_target.get(target, 0) | 1 << byte
        parts = [self._pair(self.byte_set(mask), target) for target, mask in by_target.items()]
        if end:
            parts.append(self.epsilon)
        if len(parts) == 1:
            return parts[0]
        return self._alternatives(parts)

    # -- combinations -------------------------------------------------------------------------

    def seq(self, *parts: Node) -> Node:
        """The parts one after the other."""
        node = parts[-1] if parts else self.epsilon
        for part in reversed(parts[:-1]):
            node = self._join(part, node)
        return node

    def _join(self, head: Node, tail: Node) -> Node:
        kind = head.kind
        if kind is Kind.NEVER or tail.kind is Kind.NEVER:
            return self.never
        if kind is Kind.EPSILON:
            return tail
        if tail.kind is Kind.EPSILON:
            return head
        if kind is Kind.SEQ:
            spine = []
            while head.kind is Kind.SEQ:
                spine.append(head.head)
                head = head.tail
            node = self._join(head, tail)
            for part in reversed(spine):
                node = self._pair(part, node)
            return node
        if kind is Kind.ALT and head.open_end:
            # A growing terminal must see what follows it to know when it may stop.
            return self.alt([self._join(part, tail) for part in head.parts])
        return self._pair(head, tail)

    def _pair(self, head: Node, tail: Node) -> Node:
        if tail.kind is Kind.EPSILON:
            return head
        if head.kind is Kind.REPEAT:  # r{a,b} r{c,d} = r{a+c,b+d}
            again = tail.head if tail.kind is Kind.SEQ else tail
            if again.kind is Kind.REPEAT and again.head is head.head:
                high = -1 if -1 in (head.high, again.high) else head.high + again.high
                joined = self.repeat(head.head, head.low + again.low, high)
                return self._pair(joined, tail.tail) if tail.kind is Kind.SEQ else joined
        key = ("seq", head.id, tail.id)
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.SEQ)
            node.head = head
            node.tail = tail
            node.nullable = all_known((head.nullable, tail.nullable))
            node.open_end = tail.open_end or (head.open_end and tail.nullable is not False)
        return node

    def alt(self, parts: Iterable[Node]) -> Node:
        """Any one of the parts; common heads are factored out and repeat ranges merged."""
        flat: dict[Node, None] = {}
        mask = 0
        for part in parts:
            for node in part.parts if part.kind is Kind.ALT else (part,):
                if node.kind is Kind.BYTES:
                    mask |= node.mask
                elif node is self.anything:
                    return node
                elif node.kind is not Kind.NEVER:
                    flat[node] = None
        if mask:
            flat[self.byte_set(mask)] = None
        if len(flat) > 1:
            flat = self._factor(flat)
        if not flat:
            return self.never
        if len(flat) == 1:
            return next(iter(flat))
        return self._alternatives(list(flat))

    def _alternatives(self, parts: list[Node]) -> Node:
        parts.sort(key=lambda node: node.id)
        key = ("alt", *[node.id for node in parts])
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.ALT)
            node.parts = tuple(parts)
            node.nullable = any_known(part.nullable for part in parts)
            node.open_end = any(part.open_end for part in parts)
        return node

    def _factor(self, flat: dict[Node, None]) -> dict[Node, None]:
        """H t1 | h t2 -> h (t1 | t2), and r{a,b} t | r{c,d} t -> r{min,max} t where they touch."""
        by_head: dict[Node, list[Node]] = {}
        for node in flat:
            head = node.head if node.kind is Kind.SEQ else node
            by_head.setdefault(head, []).append(node)
        merged = flat
        if len(by_head) < len(flat):
            merged = {}
            for head, group in by_head.items():
                if len(group) == 1:
                    merged[group[0]] = None
                    continue
                tails = [n.tail if n.kind is Kind.SEQ else self.epsilon for n in group]
                merged[self._join(head, self.alt(tails))] = None
        by_body: dict[tuple[Node, Node], list[Node]] = {}
        for node in merged:
            head, tail = (node.head, node.tail) if node.kind is Kind.SEQ else (node, self.epsilon)
            if head.kind is Kind.REPEAT:
                by_body.setdefault((head.head, tail), []).append(node)
        for (body, tail), group in by_body.items():
            if len(group) == 1 and not (tail in merged and group[0] is not tail):
                continue
            spans = [
                (n.head.low, n.head.high) if n.kind is Kind.SEQ else (n.low, n.high) for n in group
            ]
            if tail in merged:  # zero repetitions
                spans.append((0, 0))
                group = [*group, tail]
            if body in merged and tail is self.epsilon:
                spans.append((1, 1))
                group = [*group, body]
            joined = touching_spans(spans)
            if len(joined) < len(spans):
                for node in group:
                    merged.pop(node, None)
                for low, high in joined:
                    merged[self._join(self.repeat(body, low, high), tail)] = None
        return merged

    def repeat(self, body: Node, low: int, high: int = -1) -> Node:
        """`low` to `high` copies of `body` (-1: no upper bound); counted, never unrolled."""
        if high == 0 or (high > 0 and high < low):
            return self.epsilon if low == 0 and high == 0 else self.never
        if body.kind is Kind.EPSILON:
            return self.epsilon
        if body.kind is Kind.NEVER:
            return self.epsilon if low == 0 else self.never
        if low == 1 and high == 1:
            return body
        if body is self.anything:
            return self.anything
        if body.kind is Kind.REPEAT and body.high == -1 and body.low <= 1 and low <= 1:
            if high == -1 or low == body.low:
                return self.repeat(body.head, min(low, body.low), -1)
            return self.repeat(body.head, 0, -1)
        key = ("repeat", body.id, low, high)
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.REPEAT)
            node.head = body
            node.low = low
            node.high = high
            node.nullable = True if low == 0 else body.nullable
        return node

    def optional(self, body: Node) -> Node:
        """`body` or nothing."""
        return self.alt((body, self.epsilon))

    def all_of(self, parts: Iterable[Node]) -> Node:
        """Texts that match every part. The parts must not contain a recursive rule."""
        flat: dict[Node, None] = {}
        mask = ALL_BYTES
        for part in parts:
            for node in part.parts if part.kind is Kind.AND else (part,):
                if node.kind is Kind.BYTES:
                    mask &= node.mask
                if node.kind is Kind.NEVER or not mask:
                    return self.never
                if node.kind is not Kind.BYTES and node is not self.anything:
                    flat[node] = None
        if mask != ALL_BYTES:
            flat[self.byte_set(mask)] = None
        nodes = list(flat)
        if not nodes:
            return self.anything
        if len(nodes) == 1:
            return nodes[0]
        if any(n.kind is Kind.NOT and n.head in flat for n in nodes):
            return self.never
        if self.epsilon in flat:
            known = all_known(n.nullable for n in nodes)
            if known is not None:
                return self.epsilon if known else self.never
        prefix: list[Node] = []
        while all(n.kind is Kind.SEQ and n.head.kind is Kind.BYTES for n in nodes):
            head = ALL_BYTES
            for node in nodes:
                head &= node.head.mask
            if not head:
                return self.never
            prefix.append(self.byte_set(head))
            nodes = [node.tail for node in nodes]
        if prefix:
            return self.seq(*prefix, self.all_of(nodes))
        nodes.sort(key=lambda node: node.id)
        key = ("and", *[node.id for node in nodes])
        result = self._interned.get(key)
        if result is None:
            result = self._make(key, Kind.AND)
            result.parts = tuple(nodes)
            result.nullable = all_known(node.nullable for node in nodes)
        return result

    def complement(self, body: Node) -> Node:
        """Every byte text that does not match `body`; use it inside `all_of`."""
        if body.kind is Kind.NOT:
            return body.head
        key = ("not", body.id)
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.NOT)
            node.head = body
            node.nullable = None if body.nullable is None else not body.nullable
        return node

    def greedy(self, body: Node) -> Node:
        """A lexer terminal: while the next byte can extend it, it may not end (maximal munch)."""
        if body.kind in (Kind.NEVER, Kind.EPSILON, Kind.GREEDY):
            return body
        key = ("greedy", body.id)
        node = self._interned.get(key)
        if node is None:
            node = self._make(key, Kind.GREEDY)
            node.head = body
            node.nullable = body.nullable
            node.open_end = True
        return node

    def lazy(
        self,
        key: tuple[object, ...],
        like: Node,
        build: Callable[[], Node],
        uses: tuple[Node, ...] = (),
    ) -> Node:
        """An expression whose body is made when its first derivative is asked for.

        So sets of states that grow exponentially, such as members in any order, are only built
        where a text goes.

        Args:
            key: What identifies the expression within this pool.
            like: An expression with the same shortest match length and nullability.
            build: Makes the body; it must not begin with a rule.
            uses: Expressions that the body, or what it leads to, may contain.
        """
        node = self._interned.get(("lazy", *key))
        if node is None:
            node = self._make(("lazy", *key), Kind.LAZY)
            node.head = like
            node.parts = uses
            node.nullable = like.nullable
            node.build = build
        return node

    # -- rules --------------------------------------------------------------------------------

    def rule(self, name: str) -> Node:
        """Declare a rule and return the reference to it; `define` gives it its body."""
        index = len(self.rule_bodies)
        self.rule_names.append(name)
        self.rule_bodies.append(None)
        node = self._make(("ref", index), Kind.REF)
        node.low = index
        node.nullable = None
        return node

    def define(self, ref: Node, body: Node) -> None:
        """Give the rule behind `ref` its body, once."""
        if ref.kind is not Kind.REF or self.rule_bodies[ref.low] is not None:
            raise ValueError(f"{ref!r} is not an undefined rule")
        self.rule_bodies[ref.low] = body

    def body(self, ref: Node) -> Node:
        """The body of the rule behind `ref`."""
        body = self.rule_bodies[ref.low]
        if body is None:
            raise EmptyConstraint(f"rule {self.rule_names[ref.low]!r} is used but never defined")
        return body
