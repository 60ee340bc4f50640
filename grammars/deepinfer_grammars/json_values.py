"""Listed values: which of the values of `enum` and `const` satisfy every claim on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from jsonschema import validators
from jsonschema.protocols import Validator

from .json_facts import Claim, spelling
from .json_refs import Document


class ListedValues:
    """Validates single values with the jsonschema library, claim by claim.

    Args:
        document: Where the claims' subschemas are.
        assert_formats: Whether `format` is an assertion.
    """

    def __init__(self, document: Document, *, assert_formats: bool) -> None:
        self._document = document
        self._formats = assert_formats
        self._known: dict[Claim, _Listed] = {}

    def fitting(self, values: Iterable[Any], claims: Iterable[Claim]) -> list[Any]:
        """The values that satisfy all claims, each once."""
        tests = [self._test(claim) for claim in claims]
        found: dict[str, Any] = {}
        for value in values:
            text = spelling(value)
            if text not in found and all(test.takes(value, text) for test in tests):
                found[text] = value
        return list(found.values())

    def _test(self, claim: Claim) -> _Listed:
        known = self._known.get(claim)
        if known is None:
            known = self._known[claim] = _Listed(claim, self)
        return known

    def validator(self, claim: Claim, schema: Any) -> Validator:
        """A validator for `schema`, with references resolved as from the place of the claim."""
        uri = self._document.base[claim.place.pointer]
        resolver = self._registry.resolver()
        for resource in (*claim.entered, uri):
            resolver = resolver.lookup(resource).resolver
        checker = self._class.FORMAT_CHECKER if self._formats else None
        made: Validator = self._class(
            schema, registry=self._registry, _resolver=resolver, format_checker=checker
        )
        return made

    @cached_property
    def _class(self) -> Any:
        root = self._document.root
        return validators.validator_for(root, default=validators.Draft202012Validator)

    @cached_property
    def _registry(self) -> Any:
        from jsonschema_specifications import REGISTRY
        from referencing.jsonschema import DRAFT202012, specification_with

        declared = self._class.META_SCHEMA.get("$schema", "")
        draft = specification_with(declared, default=DRAFT202012)
        resources = {"": self._document.root, **self._document.documents}
        return REGISTRY.with_resources(
            (uri, draft.create_resource(schema)) for uri, schema in resources.items()
        ).crawl()


class _Listed:
    """One claim, with the listed values of its subschema looked up instead of compared."""

    def __init__(self, claim: Claim, owner: ListedValues) -> None:
        schema = owner._document.at(claim.place)
        self._holds = claim.holds
        self._values: set[str] | None = None
        rest = schema
        if isinstance(schema, dict) and ("const" in schema or "enum" in schema):
            rest = {key: value for key, value in schema.items() if key not in ("const", "enum")}
            lists = [schema["enum"]] if "enum" in schema else []
            lists += [[schema["const"]]] if "const" in schema else []
            self._values = set.intersection(*({spelling(v) for v in values} for values in lists))
        self._validator = None if rest in ({}, True) else owner.validator(claim, rest)

    def takes(self, value: Any, text: str) -> bool:
        listed = self._values is None or text in self._values
        valid = listed and (self._validator is None or bool(self._validator.is_valid(value)))
        return valid is self._holds
