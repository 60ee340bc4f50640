"""Grammars in Lark's notation, read by the `lark` library itself.

Texts are those that `Lark(grammar)` parses with its defaults: Earley, whose lexer lets a terminal
match only what `re` finds first at a place. Terminal priorities pick between parses of one text
there, so they do not change which texts are accepted.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedInput
from lark.grammar import NonTerminal, Terminal
from lark.lexer import PatternStr, TerminalDef

from .errors import GrammarError, InvalidConstraint, SchemaNotSupported
from .expr import Pool
from .node import Node
from .regex_first import terminal_node

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|//[^\n]*|#[^\n]*')

_GBNF_RULE = re.compile(r"^\s*[A-Za-z0-9_-]+\s*::=", re.MULTILINE)


def guess_syntax(text: str) -> str:
    """``"gbnf"`` if a line defines a name by ``::=``, else ``"lark"``."""
    return "gbnf" if _GBNF_RULE.search(_STRING_OR_COMMENT.sub("", text)) else "lark"


def lark_node(pool: Pool, text: str, *, start: str = "start") -> Node:
    """The texts of a Lark grammar.

    Args:
        pool: Where to build.
        text: The grammar.
        start: The rule that whole texts match.

    Raises:
        InvalidConstraint: Lark refuses the grammar; its message and, if known, the position.
        SchemaNotSupported: A terminal is not regular, or may be empty.
    """
    try:
        # lexer="dynamic" keeps terminals as written; nothing is generated or run.
        parsed = Lark(text, start=start, parser="earley", lexer="dynamic", regex=False)
    except UnexpectedInput as error:
        position = error.pos_in_stream
        raise InvalidConstraint(
            f"Lark cannot read the grammar: {_first_line(error)}",
            position=position if isinstance(position, int) else None,
        ) from None
    except Exception as error:  # also errors of whichever regex library Lark finds installed
        raise InvalidConstraint(f"Lark refuses the grammar: {_first_line(error)}") from None
    return _Writer(pool, parsed).start(start)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Writer:
    def __init__(self, pool: Pool, parsed: Lark) -> None:
        self._pool = pool
        self._rules: list[Any] = list(parsed.rules)
        self._definitions: dict[str, TerminalDef] = {t.name: t for t in parsed.terminals}
        self._terminals: dict[str, Node] = {}
        self._names: dict[str, Node] = {}
        ignored = [self._terminal(name) for name in parsed.ignore_tokens]
        self._gap = pool.repeat(pool.alt(ignored), 0) if ignored else pool.epsilon

    def start(self, name: str) -> Node:
        """Everything reachable from the start rule."""
        pool = self._pool
        bodies: dict[str, list[Node]] = {}
        for rule in self._rules:
            parts = [self._symbol(symbol) for symbol in rule.expansion]
            bodies.setdefault(rule.origin.name, []).append(pool.seq(*parts))
        for origin, options in bodies.items():
            pool.define(self._reference(origin), pool.alt(options))
        return pool.seq(self._gap, self._reference(name))

    def _reference(self, name: str) -> Node:
        if name not in self._names:
            self._names[name] = self._pool.rule(name)
        return self._names[name]

    def _symbol(self, symbol: Any) -> Node:
        if isinstance(symbol, NonTerminal):
            return self._reference(symbol.name)
        if isinstance(symbol, Terminal):
            # What is ignored may follow every terminal, and come before the first.
            return self._pool.seq(self._terminal(symbol.name), self._gap)
        raise SchemaNotSupported(f"the grammar symbol {symbol!r} cannot be enforced")

    def _terminal(self, name: str) -> Node:
        node = self._terminals.get(name)
        if node is None:
            definition = self._definitions.get(name)
            if definition is None:
                raise InvalidConstraint(
                    f"the terminal {name} is declared but not defined",
                    hint="Give it a pattern; %declare needs a lexer of its own",
                )
            node = self._pattern(name, definition)
            self._terminals[name] = node
        return node

    def _pattern(self, name: str, definition: TerminalDef) -> Node:
        pattern = definition.pattern
        if isinstance(pattern, PatternStr) and not pattern.flags:
            try:
                return self._pool.literal(pattern.value)
            except UnicodeEncodeError:
                raise InvalidConstraint(
                    f"the terminal {name} has half a surrogate pair, which no text can contain"
                ) from None
        try:
            return terminal_node(self._pool, pattern.to_regexp())
        except GrammarError as error:
            raise type(error)(
                f"the terminal {name} cannot be enforced: {error.message}", hint=error.hint
            ) from None
