"""Grammars in Lark's notation, read by the `lark` library itself.

Texts are those that `Lark(grammar)` parses with its defaults: Earley, whose lexer lets a terminal
match only what `re` finds first at a place. Terminal priorities pick between parses of one text
there, so they do not change which texts are accepted.

Lark reads and checks the grammar; its rules are written here from the trees that it made, because
its own next step writes optional parts and repeats out, which is exponential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lark import Tree
from lark.exceptions import UnexpectedInput
from lark.grammar import NonTerminal, Symbol, Terminal
from lark.lexer import Pattern, PatternStr
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern, load_grammar, nr_deepcopy_tree

from .errors import ConstraintTooLarge, GrammarError, InvalidConstraint, SchemaNotSupported
from .expr import Pool
from .node import Node
from .regex_first import terminal_node

_LONGEST = 500_000  # characters of a grammar; Lark reads about 20,000 a second
_MOST_INSTANCES = 5_000  # templates with arguments
_LARGEST_TERMINAL = 2_000  # uses of terminals by a terminal, directly or not

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|//[^\n]*|#[^\n]*')
_REGEXP = re.compile(r"/(?!/)(?:\\.|[^/\\\n])+/")
_DEFINITION = re.compile(r"^[ \t]*(?:%(?:override|extend)[ \t]+)?[?!]*(\w+)[^:\n]*:", re.MULTILINE)
_TERMINAL_NAME = re.compile(r"\b_?[A-Z][_A-Z0-9]*\b")
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
        ConstraintTooLarge: The grammar is very long, or its templates have no end.
    """
    if len(text) > _LONGEST:
        raise ConstraintTooLarge(
            f"the Lark grammar has {len(text)} characters, more than {_LONGEST}",
            hint="Write it in GBNF, which is read faster",
        )
    _refuse_doubling(text)
    try:
        grammar, _ = load_grammar(text, "the grammar", [], False)  # type: ignore[no-untyped-call]
    except UnexpectedInput as error:
        position = error.pos_in_stream
        raise InvalidConstraint(
            f"Lark cannot read the grammar: {_first_line(error)}",
            position=position if isinstance(position, int) else 0,
        ) from None
    except RecursionError:
        raise ConstraintTooLarge(
            "the Lark grammar is nested too deeply", hint="Give the nested parts rules of their own"
        ) from None
    except Exception as error:  # Lark lets errors of its parts through
        message = _first_line(error)
        raise InvalidConstraint(
            f"Lark refuses the grammar: {message}", position=_position(text, message)
        ) from None
    return _Writer(pool, grammar, text).start(start)


def _refuse_doubling(text: str) -> None:
    """Refuse terminals too large to be written out: Lark puts them into those that use them."""
    bare = _STRING_OR_COMMENT.sub(" ", _REGEXP.sub(" ", text))
    found = list(_DEFINITION.finditer(bare))
    ends = [match.start() for match in found[1:]] + [len(bare)]
    uses = {
        match[1]: _TERMINAL_NAME.findall(bare, match.end(), end)
        for match, end in zip(found, ends, strict=True)
        if match[1].isupper()
    }
    sizes = dict.fromkeys(uses, 1)
    changed = True
    while changed:
        changed = False
        for name, used in uses.items():
            size = 1 + sum(sizes.get(other, 1) for other in used)
            if size > _LARGEST_TERMINAL:
                raise ConstraintTooLarge(
                    f"the terminal {name} is too large with the terminals it uses written out, or "
                    "uses itself",
                    position=_position(text, f"'{name}'"),
                    hint="Make it a rule",
                )
            if size != sizes[name]:
                sizes[name] = size
                changed = True


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _position(text: str, message: str) -> int:
    """Where Lark found a mistake: a line and a column, or the first place of a name."""
    place = re.search(r"line (\d+) column (\d+)", message)
    if place:
        lines = text.splitlines(keepends=True)[: int(place[1]) - 1]
        return min(sum(map(len, lines)) + int(place[2]) - 1, len(text))
    name = re.search(r"'(\w+)'", message)
    found = re.search(rf"\b{re.escape(name[1])}\b", text) if name else None
    return found.start() if found else 0


