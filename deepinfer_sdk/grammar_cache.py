"""Compiled grammars, kept by what they were compiled from.

The one place where the grammar compiler is called and its errors become ours.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from deepinfer_grammars import (
    ConstraintTooLarge,
    EmptyConstraint,
    Grammar,
    GrammarError,
    InvalidConstraint,
    compile_choice,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
    compile_union,
)
from deepinfer_grammars import SchemaNotSupported as NotEnforceable

from .errors import ImpossibleSchema, InvalidSchema, SchemaError, SchemaNotSupported, SchemaTooLarge
from .result import SchemaSpec

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """The most recently used values, at most `limit` of them; safe to share between threads.

    Args:
        limit: Most values to keep.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made outside the lock if it is not there.

        Two threads that miss at once both make a value, and both get the first one kept.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            value = self._kept.setdefault(key, value)
            self._kept.move_to_end(key)
            while len(self._kept) > self.limit:
                self._kept.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


_OURS: dict[type[GrammarError], type[SchemaError]] = {
    InvalidConstraint: InvalidSchema,
    NotEnforceable: SchemaNotSupported,
    EmptyConstraint: ImpossibleSchema,
    ConstraintTooLarge: SchemaTooLarge,
}

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


def from_grammar_error(error: GrammarError) -> SchemaError:
    """A grammar compiler's error as ours: the message with its place, and the hint."""
    return _OURS.get(type(error), SchemaError)(str(error), hint=error.hint)


def clear() -> None:
    """Forget all compiled grammars."""
    _GRAMMARS.clear()


def _compile(spec: SchemaSpec) -> Grammar:
    if spec.kind == "any_of":
        return compile_union([grammar_of(part) for part in spec.parts])
    if spec.kind == "choice":
        return compile_choice(cast("list[str]", spec.source))
    if spec.kind == "regex":
        return compile_regex(cast("str", spec.source))
    if spec.kind == "ebnf":
        return compile_ebnf(cast("str", spec.source), start=spec.start)
    return compile_json_schema(
        cast("dict[str, object] | bool", spec.source), extra_properties=spec.extra_properties
    )
