"""What is known of a JSON value: the claims on it, and the facts that they come down to.

A `Claim` says that a subschema holds, or that it does not. `Facts` are what a set of claims says in
the end, once every choice has been made: per JSON type, what a value may look like.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from .bounds import Bounds
from .json_refs import Place

TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""The JSON types, with `number` split into whole and other numbers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A subschema that must hold, or must not.

    Attributes:
        place: The subschema.
        holds: Whether it must hold.
        entered: The dynamic scope: resources with dynamic anchors on the way here.
    """

    place: Place
    holds: bool = True
    entered: tuple[str, ...] = ()

    def __invert__(self) -> Claim:
        """The opposite claim."""
        return Claim(self.place, not self.holds, self.entered)


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of several claims."""

    options: tuple[Claim, ...]


Conjunction = frozenset[Claim | Either]
Scopes = tuple[Place, ...]
"""Schemas with `unevaluated*` that see what is evaluated here."""


@dataclass(frozen=True, slots=True)
class Text:
    """A pattern or format that the text of a string must match, or must not."""

    keyword: Literal["pattern", "format"]
    value: str
    holds: bool
    pointer: str


@dataclass(frozen=True, slots=True)
class Multiple:
    """A `multipleOf` that must hold, or must not.

    Attributes:
        unit: The number.
        holds: Whether it must hold.
        divided: Whether validators look at a quotient of doubles; else at an exact remainder.
        pointer: Where it stands.
    """

    unit: Fraction
    holds: bool
    divided: bool
    pointer: str


@dataclass(frozen=True, slots=True)
class Items:
    """Claims on items: one per leading item (None says nothing), and one on all later items."""

    leading: tuple[Claim | None, ...]
    rest: Claim | None
    scopes: Scopes = ()
    closes: bool = False  # all items count as evaluated


@dataclass(frozen=True, slots=True)
class Contains:
    """From item `start` on, `low` to `high` items (-1: any number) satisfy the claim."""

    claim: Claim
    low: int
    high: int
    pointer: str
    start: int = 0
    scopes: Scopes = ()


@dataclass(frozen=True, slots=True)
class Members:
    """The object keywords of the schema at `place`: claims on members by their names."""

    place: Place
    schema: dict[str, Any]
    entered: tuple[str, ...]
    scopes: Scopes


@dataclass(frozen=True, slots=True)
class Witness:
    """Some member must satisfy `claim` (on its value) or `name` (on its name).

    Its name matches `pattern`, or is not described by the keywords of `beyond`.
    """

    pointer: str
    claim: Claim | None = None
    pattern: str | None = None
    beyond: Members | None = None
    name: Claim | None = None


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """A claim on the items or members that the schema at `scope` has not evaluated otherwise."""

    scope: Place
    claim: Claim
    scopes: Scopes


@dataclass(slots=True)
class Facts:
    """Everything that a value must satisfy, after all choices."""

    types: frozenset[str] = TYPES
    taken: tuple[Claim, ...] = ()
    values: tuple[Any, ...] | None = None
    excluded: tuple[Any, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    multiples: tuple[Multiple, ...] = ()
    length: tuple[int, int] = (0, -1)
    texts: tuple[Text, ...] = ()
    size: tuple[int, int] = (0, -1)
    items: tuple[Items, ...] = ()
    contains: tuple[Contains, ...] = ()
    unique: str | None = None  # the pointer of a `uniqueItems`
    count: tuple[int, int] = (0, -1)
    count_pointer: str = "#"
    members: tuple[Members, ...] = ()
    required: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    named: tuple[tuple[str, Claim], ...] = ()
    witnesses: tuple[Witness, ...] = ()
    open_members: tuple[Unevaluated, ...] = ()
    open_items: tuple[Unevaluated, ...] = ()

    def copy(self) -> Facts:
        """An independent copy."""
        return copy(self)

    @property
    def dead(self) -> bool:
        """Whether it is plain that no value fits."""
        return not self.types or self.values == ()

    def only(self, *types: str) -> None:
        """Keep these types."""
        self.types &= frozenset(types)

    def drop_impossible(self) -> None:
        """Leave out types whose limits contradict each other."""
        for kind, (low, high) in (
            ("string", self.length),
            ("array", self.size),
            ("object", self.count),
        ):
            if 0 <= high < low:
                self.types -= {kind}
        if self.required & self.absent:
            self.types -= {"object"}


def within(span: tuple[int, int], low: int, high: int) -> tuple[int, int]:
    """The intersection of two ranges of counts; -1 is no upper end."""
    tops = [top for top in (span[1], high) if top >= 0]
    return max(span[0], low), min(tops) if tops else -1


def names_of(members: Sequence[Members]) -> dict[str, None]:
    """The property names that the schemas list, in their order."""
    names: dict[str, None] = {}
    for rule in members:
        names.update(dict.fromkeys(rule.schema.get("properties", ())))
    return names


def spelling(value: Any) -> str:
    """One spelling per JSON value; numbers that are equal are spelled alike."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(spelling(item) for item in value) + "]"
    if isinstance(value, dict):
        items = sorted((json.dumps(name), spelling(item)) for name, item in value.items())
        return "{" + ",".join(f"{name}:{item}" for name, item in items) + "}"
    return json.dumps(value)


def type_of(value: Any) -> str:
    """The type of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == value // 1 else "fraction"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
