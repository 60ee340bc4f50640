"""Objects, from the facts about their members."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .errors import SchemaNotSupported
from .json_facts import Claim, Conjunction, Either, Facts, Members, Text, names_of
from .json_members import MemberTable
from .json_scalars import pattern_node
from .json_text import json_chars, quoted, string_literal
from .node import Node
from .utf8 import ANY_CHAR

if TYPE_CHECKING:
    from .json_schema import SchemaCompiler

_MOST_PATTERNS = 8
_MOST_WITNESSES = 3


def object_node(compiler: SchemaCompiler, facts: Facts) -> Node:
    """An object: the named properties, in the schema's order or any, then further ones."""
    return _Object(compiler, facts).node()


class _Object:
    def __init__(self, compiler: SchemaCompiler, facts: Facts) -> None:
        self._compiler = compiler
        self._pool = compiler.pool
        self._facts = facts
        names = names_of(facts.members)
        names.update(dict.fromkeys(name for name, _ in facts.named))
        names.update(dict.fromkeys(sorted(facts.required - names.keys())))
        names.update(dict.fromkeys(sorted(facts.absent - names.keys())))
        for witness in facts.witnesses:
            if witness.beyond is not None:
                names.update(dict.fromkeys(witness.beyond.schema.get("properties", ())))
        self._names = list(names)
        self._patterns = self._distinct_patterns()

    def node(self) -> Node:
        compiler, facts, pool = self._compiler, self._facts, self._pool
        low, high = facts.count
        if len(facts.witnesses) > _MOST_WITNESSES:
            raise SchemaNotSupported(
                "so many negations of object keywords cannot be enforced together",
                hint="Say what is allowed instead",
                pointer=facts.witnesses[_MOST_WITNESSES].pointer,
            )
        named: dict[str, list[tuple[int, Node]]] = {}
        colon = compiler.layout.mark(pool, ":")
        for name in self._names:
            claims = self._value_of(name)
            if claims is None or compiler.impossible(claims):
                continue
            key = pool.seq(compiler.layout.key(pool, name), colon)
            named[name] = [
                (flags, pool.seq(key, compiler.rule(claims | more)))
                for flags, more in self._witnessing(name)
            ]
        if facts.required - named.keys():
            return pool.never
        extra, last, after = self._extra_members()
        if low > len(facts.required) + 1 and extra is not pool.never:
            raise SchemaNotSupported(
                f"minProperties: {low} cannot be enforced where property names are free: two of "
                "them might be equal",
                hint="Name the properties, or set additionalProperties to false",
                pointer=facts.count_pointer,
            )
        table = MemberTable(
            pool,
            compiler.layout.mark(pool, ","),
            named,
            facts.required,
            extra=extra,
            last=last,
            after=after,
            goal=(1 << len(facts.witnesses)) - 1,
            span=(low, high),
        )
        content = table.shuffled() if compiler.options.shuffled else table.ordered()
        empty = not facts.required and low == 0 and not facts.witnesses
        return compiler.layout.enclose(pool, "{", content, "}", empty=empty)

    # -- named properties ---------------------------------------------------------------------

    def _value_of(self, name: str) -> Conjunction | None:
        """What the value of a property must satisfy; None if it may not be there."""
        if name in self._facts.absent:
            return None
        claims: set[Claim | Either] = {claim for n, claim in self._facts.named if n == name}
        evaluated: set[int] = set()
        for rule in self._facts.members:
            found = self._rule_claims(rule, name)
            if found is None:
                return None
            claims.update(found)
            if self._matches(rule, name) or "additionalProperties" in rule.schema:
                evaluated.add(id(rule))
        claims.update(self._unevaluated(evaluated))
        return frozenset(claims)

    def _rule_claims(self, rule: Members, name: str) -> list[Claim] | None:
        schema = rule.schema
        found = []
        if "propertyNames" in schema:
            names = Claim(rule.place.child("propertyNames"), True, rule.entered)
            if not self._compiler.fits(name, names):
                return None
        if name in schema.get("properties", ()):
            found.append(Claim(rule.place.child("properties", name), True, rule.entered))
        for pattern in schema.get("patternProperties", ()):
            if self._has(pattern, name):
                where = rule.place.child("patternProperties", pattern)
                found.append(Claim(where, True, rule.entered))
        if not self._matches(rule, name) and "additionalProperties" in schema:
            found.append(Claim(rule.place.child("additionalProperties"), True, rule.entered))
        return found

    def _matches(self, rule: Members, name: str) -> bool:
        return name in rule.schema.get("properties", ()) or any(
            self._has(pattern, name) for pattern in rule.schema.get("patternProperties", ())
        )

    def _has(self, pattern: str, name: str) -> bool:
        self._pattern(pattern)  # within the subset that both dialects share
        return re.search(pattern, name) is not None

    def _unevaluated(self, evaluated: set[int]) -> list[Claim]:
        """Claims of `unevaluatedProperties` on a member that these rules evaluate."""
        found = []
        for rule in self._facts.open_members:
            seen = any(
                id(members) in evaluated and rule.scope in members.scopes
                for members in self._facts.members
            )
            inner = any(rule.scope in other.scopes for other in self._facts.open_members)
            if not seen and not inner:
                found.append(rule.claim)
        return found

    def _witnessing(self, name: str) -> list[tuple[int, Conjunction]]:
        """The sets of witnesses that a property can be, with what its value then satisfies."""
        ways: list[tuple[int, Conjunction]] = [(0, frozenset())]
        for index, witness in enumerate(self._facts.witnesses):
            if witness.pattern is not None:
                able = self._has(witness.pattern, name)
            elif witness.beyond is not None:
                able = not self._matches(witness.beyond, name)
            else:
                able = witness.name is not None and self._compiler.fits(name, witness.name)
            if able:
                more = frozenset(() if witness.claim is None else (witness.claim,))
                ways += [(flags | 1 << index, claims | more) for flags, claims in ways]
        return ways

    # -- further properties -------------------------------------------------------------------

    def _distinct_patterns(self) -> dict[str, str]:
        """The name patterns of all rules, each with the pointer of one that has it."""
        patterns: dict[str, str] = {}
        for rule in self._facts.members:
            for pattern in rule.schema.get("patternProperties", ()):
                where = rule.place.child("patternProperties", pattern)
                patterns.setdefault(pattern, where.pointer)
        for witness in self._facts.witnesses:
            if witness.pattern is not None:
                patterns.setdefault(witness.pattern, witness.pointer)
            elif witness.beyond is not None:
                for pattern in witness.beyond.schema.get("patternProperties", ()):
                    patterns.setdefault(pattern, witness.pointer)
        return patterns

    def _pattern(self, pattern: str, *, holds: bool = True) -> Node:
        pointer = self._patterns[pattern]
        return pattern_node(self._pool, Text("pattern", pattern, holds, pointer))

    def _extra_members(self) -> tuple[Node, Node, Node]:
        """Members with any other name.

        Returns:
            Any such member; one that is every witness at once; and one that may come after it
            without undoing it, should it have the same name.
        """
        pool, compiler, facts = self._pool, self._compiler, self._facts
        rules = facts.members
        mentioned = any(
            keyword in rule.schema
            for rule in rules
            for keyword in ("additionalProperties", "patternProperties")
        )
        if not compiler.options.extra_properties and not mentioned and not facts.open_members:
            return pool.never, pool.never, pool.never
        if len(self._patterns) > _MOST_PATTERNS:
            raise SchemaNotSupported(
                f"{len(self._patterns)} patterns of property names cannot be told apart",
                hint="Join patterns that share a schema with |",
                pointer=list(self._patterns.values())[_MOST_PATTERNS],
            )
        names = [pool.repeat(json_chars(pool, ANY_CHAR), 0, -1)]
        if self._names:
            known = pool.alt([string_literal(pool, name) for name in self._names])
            names.append(pool.complement(known))
        for rule in rules:
            if "propertyNames" in rule.schema:
                claim = Claim(rule.place.child("propertyNames"), True, rule.entered)
                names.append(compiler.names(frozenset({claim})))
        patterns = list(self._patterns)
        members: list[Node] = []
        last: list[Node] = []
        after: list[Node] = []
        for chosen in range(1 << len(patterns)):
            matched = {p for i, p in enumerate(patterns) if chosen >> i & 1}
            claims = self._extra_claims(matched)
            if claims is None or compiler.impossible(claims):
                continue
            parts = [self._pattern(pattern, holds=pattern in matched) for pattern in patterns]
            member = self._member([*names, *parts], claims)
            members.append(member)
            if facts.witnesses:
                witness = self._last(matched, [*names, *parts], claims)
                last.append(witness)
                after.append(member if witness is pool.never else witness)
        return pool.alt(members), pool.alt(last), pool.alt(after)

    def _member(self, name_parts: list[Node], claims: Conjunction) -> Node:
        pool, compiler = self._pool, self._compiler
        colon = compiler.layout.mark(pool, ":")
        return pool.seq(quoted(pool, pool.all_of(name_parts)), colon, compiler.rule(claims))

    def _extra_claims(self, matched: set[str]) -> Conjunction | None:
        """What the value of a further property must satisfy, whose name matches these patterns."""
        claims: set[Claim | Either] = set()
        evaluated: set[int] = set()
        for rule in self._facts.members:
            schema = rule.schema
            found = [p for p in schema.get("patternProperties", ()) if p in matched]
            claims.update(
                Claim(rule.place.child("patternProperties", p), True, rule.entered) for p in found
            )
            if found or "additionalProperties" in schema:
                evaluated.add(id(rule))
            if found:
                continue
            if "additionalProperties" in schema:
                claims.add(Claim(rule.place.child("additionalProperties"), True, rule.entered))
            elif "patternProperties" in schema and not self._compiler.options.extra_properties:
                return None
        claims.update(self._unevaluated(evaluated))
        return frozenset(claims)

    def _last(self, matched: set[str], name_parts: list[Node], claims: Conjunction) -> Node:
        """A further property that is the witness, if its name can be one."""
        witnesses = self._facts.witnesses
        if len(witnesses) > 1:
            raise SchemaNotSupported(
                "several negations of keywords on free property names cannot be enforced together",
                hint="Name the properties, or say what is allowed instead",
                pointer=witnesses[1].pointer,
            )
        witness = witnesses[0]
        parts = list(name_parts)
        if witness.pattern is not None and witness.pattern not in matched:
            return self._pool.never
        if witness.beyond is not None and any(
            pattern in matched for pattern in witness.beyond.schema.get("patternProperties", ())
        ):
            return self._pool.never
        if witness.name is not None:
            parts.append(self._compiler.names(frozenset({witness.name})))
        more = frozenset(() if witness.claim is None else (witness.claim,))
        return self._member(parts, claims | more)
