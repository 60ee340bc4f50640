"""Splitting claims into branches: every way to make the choices of a schema, and what follows.

A subschema that holds is a conjunction of its keywords, and one that does not is a disjunction of
their opposites. Both are taken apart until only facts about the value are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import ConstraintTooLarge, SchemaNotSupported
from .json_deny import denials
from .json_disjoint import apart
from .json_facts import Claim, Conjunction, Either, Facts, Scopes
from .json_keywords import assert_values, listed_values
from .json_refs import Document, Place
from .json_steps import Maker, Option, Pending, absent, present

_MOST_BRANCHES = 1024
_MOST_STEPS = 20_000


class _Work:
    """One branch in the making."""

    __slots__ = ("choices", "facts", "seen", "todo")

    def __init__(
        self,
        facts: Facts,
        todo: list[Pending],
        choices: list[list[Option]],
        seen: frozenset[tuple[Claim, Scopes]] = frozenset(),
    ) -> None:
        self.facts = facts
        self.todo = todo
        self.choices = choices
        self.seen = seen

    def take(self, option: Option) -> None:
        """Follow one option of a choice."""
        for step in option:
            if isinstance(step, Pending):
                self.todo.append(step)
            else:
                step(self.facts)

    def choose(self, options: list[Option]) -> None:
        """Leave a choice for later; a single option is none."""
        if len(options) == 1:
            self.take(options[0])
        else:
            self.choices.append(options)


def branches(
    document: Document, conjunction: Conjunction, *, assert_formats: bool
) -> Iterator[Facts]:
    """The alternatives of a conjunction; a value satisfies it exactly if it fits one of them.

    Raises:
        ConstraintTooLarge: There are too many.
        SchemaNotSupported: A keyword cannot be enforced here.
    """
    return _Brancher(document, assert_formats=assert_formats).split(conjunction)


class _Brancher:
    def __init__(self, document: Document, *, assert_formats: bool) -> None:
        self._document = document
        self._formats = assert_formats

    def split(self, conjunction: Conjunction) -> Iterator[Facts]:
        start = sorted(conjunction, key=repr, reverse=True)
        stack = [_Work(Facts(), [Pending(claim) for claim in start], [])]
        made = steps = 0
        while stack:
            work = stack.pop()
            steps += 1
            if made >= _MOST_BRANCHES or steps > _MOST_STEPS:
                raise ConstraintTooLarge(
                    "combining the choices of the schema gives too many branches",
                    hint="Give the branches of oneOf a property with a different const each",
                    pointer=name_of(conjunction),
                )
            if not self._settle(work):
                continue
            if not work.choices:
                made += 1
                yield work.facts
                continue
            options = min(work.choices, key=len)
            rest = [choice for choice in work.choices if choice is not options]
            for option in reversed(options):
                following = _Work(work.facts.copy(), [], list(rest), work.seen)
                following.take(option)
                stack.append(following)

    def _settle(self, work: _Work) -> bool:
        """Take apart what needs no choice; False if nothing can fit."""
        while work.todo:
            pending = work.todo.pop()
            claim = pending.claim
            if isinstance(claim, Either):
                work.choose([[Pending(c, pending.above, pending.scopes)] for c in claim.options])
                continue
            schema = self._document.at(claim.place)
            if isinstance(schema, bool):
                if schema is not claim.holds:
                    return False
                continue
            if claim in pending.above:  # a reference to itself adds no value
                return False
            if ~claim in pending.above:
                raise SchemaNotSupported(
                    "a schema that refers to its own negation has no meaning",
                    hint="Break the cycle of references",
                    pointer=claim.place.pointer,
                )
            key = (claim, pending.scopes)
            if key in work.seen:
                continue
            if any(c == ~claim for c in work.facts.taken):
                return False
            work.seen |= {key}
            work.facts.taken += (claim,)
            self._take_apart(work, claim, schema, pending)
            work.facts.drop_impossible()
            if work.facts.dead:
                return False
        work.facts.drop_impossible()
        return not work.facts.dead

    def _take_apart(
        self, work: _Work, claim: Claim, schema: dict[str, Any], pending: Pending
    ) -> None:
        document, place = self._document, claim.place
        entered = document.enter(place, claim.entered)
        above = pending.above | {claim}
        lone = "$ref" in schema and not document.siblings(place)
        if not claim.holds:
            if lone:
                schema = {"$ref": schema["$ref"]}
            make = Maker(document, place, entered, above, ())
            work.choose(denials(make, schema, assert_formats=self._formats))
            return
        scopes = pending.scopes
        if lone:
            work.todo.append(Maker(document, place, entered, above, scopes).reference("$ref"))
            return
        values = listed_values(schema)
        if values is not None:  # each is checked against all claims
            if work.facts.values is None or len(values) < len(work.facts.values):
                work.facts.values = tuple(values)
            return
        if _is_open(schema):
            scopes = (*scopes, place)
        make = Maker(document, place, entered, above, scopes)
        assert_values(
            work.facts, place, schema, entered, scopes, pending.scopes, formats=self._formats
        )
        self._applicators(work, make, schema)

    def _applicators(self, work: _Work, make: Maker, schema: dict[str, Any]) -> None:
        # The last one added is looked at first; properties keep the order in which they are met.
        if "not" in schema:
            work.todo.append(make.denied("not"))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                work.todo.append(make.reference(keyword))
        for index in reversed(range(len(schema.get("allOf", ())))):
            work.todo.append(make.below("allOf", index))
        if "anyOf" in schema:
            options = [make.below("anyOf", i) for i in range(len(schema["anyOf"]))]
            choices: list[Option] = [[option] for option in options]
            work.choose(_subsets(options, make.place) if make.scopes else choices)
        if "oneOf" in schema:
            work.choose(_one_of(make, len(schema["oneOf"]), work.facts))
        if "if" in schema and ("then" in schema or "else" in schema or make.scopes):
            yes: Option = [make.below("if")]
            no: Option = [make.denied("if")]
            if "then" in schema:
                yes.append(make.below("then"))
            if "else" in schema:
                no.append(make.below("else"))
            work.choose([yes, no])
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, then in schema.get(keyword, {}).items():
                if isinstance(then, list):
                    if then:
                        work.choose([[absent(name)], [present(name, *then)]])
                elif then is not True:
                    below = make.below(keyword, name)
                    work.choose([[absent(name)], [present(name), below]])


def name_of(conjunction: Conjunction) -> str:
    """A readable name: the pointers of the claims."""
    parts = [
        one.place.pointer if one.holds else f"not {one.place.pointer}"
        for claim in conjunction
        for one in (claim.options if isinstance(claim, Either) else (claim,))
    ]
    return " & ".join(sorted(parts)) or "any value"


def _is_open(schema: dict[str, Any]) -> bool:
    return any(
        schema.get(keyword, True) not in (True, {})
        for keyword in ("unevaluatedProperties", "unevaluatedItems")
    )


def _subsets(options: list[Pending], place: Place) -> list[Option]:
    """All ways that at least one of the options holds, where it matters which ones do."""
    if len(options) > 10:
        raise ConstraintTooLarge(
            f"anyOf with {len(options)} branches under unevaluatedProperties or unevaluatedItems",
            hint="Use oneOf, or additionalProperties in each branch",
            pointer=f"{place.pointer}/anyOf",
        )
    return [
        [option for i, option in enumerate(options) if chosen >> i & 1]
        for chosen in range(1, 1 << len(options))
    ]


def _one_of(make: Maker, count: int, facts: Facts) -> list[Option]:
    """Exactly one: each of them, with the denial of those that could hold beside it."""
    places = [make.place.child("oneOf", index) for index in range(count)]
    options: list[Option] = []
    for i, place in enumerate(places):
        option: Option = [make.below("oneOf", i)]
        for j, other in enumerate(places):
            if i != j and not apart(
                make.document, place, other, types=facts.types, required=facts.required
            ):
                option.append(make.denied("oneOf", j))
        options.append(option)
    return options
