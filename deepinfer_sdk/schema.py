"""Schema[T]: what an output must look like, and the type it is read back into.

A constraint that cannot be enforced is refused when the Schema is made, before any model is opened.
Knows no engine and no tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, get_args, overload

from pydantic import JsonValue
from pydantic import ValidationError as PydanticError

from .bounded_cache import BoundedCache
from .composition import Tag, TagValue, Thought, reader
from .errors import ImpossibleSchema, InvalidSchema, OutputRejected
from .json_settings import JsonSettings, json_parser, json_spec
from .result import ConstraintEngine, SchemaSpec
from .schema_check import Check, refusal
from .schema_source import adapt, choices, json_source, need_text, reasons
from .tools import Tool, ToolCall, call_model, call_value

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
    other forms are `Schema.json`, `.regex`, `.ebnf`, `.choice` and `.any_of`; schemas are put
    together by `.sequence`, `.repeat`, `.optional`, `.text`, `.thinking`, `.tagged` and `.tools`.

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
        adapter, schema = adapt(kind)
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
        schema: Mapping[str, Any] | bool | str, **options: Unpack[JsonSettings]
    ) -> Schema[Any]:
        """JSON that validates against a JSON Schema (drafts 4 to 2020-12), given as data or text.

        Args:
            schema: The schema.
            options: See `JsonSettings`: `extra_properties`, `property_order`, `formats`,
                `whitespace` and `on_unsupported`.
        """
        spec = json_spec(json_source(schema), dict(options))
        return Schema._make(spec, json_parser(spec), "json")

    @staticmethod
    def regex(pattern: str, *, engine: ConstraintEngine = "native") -> Schema[str]:
        """Text that matches a regular expression from its first to its last character.

        Args:
            pattern: The pattern.
            engine: What makes the token masks: our own automata, or an index of the outlines-core
                library, which holds a transition for every state and token and knows no lookahead.
        """
        need_text("pattern", pattern)
        if engine not in get_args(ConstraintEngine):
            raise InvalidSchema(
                f"engine={engine!r} is not known", hint='Use engine="native" or "outlines"'
            )
        spec = SchemaSpec(kind="regex", source=pattern, engine=engine)
        return Schema._make(spec, str, f"regex {pattern!r}")

    @staticmethod
    def ebnf(grammar: str, *, start: str | None = None) -> Schema[str]:
        """Text of a grammar, in Lark's or GBNF's syntax.

        Args:
            grammar: The rules.
            start: Name of the start rule; ``start`` (Lark) or ``root`` (GBNF) if None.
        """
        need_text("grammar", grammar)
        return Schema._make(SchemaSpec(kind="ebnf", source=grammar, start=start), str, "ebnf")

    @staticmethod
    def choice(*options: Scalar) -> Schema[Scalar]:
        """Exactly one of the given texts, numbers or truth values, as plain text."""
        by_text = choices(options)
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
        spec = SchemaSpec(kind="any_of", parts=tuple(schema.spec for schema in schemas))
        name = " | ".join(schema._name for schema in schemas)
        return Schema._make(spec, reader(spec, schemas), name)

    @staticmethod
    def text(*, until: str | None = None, max_chars: int | None = None) -> Schema[str]:
        """Free text; mostly a part of `Schema.sequence`.

        Args:
            until: The text goes on to the first place where this stands, and includes it; the
                value leaves it out.
            max_chars: Most characters before that; None for any number.
        """
        if until is not None:
            need_text("end of free text", until)
        spec = SchemaSpec(kind="text", source={"until": until, "max_chars": max_chars})
        return Schema._make(spec, reader(spec, ()), "text")

    @staticmethod
    def sequence(*parts: Any) -> Schema[tuple[Any, ...]]:
        """One part after the other: fixed text as it is, types and schemas as their values.

        The value is a tuple without the fixed texts: `Schema.sequence("Age: ", int)` reads
        ``"Age: 7"`` as ``(7,)``. Where a text can be split in several ways, earlier parts take all
        they can.
        """
        if not parts:
            raise InvalidSchema(
                "Schema.sequence() got no parts", hint='For example Schema.sequence("Age: ", int)'
            )
        made = [
            Schema.from_spec(SchemaSpec(kind="literal", source=part))
            if isinstance(part, str)
            else schema_of(part)
            for part in parts
        ]
        spec = SchemaSpec(kind="sequence", parts=tuple(part.spec for part in made))
        return Schema._make(spec, reader(spec, made), "sequence")

    @staticmethod
    def repeat(
        item: type[A] | Schema[A],
        *,
        separator: str = "",
        at_least: int = 0,
        at_most: int | None = None,
    ) -> Schema[list[A]]:
        """A list of copies, one after the other, with `separator` between two of them."""
        need_text("separator", separator)
        schema: Schema[A] = schema_of(item)
        source: JsonValue = {"separator": separator, "at_least": at_least, "at_most": at_most}
        spec = SchemaSpec(kind="repeat", source=source, parts=(schema.spec,))
        return Schema._make(spec, reader(spec, [schema]), f"repeat of {schema._name}")

    @staticmethod
    def optional(part: type[A] | Schema[A]) -> Schema[A | None]:
        """A part, or no text at all, which is read as None."""
        repeated = Schema.repeat(part, at_most=1)

        def parse(text: str) -> A | None:
            return repeated._parse(text)[0] if text else None

        return Schema._make(repeated.spec, parse, f"optional {repeated._name}")

    @staticmethod
    def thinking(
        answer: type[A] | Schema[A],
        *,
        begin: str = "<think>",
        end: str = "</think>",
        max_chars: int | None = None,
    ) -> Schema[Thought[A]]:
        """Free text between two tags, then the answer.

        Args:
            answer: What the answer is.
            begin: The tag before the thinking; empty if the prompt already ends with it.
            end: The tag after it. It ends the thinking where it first stands; up to two line ends
                may follow it.
            max_chars: Most characters of thinking. Without it, `max_tokens` is shared: the
                thinking may take all but what the shortest answer needs.
        """
        schema: Schema[A] = schema_of(answer)
        thinking = Schema.text(until=end, max_chars=max_chars)
        parts = Schema.sequence(begin, thinking, Schema.regex("\n{0,2}"), schema)

        def parse(text: str) -> Thought[A]:
            thought, _, value = parts._parse(text)
            return Thought(thinking=thought, answer=value)

        return Schema._make(parts.spec, parse, f"thinking, then {schema._name}")

    @staticmethod
    def tagged(
        *tags: Tag, at_least: int = 0, at_most: int | None = None
    ) -> Schema[tuple[str | TagValue, ...]]:
        """Free text with tags in it that switch a constraint on.

        The value holds the pieces of free text and the `TagValue`s in order. Free text never
        contains the begin of a tag.

        Args:
            tags: The tags.
            at_least: Fewest of them in all.
            at_most: Most of them in all; None for any number.
        """
        for tag in tags:
            need_text("begin of a tag", tag.begin)
            need_text("end of a tag", tag.end)
        contents = [schema_of(tag.content) for tag in tags]
        pairs: list[JsonValue] = [[tag.begin, tag.end] for tag in tags]
        source: JsonValue = {"tags": pairs, "at_least": at_least, "at_most": at_most}
        parts = tuple(content.spec for content in contents)
        spec = SchemaSpec(kind="tagged", source=source, parts=parts)
        return Schema._make(spec, reader(spec, contents), "tagged text")

    @staticmethod
    def tools(
        *tools: Tool,
        begin: str = "<tool_call>",
        end: str = "</tool_call>",
        at_least: int = 0,
        at_most: int | None = None,
    ) -> Schema[tuple[str | ToolCall, ...]]:
        """Free text with tool calls in it.

        A call is written as ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``. The value
        holds the pieces of free text and the `ToolCall`s in order; nothing is called.

        Args:
            tools: Functions with annotated parameters, or Pydantic models.
            begin: The tag before a call.
            end: The tag after it.
            at_least: Fewest calls.
            at_most: Most calls; None for any number.
        """
        calls = [Tag(begin, _call_schema(tool), end) for tool in tools]
        text_and_calls = Schema.tagged(*calls, at_least=at_least, at_most=at_most)

        def parse(text: str) -> tuple[str | ToolCall, ...]:
            parts = text_and_calls._parse(text)
            return tuple(part if isinstance(part, str) else part.value for part in parts)

        return Schema._make(text_and_calls.spec, parse, "text with tool calls")

    @staticmethod
    def from_spec(spec: SchemaSpec) -> Schema[Any]:
        """The schema of a recipe; it reads outputs as plain JSON data or text."""
        parts = [Schema.from_spec(part) for part in spec.parts]
        return Schema._make(spec, reader(spec, parts), spec.kind)

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
            why = reasons(error) if isinstance(error, PydanticError) else str(error)
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


def _call_schema(tool: Tool) -> Schema[ToolCall]:
    """The JSON of a call of a tool."""
    call = schema_of(call_model(tool))
    return Schema._make(call.spec, lambda text: call_value(call._parse(text), tool), call._name)
