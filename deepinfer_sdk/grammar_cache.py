"""Compiled grammars, kept by what they were compiled from.

The one place where the grammar compiler is called and its errors become ours.
"""

from __future__ import annotations

from typing import Any, cast

from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    Grammar,
    GrammarError,
    InvalidConstraint,
    TokenAutomaton,
    Vocabulary,
    compile_choice,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
    compile_relaxed,
    compile_union,
)
from deepinfer_grammars import SchemaNotSupported as NotEnforceable
from deepinfer_grammars.compose import (
    TaggedBlock,
    compile_repeat,
    compile_sequence,
    compile_tagged_text,
    compile_text,
)
from deepinfer_grammars.outlines_engine import OutlinesAutomaton, outlines_pattern
from pydantic_core import PydanticSerializationError

from .bounded_cache import BoundedCache
from .errors import ImpossibleSchema, InvalidSchema, SchemaError, SchemaNotSupported, SchemaTooLarge
from .result import SchemaSpec

_OURS: dict[type[GrammarError], type[SchemaError]] = {
    InvalidConstraint: InvalidSchema,
    NotEnforceable: SchemaNotSupported,
    EmptyConstraint: ImpossibleSchema,
    ConstraintTooLarge: SchemaTooLarge,
}

# What to do when the compiler knows nothing better.
_HINTS: dict[type[SchemaError], str] = {
    InvalidSchema: "Mend it at that place; a special character that is meant as itself gets a "
    "backslash in a pattern, and quotes in a grammar",
    SchemaNotSupported: "Leave that rule out, and check it on result.value",
    ImpossibleSchema: "Look for rules that contradict each other",
    SchemaTooLarge: "Use smaller bounds, or fewer alternatives",
}

Automaton = TokenAutomaton | OutlinesAutomaton

_GRAMMARS: BoundedCache[str, Grammar] = BoundedCache(limit=256)


def grammar_of(spec: SchemaSpec) -> Grammar:
    """The compiled grammar of a constraint.

    Raises:
        SchemaError: The constraint is malformed, contradictory, too large, or cannot be enforced.
    """
    try:
        return _GRAMMARS.get_or_make(spec.model_dump_json(), lambda: _compile(spec))
    except GrammarError as error:
        raise from_grammar_error(error) from None
    except PydanticSerializationError:  # lone surrogates are the only text without bytes
        raise InvalidSchema(
            f"the {spec.kind} constraint holds half a character (a lone surrogate), which no "
            "output can contain",
            hint="Write the whole character",
        ) from None


def automaton_of(spec: SchemaSpec, vocabulary: Vocabulary) -> Automaton:
    """The token automaton of a constraint for a vocabulary, by the engine that it asks for.

    Raises:
        SchemaError: The constraint cannot be compiled, or not for this vocabulary.
    """
    grammar = grammar_of(spec)
    try:
        if spec.engine == "outlines":
            return OutlinesAutomaton(cast("str", spec.source), vocabulary)
        return TokenAutomaton(grammar, vocabulary)
    except GrammarError as error:
        raise from_grammar_error(error) from None


def from_grammar_error(error: GrammarError) -> SchemaError:
    """A grammar compiler's error as ours: the message with its place, and a hint."""
    kind = _OURS.get(type(error), SchemaError)
    return kind(str(error), hint=error.hint or _HINTS.get(kind))


def clear() -> None:
    """Forget all compiled grammars."""
    _GRAMMARS.clear()


def _compile(spec: SchemaSpec) -> Grammar:
    source: Any = spec.source
    if spec.kind == "choice":
        return compile_choice(source)
    if spec.kind == "literal":
        return compile_choice([source])
    if spec.kind == "regex":
        if spec.engine == "outlines":
            outlines_pattern(source)  # refuses at once what the index could not follow
        return compile_regex(source)
    if spec.kind == "ebnf":
        return compile_ebnf(source, start=spec.start)
    if spec.kind == "text":
        return compile_text(until=source["until"], max_chars=source["max_chars"])
    if spec.kind == "json":
        return _compile_json(spec)
    return _compose(spec, [grammar_of(part) for part in spec.parts])


def _compile_json(spec: SchemaSpec) -> Grammar:
    source: Any = spec.source
    chosen = spec.json_options
    if chosen is None:  # a type: closed, whole numbers written as such, read by Pydantic
        return compile_json_schema(
            source, extra_properties=False, plain_integers=True, decimal_multiples=True
        )
    options: dict[str, Any] = chosen.model_dump(exclude={"on_unsupported"})
    if chosen.on_unsupported == "validate":
        return compile_relaxed(source, **options)[0]
    return compile_json_schema(source, **options)


def _compose(spec: SchemaSpec, parts: list[Grammar]) -> Grammar:
    source: Any = spec.source
    if any(part.engine != "native" for part in spec.parts):
        raise NotEnforceable(
            'engine="outlines" is asked for inside of another schema, but its index is made of one '
            "regular expression",
            hint='Leave engine="outlines" out there, or write the whole as one Schema.regex',
        )
    if spec.kind == "any_of":
        return compile_union(parts)
    if spec.kind == "sequence":
        return compile_sequence(parts)
    if spec.kind == "repeat":
        return compile_repeat(
            parts[0],
            low=source["at_least"],
            high=source["at_most"],
            separator=source["separator"],
        )
    tags = zip(source["tags"], parts, strict=True)
    blocks = [TaggedBlock(begin, content, end) for (begin, end), content in tags]
    return compile_tagged_text(blocks, at_least=source["at_least"], at_most=source["at_most"])
