"""Grammars of plain text: regular expressions, Lark grammars and GBNF."""

from __future__ import annotations

from typing import Literal

from .gbnf import gbnf_node
from .grammar import Grammar
from .lark_grammar import guess_syntax, lark_node
from .regex import regex_node


def compile_regex(pattern: str) -> Grammar:
    r"""Texts that match the whole pattern.

    Args:
        pattern: The common regular subset of Python's `re` and ECMA-262; where they differ, what
            both accept (``\d`` is 0-9, ``(?u)`` asks for Unicode).

    Raises:
        InvalidConstraint: The pattern is malformed; `position` says where.
        SchemaNotSupported: It uses something that is not regular, such as a backreference.
        EmptyConstraint: Nothing can match.
    """
    return Grammar(lambda pool: regex_node(pool, pattern), "regex")


def compile_ebnf(
    text: str,
    *,
    start: str | None = None,
    syntax: Literal["auto", "lark", "gbnf"] = "auto",
) -> Grammar:
    """Texts of a context-free grammar.

    Args:
        text: A grammar in Lark's notation or in GBNF (llama.cpp).
        start: Start rule; by default ``start`` in Lark and ``root`` in GBNF.
        syntax: The notation; ``"auto"`` takes ``::=`` as the mark of GBNF.

    Raises:
        InvalidConstraint: The grammar is malformed; `position` says where.
        SchemaNotSupported: It uses something that cannot be enforced.
        EmptyConstraint: Nothing can match.
    """
    notation = guess_syntax(text) if syntax == "auto" else syntax
    if notation == "gbnf":
        return Grammar(lambda pool: gbnf_node(pool, text, start=start or "root"), "GBNF grammar")
    return Grammar(lambda pool: lark_node(pool, text, start=start or "start"), "Lark grammar")