class _Writer:
    def __init__(self, pool: Pool, grammar: Any, text: str) -> None:
        self._pool = pool
        self._text = text
        self._rules = {name: (params, tree) for name, params, tree, _ in grammar.rule_defs}
        self._definitions: dict[str, Any] = {n: tree for n, (tree, _) in grammar.term_defs}
        self._terminals: dict[str, Node] = {}
        self._instances: dict[tuple[str, tuple[object, ...]], Node] = {}
        self._waiting: list[tuple[Node, Any, dict[str, Node | str]]] = []
        ignored = [self._terminal(name) for name in grammar.ignore]
        self._gap = pool.repeat(pool.alt(ignored), 0) if ignored else pool.epsilon

    def start(self, name: str) -> Node:
        """Everything reachable from the start rule."""
        if name not in self._rules or self._rules[name][0]:
            names = ", ".join(sorted(self._rules)[:5]) or "none"
            raise InvalidConstraint(
                f"the start rule {name!r} is not defined (defined: {names})",
                position=0,
                hint=f"Name the start rule {name}, or pass start=",
            )
        root = self._rule(name, ())
        while self._waiting:
            rule, tree, names_of = self._waiting.pop()
            self._pool.define(rule, self._part(tree, names_of))
        return self._pool.seq(self._gap, root)

    def _rule(self, name: str, arguments: tuple[Node | str, ...]) -> Node:
        """A rule, or a template with its arguments."""
        known = self._instances.get((name, arguments))
        if known is not None:
            return known
        params, tree = self._rules[name]
        if len(params) != len(arguments):
            raise InvalidConstraint(
                f"the rule {name!r} takes {len(params)} arguments, not {len(arguments)}",
                position=_position(self._text, f"'{name}'"),
            )
        if params and len(self._instances) > _MOST_INSTANCES + len(self._rules):
            raise ConstraintTooLarge(
                f"more than {_MOST_INSTANCES} uses of templates with different arguments are "
                f"needed, for {name!r} among others",
                hint="A template that uses itself with a larger argument never ends",
            )
        rule = self._instances[name, arguments] = self._pool.rule(name)
        self._waiting.append((rule, tree, dict(zip(params, arguments, strict=True))))
        return rule

    # -- the trees of Lark ----------------------------------------------------------------------

    def _part(self, tree: Any, names: Mapping[str, Node | str]) -> Node:
        """An expression of a rule; `names` are the arguments of a template."""
        pool = self._pool
        if isinstance(tree, Symbol):
            return self._symbol(tree, names)
        kind, parts = tree.data, tree.children
        if kind == "expansions":
            return pool.alt([self._part(part, names) for part in parts])
        if kind == "expansion":
            return pool.seq(*[self._part(part, names) for part in parts])
        if kind in ("alias", "value"):  # what a parse is called makes no difference
            return self._part(parts[0], names)
        if kind == "maybe":
            return pool.optional(self._part(parts[0], names))
        if kind == "expr":
            return pool.repeat(self._part(parts[0], names), *self._bounds(*parts[1:]))
        if kind == "template_usage":
            return self._use(parts[0].name, parts[1:], names)
        if kind in ("literal", "range"):
            written, at = str(parts[0]), parts[0].start_pos or 0
            pattern = self._read(written, Tree("value", [tree]), at)
            return pool.seq(self._pattern(written, pattern, at), self._gap)
        raise SchemaNotSupported(f"the grammar part {kind!r} cannot be enforced")

    def _symbol(self, symbol: Symbol, names: Mapping[str, Node | str]) -> Node:
        given = names.get(symbol.name)
        if isinstance(given, str):
            return self._rule(given, ())
        if given is not None:
            return given
        if isinstance(symbol, Terminal):
            # What is ignored may follow every terminal, and come before the first.
            return self._pool.seq(self._terminal(symbol.name), self._gap)
        return self._rule(symbol.name, ())

    def _use(self, name: str, arguments: list[Any], names: Mapping[str, Node | str]) -> Node:
        given = names.get(name, name)
        if not isinstance(given, str) or given not in self._rules:
            raise InvalidConstraint(
                f"the template {name!r} is used but not defined",
                position=_position(self._text, f"'{name}'"),
            )
        return self._rule(given, tuple(self._argument(part, names) for part in arguments))

    def _argument(self, tree: Any, names: Mapping[str, Node | str]) -> Node | str:
        """An argument of a template: an expression, or the name of another template."""
        while isinstance(tree, Tree) and tree.data == "value":
            tree = tree.children[0]
        if isinstance(tree, NonTerminal) and tree.name not in names:
            params, _ = self._rules[tree.name]
            if params:
                return tree.name
        if isinstance(tree, NonTerminal) and isinstance(names.get(tree.name), str):
            return names[tree.name]
        return self._part(tree, names)

    @staticmethod
    def _bounds(sign: Any, *counts: Any) -> tuple[int, int]:
        if sign != "~":
            return {"?": (0, 1), "*": (0, -1), "+": (1, -1)}[str(sign)]
        low, high = int(counts[0]), int(counts[-1])
        if high < low:
            raise InvalidConstraint(
                f"the bounds of a repeat are swapped: ~{low}..{high}", position=counts[0].start_pos
            )
        return low, high

    # -- terminals ------------------------------------------------------------------------------

    def _terminal(self, name: str) -> Node:
        node = self._terminals.get(name)
        if node is None:
            tree = self._definitions.get(name)
            if tree is None:
                raise InvalidConstraint(
                    f"the terminal {name} is declared but not defined",
                    position=_position(self._text, f"'{name}'"),
                    hint="Give it a pattern; %declare needs a lexer of its own",
                )
            at = _position(self._text, f"'{name}'")
            node = self._pattern(name, self._read(name, tree, at), at)
            self._terminals[name] = node
        return node

    def _read(self, name: str, tree: Any, at: int) -> Pattern:
        try:
            reader = PrepareLiterals() * TerminalTreeToPattern()
            copy = nr_deepcopy_tree(tree)  # type: ignore[no-untyped-call]
            pattern: Pattern = reader.transform(copy)
        except Exception as error:  # Lark wraps errors in several ways
            raise InvalidConstraint(
                f"Lark refuses the terminal {name}: {_first_line(error)}", position=at
            ) from None
        return pattern

    def _pattern(self, name: str, pattern: Pattern, at: int) -> Node:
        if isinstance(pattern, PatternStr) and not pattern.flags and pattern.value:
            try:
                return self._pool.literal(pattern.value)
            except UnicodeEncodeError:
                raise InvalidConstraint(
                    f"the terminal {name} has half a surrogate pair, which no text can contain",
                    position=at,
                ) from None
        try:
            return terminal_node(self._pool, pattern.to_regexp())
        except GrammarError as error:
            raise type(error)(
                f"the terminal {name} cannot be enforced: {error.message}",
                hint=error.hint,
                position=at,
            ) from None
