"""Compile regex, JSON Schema and grammar text into byte and token automata; no torch, no engine."""

from .automaton import AutomatonStats, TokenAutomaton
from .background import Expansion
from .disk_cache import DiskCache
from .errors import (
    ConstraintCancelled,
    ConstraintTooLarge,
    EmptyConstraint,
    GrammarError,
    InvalidConstraint,
    SchemaNotSupported,
)
from .grammar import Grammar, compile_choice, compile_union
from .grammar_file import stored_grammar
from .json_relax import compile_relaxed
from .json_schema import compile_json_schema
from .limits import Limits
from .stored_rows import load_rows, save_rows
from .text_grammars import compile_ebnf, compile_regex
from .vocabulary import Vocabulary

__all__ = [
    "AutomatonStats",
    "ConstraintCancelled",
    "ConstraintTooLarge",
    "DiskCache",
    "EmptyConstraint",
    "Expansion",
    "Grammar",
    "GrammarError",
    "InvalidConstraint",
    "Limits",
    "SchemaNotSupported",
    "TokenAutomaton",
    "Vocabulary",
    "compile_choice",
    "compile_ebnf",
    "compile_json_schema",
    "compile_regex",
    "compile_relaxed",
    "compile_union",
    "load_rows",
    "save_rows",
    "stored_grammar",
]
