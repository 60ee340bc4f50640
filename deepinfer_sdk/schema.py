"""Schema[T]: what an output must look like, and the type it is read back into.

A constraint that cannot be enforced is refused when the Schema is made, before any model is opened.
Knows no engine and no tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from pydantic import JsonValue, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as PydanticError

from .bounded_cache import BoundedCache
from .errors import ImpossibleSchema, InvalidSchema, OutputRejected
from .result import SchemaSpec
from .schema_check import Check, refusal

if TYPE_CHECKING:
    from deepinfer_grammars.grammar import Grammar

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Scalar = TypeVar("Scalar", str, int, float, bool)

Parse = Callable[[str], T]


class Schema(Generic[T]):
    """A constraint on the output, and how its text becomes a value.

    `Schema(Person)` takes a Pydantic model, a dataclass, a TypedDict, an Enum, or anything else
    that `pydantic.TypeAdapter` takes; wherever a schema is expected the bare type works too. The
    other forms are `Schema.json`, `.regex`, `.ebnf`, `.choice` and `.any_of`.

    Args:
        kind: The type. Its JSON Schema is enforced while generating; its validators run once, on
            the finished output.

    Raises:
        InvalidSchema: The type has no JSON Schema.
        SchemaNotSupported: The JSON Schema has a keyword that cannot be enforced.
        ImpossibleSchema: Nothing satisfies it.
        SchemaTooLarge: A limit on its size was reached.
    """

    spec: SchemaSpec
    _parse: Callable[[str], T]
    _name: str

    @overload
    def __init__(self, kind: type[T]) -> None: ...
    @overload
    def __init__(self: Schema[Any], kind: object) -> None: ...
    def __init__(self, kind: Any) -> None:
        adapter, schema = _adapt(kind)
        name = getattr(kind, "__name__", None) or str(kind)
        self._set(SchemaSpec(kind="json", source=schema), adapter.validate_json, name)

    @classmethod
    def _make(cls, spec: SchemaSpec, parse: Parse[A], name: str) -> Schema[A]:
        made: Schema[A] = cast("Schema[A]", cls.__new__(cls))
        made._set(spec, parse, name)
        return made

    def _set(self, spec: SchemaSpec, parse: Parse[T], name: str) -> None:
        self.spec = spec
        self._parse = parse
        self._name = name
        self.grammar()

    @staticmethod
    def json(
        schema: Mapping[str, Any] | bool | str, *, extra_properties: bool = True
    ) -> Schema[Any]:
        """JSON that validates against a JSON Schema (drafts 4 to 2020-12), given as data or text.

        Args:
            schema: The schema.
            extra_properties: What objects that do not mention `additionalProperties` allow: any
                further property, as JSON Schema says, or none.
        """
        if isinstance(schema, str):
            try:
                source = json.loads(schema)
            except json.JSONDecodeError as error:
                raise InvalidSchema(
                    f"the JSON Schema is not JSON: {error.msg} at line {error.lineno}, "
                    f"column {error.colno}",
                    hint="Pass a dict, or text that json.loads can read",
                ) from None
        else:
            source = dict(schema) if isinstance(schema, Mapping) else schema
        if not isinstance(source, (dict, bool)):
            raise InvalidSchema(
                f"a JSON Schema is an object, true or false, not {type(source).__name__}",
                hint='For example {"type": "integer"}; for a Python type use Schema(type)',
            )
        try:
            spec = SchemaSpec(kind="json", source=source, extra_properties=extra_properties)
        except PydanticError:
            raise InvalidSchema(
                "the JSON Schema holds values that JSON does not have",
                hint="Use only dicts, lists, texts, numbers, True, False and None",
            ) from None
        return Schema._make(spec, json.loads, "json")

    @staticmethod
    def regex(pattern: str) -> Schema[str]:
        """Text that matches a regular expression from its first to its last character."""
        _need_text("pattern", pattern)
        return Schema._make(SchemaSpec(kind="regex", source=pattern), str, f"regex {pattern!r}")

    @staticmethod
    def ebnf(grammar: str, *, start: str | None = None) -> Schema[str]:
        """Text of a grammar, in Lark's or GBNF's syntax.

        Args:
            grammar: The rules.
            start: Name of the start rule; ``start`` (Lark) or ``root`` (GBNF) if None.
        """
        _need_text("grammar", grammar)
        return Schema._make(SchemaSpec(kind="ebnf", source=grammar, start=start), str, "ebnf")

    @staticmethod
    def choice(*options: Scalar) -> Schema[Scalar]:
        """Exactly one of the given texts, numbers or truth values, as plain text."""
        by_text: dict[str, Any] = {}
        for option in options:
            if not isinstance(option, (str, int, float)):
                raise InvalidSchema(
                    f"a choice is made of texts, numbers, True and False, not {option!r}",
                    hint='For example Schema.choice("yes", "no")',
                )
            text = option if isinstance(option, str) else json.dumps(option)
            if text in by_text:
                raise InvalidSchema(
                    f"the choice {text!r} is there twice", hint="Give each option once"
                )
            by_text[text] = option
        if not by_text:
            raise ImpossibleSchema(
                "Schema.choice() got no options, so nothing satisfies it",
                hint='For example Schema.choice("yes", "no")',
            )
        texts: list[JsonValue] = list(by_text)
        return Schema._make(
            SchemaSpec(kind="choice", source=texts), by_text.__getitem__, f"choice of {len(texts)}"
        )

    @overload
    @staticmethod
    def any_of(a: type[A] | Schema[A], b: type[B] | Schema[B], /) -> Schema[A | B]: ...
    @overload
    @staticmethod
    def any_of(
        a: type[A] | Schema[A], b: type[B] | Schema[B], c: type[C] | Schema[C], /
    ) -> Schema[A | B | C]: ...
    @overload
    @staticmethod
    def any_of(
        a: type[A] | Schema[A],
        b: type[B] | Schema[B],
        c: type[C] | Schema[C],
        d: type[D] | Schema[D],
        /,
    ) -> Schema[A | B | C | D]: ...
    @overload
    @staticmethod
    def any_of(*alternatives: Any) -> Schema[Any]: ...
    @staticmethod
    def any_of(*alternatives: Any) -> Schema[Any]:
        """Text of one of several schemas; the value comes from the first one that takes it."""
        if not alternatives:
            raise ImpossibleSchema(
                "Schema.any_of() got no alternatives, so nothing satisfies it",
                hint="For example Schema.any_of(Person, Company)",
            )
        schemas = [schema_of(part) for part in alternatives]

        def parse(text: str) -> Any:
            refused: list[str] = []
            for schema in schemas:
                if schema.grammar().accepts(text):
                    try:
                        return schema.parse(text)
                    except OutputRejected as error:
                        refused.append(error.message)
            raise ValueError("; ".join(refused) or "no alternative takes it")

        spec = SchemaSpec(kind="any_of", parts=tuple(schema.spec for schema in schemas))
        return Schema._make(spec, parse, " | ".join(schema._name for schema in schemas))

    @staticmethod
    def from_spec(spec: SchemaSpec) -> Schema[Any]:
        """The schema of a recipe; it reads outputs as plain JSON data or text."""
        if spec.kind == "any_of":
            return Schema.any_of(*(Schema.from_spec(part) for part in spec.parts))
        parse = json.loads if spec.kind == "json" else str
        return Schema._make(spec, parse, spec.kind)

    def grammar(self) -> Grammar:
        """The compiled grammar, from a cache that all equal schemas share."""
        from .grammar_cache import grammar_of  # heavy; not needed to import the package

        return grammar_of(self.spec)

    def check(self, text: str) -> Check:
        """Whether `text` would do as an output, and if not, at which byte and why."""
        found = refusal(self.grammar(), text)
        if found is not None:
            return found
        try:
            self.parse(text)
        except OutputRejected as error:
            return Check(ok=False, byte=None, reason=error.message)
        return Check(ok=True, byte=None, reason="fits")

    def parse(self, text: str) -> T:
        """The value of an output.

        Raises:
            OutputRejected: A validator of the type refused it; `error.text` keeps the text.
        """
        try:
            return self._parse(text)
        except (PydanticError, ValueError) as error:
            why = _reasons(error) if isinstance(error, PydanticError) else str(error)
            raise OutputRejected(
                f"{self._name} refused well-formed output {text!r}: {why}",
                text=text,
                hint="Say the rule in the type (Field(ge=..., pattern=...)), so that it holds "
                "while generating; the text is kept on error.text",
            ) from error

    def __repr__(self) -> str:
        return f"Schema({self._name})"


def schema_of(kind: Any) -> Schema[Any]:
    """A schema as it is, or the schema of a type."""
    if isinstance(kind, Schema):
        return kind
    if isinstance(kind, (str, Mapping)):
        raise InvalidSchema(
            f"schema={kind!r} is neither a type nor a Schema",
            hint="For a JSON Schema use Schema.json(...), for a pattern Schema.regex(...), "
            "for a grammar Schema.ebnf(...)",
        )
    try:
        hash(kind)
    except TypeError:  # some annotations hold lists or dicts
        return Schema(kind)
    return _OF_TYPE.get_or_make(kind, lambda: Schema(kind))


_OF_TYPE: BoundedCache[object, Schema[Any]] = BoundedCache(limit=128)


def clear() -> None:
    """Forget the schemas of types."""
    _OF_TYPE.clear()


def _adapt(kind: Any) -> tuple[TypeAdapter[Any], JsonValue]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        return adapter, adapter.json_schema(mode="validation")
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise InvalidSchema(
            f"{kind!r} has no JSON Schema: {first}",
            hint="Use a Pydantic model, a dataclass, a TypedDict, an Enum, or types made of "
            "str, int, float, bool, list and dict",
        ) from None


def _reasons(error: PydanticError) -> str:
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(step) for step in item["loc"])
        parts.append(f"{place}: {item['msg']}" if place else item["msg"])
    return "; ".join(parts)


def _need_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidSchema(
            f"the {name} is a {type(value).__name__}, not text", hint=f"Pass the {name} as str"
        )
