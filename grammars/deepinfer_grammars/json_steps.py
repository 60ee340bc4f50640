"""The steps by which claims are taken apart, shared by what asserts and what denies a schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .json_facts import Claim, Either, Facts, Scopes
from .json_refs import Document, Place


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim that is still to be taken apart.

    Attributes:
        claim: What must hold.
        above: The claims that led here without going down into the value.
        scopes: Schemas that want to know what gets evaluated here.
    """

    claim: Claim | Either
    above: frozenset[Claim] = frozenset()
    scopes: Scopes = ()


Step = Pending | Callable[[Facts], None]
Option = list[Step]


class Maker:
    """Makes the claims on the subschemas of one place."""

    def __init__(
        self,
        document: Document,
        place: Place,
        entered: tuple[str, ...],
        above: frozenset[Claim],
        scopes: Scopes,
    ) -> None:
        self.document = document
        self.place = place
        self.entered = entered
        self.above = above
        self.scopes = scopes

    def claim(self, *steps: str | int) -> Claim:
        """That the subschema below holds, for a part of the value."""
        return Claim(self.place.child(*steps), True, self.entered)

    def below(self, *steps: str | int) -> Pending:
        """That the subschema below holds, for the value itself."""
        return Pending(self.claim(*steps), self.above, self.scopes)

    def denied(self, *steps: str | int) -> Pending:
        """That the subschema below does not hold, for the value itself."""
        return Pending(~self.claim(*steps), self.above)

    def reference(self, keyword: str, *, holds: bool = True) -> Pending:
        """What a reference says."""
        target = self.document.resolve(self.place, keyword, self.entered)
        return Pending(Claim(target, holds, self.entered), self.above, self.scopes)


def present(*names: str) -> Callable[[Facts], None]:
    """The value is an object with these properties."""

    def step(facts: Facts) -> None:
        facts.only("object")
        facts.required |= frozenset(names)

    return step


def absent(name: str) -> Callable[[Facts], None]:
    """If the value is an object, it does not have this property."""

    def step(facts: Facts) -> None:
        facts.absent |= {name}

    return step
