"""Compile regex, JSON Schema and grammar text into byte and token automata; no torch, no engine."""

from .automaton import AutomatonStats, TokenAutomaton
from .errors import (
    ConstraintTooLarge,
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
)
from .grammar import Grammar, compile_choice, compile_union
from .json_relax import compile_relaxed
from .json_schema import compile_json_schema
from .text_grammars import compile_ebnf, compile_regex
from .vocabulary import Vocabulary

__all__ = [
    "AutomatonStats",
    "ConstraintTooLarge",
    "EmptyConstraint",
    "Grammar",
    "GrammarError",
    "InvalidConstraint",
    "SchemaNotSupported",
    "TokenAutomaton",
    "Vocabulary",
    "compile_choice",
    "compile_ebnf",
    "compile_json_schema",
    "compile_regex",
    "compile_relaxed",
    "compile_union",
]
