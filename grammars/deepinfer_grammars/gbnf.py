"""GBNF grammars, the notation of llama.cpp: plain context-free grammars over characters.

root ::= item ("," item)*      # a comment
item ::= [a-z]+ | "x"{2,3} | .
"""

from __future__ import annotations

import string

from .errors import ConstraintTooLarge, EmptyConstraint, InvalidConstraint
from .expr import Pool
from .node import Node
from .utf8 import ANY_CHAR, MAX_CODE_POINT, char_set, invert, normalise

_MOST_NESTING = 200
_MOST_DIGITS = 9
_NAME = frozenset(string.ascii_letters + string.digits + "-_")
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b",
    "f": "\f", "v": "\v",
}  # fmt: skip
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


def gbnf_node(pool: Pool, text: str, *, start: str = "root") -> Node:
    """The texts of a GBNF grammar.

    Args:
        pool: Where to build.
        text: The grammar.
        start: The rule that whole texts match.

    Raises:
        InvalidConstraint: Malformed, or a rule is missing or defined twice; `position` says where.
        ConstraintTooLarge: Groups are nested too deeply.
    """
    return _Parser(pool, text).grammar(start)


class _Parser:
    def __init__(self, pool: Pool, text: str) -> None:
        self._pool = pool
        self._text = text
        self._at = 0
        self._depth = 0
        self._current = ""  # the rule being read, for messages
        self._rules: dict[str, Node] = {}
        self._used_at: dict[str, int] = {}
        self._defined: set[str] = set()

    def grammar(self, start: str) -> Node:
        self._skip(lines=True)
        while self._at < len(self._text):
            self._rule()
            self._skip(lines=True)
        for name, at in self._used_at.items():
            if name not in self._defined:
                line = self._text.count("\n", 0, at) + 1
                raise InvalidConstraint(
                    f"the rule {name!r} is used but not defined, line {line}",
                    position=at,
                    hint=f"Add a line: {name} ::= ...",
                )
        if start not in self._defined:
            names = ", ".join(sorted(self._defined)[:5]) or "none"
            raise InvalidConstraint(
                f"the start rule {start!r} is not defined (defined: {names})",
                position=0,
                hint=f"Name the start rule {start}, or pass start=",
            )
        return self._rules[start]

    # -- lexical ------------------------------------------------------------------------------

    def _invalid(self, what: str, at: int | None = None) -> InvalidConstraint:
        place = (
            f"rule {self._current!r} of the GBNF grammar" if self._current else "the GBNF grammar"
        )
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        return InvalidConstraint(f"{what} in {place}, line {line}", position=at)

    def _skip(self, *, lines: bool) -> None:
        """White space and comments; line ends only where a rule cannot end."""
        blank = " \t\r\n" if lines else " \t"
        while self._at < len(self._text):
            if self._text[self._at] in blank:
                self._at += 1
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _eat(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _name(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in _NAME:
            self._at += 1
        return self._text[start : self._at]

    # -- grammar ------------------------------------------------------------------------------

    def _reference(self, name: str) -> Node:
        if name not in self._rules:
            self._rules[name] = self._pool.rule(name)
        return self._rules[name]

    def _rule(self) -> None:
        at = self._at
        name = self._name()
        if not name:
            raise self._invalid(f"a rule name is expected, not {self._text[at : at + 10]!r}")
        self._skip(lines=False)
        if not self._eat("::="):
            raise self._invalid(f"'::=' is expected after the rule name {name!r}")
        if name in self._defined:
            raise self._invalid(f"the rule {name!r} is defined twice", at)
        self._defined.add(name)
        self._current = name
        self._skip(lines=True)
        self._pool.define(self._reference(name), self._choice(nested=False))
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._invalid(f"{self._text[self._at]!r} is not expected")
        self._current = ""

    def _choice(self, *, nested: bool) -> Node:
        options = [self._sequence(nested=nested)]
        while self._continues("|", nested=nested):
            self._skip(lines=True)
            options.append(self._sequence(nested=nested))
        return self._pool.alt(options)

    def _continues(self, sign: str, *, nested: bool) -> bool:
        """Whether `sign` follows, possibly on a later line."""
        at = self._at
        self._skip(lines=True)
        if self._eat(sign):
            return True
        if not nested:
            self._at = at
        return False

    def _sequence(self, *, nested: bool) -> Node:
        items: list[Node] = []
        while True:
            self._skip(lines=nested)
            at = self._at
            item = self._item()
            if item is None:
                return self._pool.seq(*items) if items else self._pool.epsilon
            items.append(self._repeated(item, at))

    def _item(self) -> Node | None:
        if self._at >= len(self._text):
            return None
        letter = self._text[self._at]
        if letter == '"':
            return self._literal()
        if letter == "[":
            return self._class()
        if letter == ".":
            self._at += 1
            return char_set(self._pool, ANY_CHAR)
        if letter == "(":
            return self._group()
        if letter in _NAME:
            at = self._at
            name = self._name()
            self._used_at.setdefault(name, at)
            return self._reference(name)
        return None

    def _group(self) -> Node:
        at = self._at
        self._at += 1
        self._depth += 1
        if self._depth > _MOST_NESTING:
            raise ConstraintTooLarge(
                f"groups are nested more than {_MOST_NESTING} deep", position=at
            )
        self._skip(lines=True)
        node = self._choice(nested=True)
        self._skip(lines=True)
        if not self._eat(")"):
            raise self._invalid("a group is not closed", at)
        self._depth -= 1
        return node

    def _repeated(self, item: Node, at: int) -> Node:
        while True:
            for sign, (low, high) in {"*": (0, -1), "+": (1, -1), "?": (0, 1)}.items():
                if self._eat(sign):
                    item = self._pool.repeat(item, low, high)
                    break
            else:
                if not self._peek("{"):
                    return item
                item = self._pool.repeat(item, *self._bounds())
                if item is self._pool.never:
                    raise self._invalid("the bounds of a repeat are swapped", at)

    def _bounds(self) -> tuple[int, int]:
        at = self._at
        end = self._text.find("}", at)
        low, comma, high = self._text[at + 1 : end].partition(",")
        low, high = low.strip(), high.strip()
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise self._invalid("a repeat needs {m}, {m,} or {m,n}", at)
        if max(len(low), len(high)) > _MOST_DIGITS:
            raise ConstraintTooLarge(
                f"a repeat count has more than {_MOST_DIGITS} digits", position=at
            )
        self._at = end + 1
        return int(low), int(low) if not comma else int(high) if high else -1

    # -- characters ---------------------------------------------------------------------------

    def _character(self, closing: str, opened: int) -> str:
        if self._at >= len(self._text) or self._text[self._at] == "\n":
            raise self._invalid(f"{closing} is missing", opened)
        letter = self._text[self._at]
        self._at += 1
        if 0xD800 <= ord(letter) < 0xE000:
            raise self._invalid("half a surrogate pair", self._at - 1)
        if letter != "\\":
            return letter
        at = self._at - 1
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if kind in _HEX_ESCAPES:
            digits = self._text[self._at : self._at + _HEX_ESCAPES[kind]]
            self._at += len(digits)
            if len(digits) == _HEX_ESCAPES[kind] and all(d in string.hexdigits for d in digits):
                code = int(digits, 16)
                if code <= MAX_CODE_POINT and not 0xD800 <= code < 0xE000:
                    return chr(code)
            raise self._invalid(f"\\{kind}{digits} is not a character", at)
        if kind and not kind.isalnum():
            return kind
        if kind in _ESCAPES:
            return _ESCAPES[kind]
        raise self._invalid(f"unknown escape \\{kind}", at)

    def _literal(self) -> Node:
        opened = self._at
        self._at += 1
        letters: list[str] = []
        while not self._eat('"'):
            letters.append(self._character('"', opened))
        return self._pool.literal("".join(letters))

    def _class(self) -> Node:
        opened = self._at
        self._at += 1
        negative = self._eat("^")
        ranges: list[tuple[int, int]] = []
        while not self._eat("]"):
            low = ord(self._character("]", opened))
            high = low
            if self._peek("-") and not self._peek("-]"):
                self._at += 1
                high = ord(self._character("]", opened))
                if high < low:
                    raise self._invalid("a bad character range", opened)
            ranges.append((low, high))
        wanted = normalise(ranges)
        if not wanted and not negative:
            raise EmptyConstraint("an empty character class matches nothing", position=opened)
        return char_set(self._pool, invert(wanted) if negative else wanted)
