"""Regular expression text to a small tree; errors carry the position in the pattern.

What differs between Python's `re` and ECMA-262 is read as `regex_escapes` describes. In the common
dialect `.` stands for no line terminator of either, and `$` is the end of the text.
"""

from __future__ import annotations

import re
import string
from dataclasses import replace

from .char_sets import LINE_ENDS
from .errors import ConstraintTooLarge
from .regex_escapes import Reader
from .regex_tree import (
    Anchor,
    Behind,
    Chars,
    Choice,
    Dialect,
    Look,
    Repeat,
    Sequence,
    Tree,
)
from .utf8 import MAX_CODE_POINT, Ranges, invert

_PLAIN = re.compile(r"[^\\\[\](){}.*+?^$|]+")
_MOST_NESTING = 200
_MOST_REPEATS = 1_000_000
_NEWLINE: Ranges = ((10, 10),)


class Parser(Reader):
    """Parses one pattern.

    Args:
        pattern: The pattern.
        dialect: How to read what Python and ECMA-262 read differently.
        negated: Whether the complement of the pattern is wanted, so that narrower means wider.

    Raises:
        ConstraintTooLarge: It is longer than a megabyte.
    """

    def __init__(self, pattern: str, dialect: Dialect = "common", *, negated: bool = False) -> None:
        super().__init__(pattern, dialect)
        self._negated = negated
        self._depth = 0

    def parse(self) -> Tree:
        """The tree of the whole pattern.

        Raises:
            InvalidConstraint: Malformed, with the position.
            SchemaNotSupported: Not regular, or not in the common subset.
            ConstraintTooLarge: Nested too deeply.
        """
        tree = self._choice()
        if self._at < len(self._text):
            raise self._invalid("unbalanced parenthesis")
        return tree

    # -- grammar ------------------------------------------------------------------------------

    def _choice(self) -> Tree:
        flags = self._flags
        options = [self._sequence()]
        while self._eat("|"):
            options.append(self._sequence())
        self._flags = flags
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Tree:
        items: list[Tree] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._skip_comment():
                continue
            if not self._flags.verbose and (letters := self._plain_letters()):
                items += letters
                continue
            start = self._at
            item = self._item()
            if item is None:
                continue
            items.append(self._quantified(item, start))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _plain_letters(self) -> list[Tree]:
        """A run of letters that stand for themselves, up to one that may be quantified."""
        run = _PLAIN.match(self._text, self._at)
        if run is None:
            return []
        end = run.end()
        if end < len(self._text) and self._text[end] in "*+?{(":  # ( may begin a comment
            end -= 1
        letters: list[Tree] = [self._literal(ord(c)) for c in self._text[self._at : end]]
        self._at = end
        return letters

    def _skip_comment(self) -> bool:
        if self._peek("(?#"):
            end = self._text.find(")", self._at)
            if end < 0:
                raise self._invalid("a comment is not closed")
            self._at = end + 1
            return True
        if not self._flags.verbose:
            return False
        if self._text[self._at] in string.whitespace:
            self._at += 1
            return True
        if self._peek("#"):
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end + 1
            return True
        return False

    def _quantified(self, item: Tree, start: int) -> Tree:
        quantified = False
        while self._at < len(self._text):
            while self._at < len(self._text) and self._skip_comment():
                pass
            at = self._at
            bounds = self._quantifier()
            if bounds is None:
                return item
            if isinstance(item, Anchor) and self._text[start] != "(":
                raise self._invalid("nothing to repeat", at)
            if quantified:
                raise self._invalid("multiple repeat", at)
            if self._eat("+"):
                item = self._possessive(item, bounds, start, at)
            else:
                item = Repeat(item, *bounds, position=start, lazy=self._eat("?"))
            quantified = True
        return item

    def _possessive(self, item: Tree, bounds: tuple[int, int], start: int, at: int) -> Tree:
        """All that fits or nothing: no more of a character may follow, except at the most."""
        if not isinstance(item, Chars):
            raise self._unsupported(
                "a possessive quantifier stands after more than one character",
                at,
                "Use the plain quantifier",
            )
        low, high = bounds
        fewer = Repeat(item, low, max(high - 1, -1), start, lazy=False)
        some = Sequence((fewer, Look(self._other_reading(start), True, at)))
        if high < 0:
            return some
        most = Repeat(item, high, high, start, lazy=False)
        return Choice((most, some)) if low < high else most

    def _other_reading(self, start: int) -> Tree:
        """The item at `start` as it is read where narrower means wider."""
        end = self._at
        self._at, self._negated = start, not self._negated
        item = self._item()
        self._at, self._negated = end, not self._negated
        return item or Sequence(())

    def _quantifier(self) -> tuple[int, int] | None:
        for sign, bounds in (("*", (0, -1)), ("+", (1, -1)), ("?", (0, 1))):
            if self._eat(sign):
                return bounds
        if not self._peek("{"):
            return None
        at = self._at
        end = self._text.find("}", at)
        low, comma, high = self._text[at + 1 : end].partition(",") if end > 0 else ("", "", "")
        numbers = [part for part in (low, high) if part]
        if not (numbers or comma) or not all(p.isascii() and p.isdigit() for p in numbers):
            return None  # a brace that stands for itself
        if max(len(low), len(high)) > len(str(_MOST_REPEATS)):
            raise ConstraintTooLarge(f"a repeat is more than {_MOST_REPEATS}", position=at)
        self._at = end + 1
        least = int(low) if low else 0
        most = least if not comma else int(high) if high else -1
        if 0 <= most < least:
            raise self._invalid("the bounds of a repeat are swapped", at)
        if max(least, most) > _MOST_REPEATS:
            raise ConstraintTooLarge(
                f"a repeat of {max(least, most)} is more than {_MOST_REPEATS}", position=at
            )
        return least, most

    def _item(self) -> Tree | None:
        at = self._at
        letter = self._next("an item")
        if letter == "(":
            return self._group(at)
        if letter == "[":
            return Chars(self._class(at))
        if letter == "\\":
            return self._escape(at)
        if letter == ".":
            line_ends = _NEWLINE if self._python or self._negated else LINE_ENDS
            return Chars(((0, MAX_CODE_POINT),) if self._flags.dot_all else invert(line_ends))
        if letter == "^":
            return Anchor("line_start" if self._flags.multiline else "start")
        if letter == "$":
            if self._flags.multiline:
                return Anchor("line_end")
            return Anchor("last_line_end" if self._python or self._negated else "end")
        self._at = at
        if self._quantifier() is not None:
            raise self._invalid("nothing to repeat", at)
        self._at = at + 1
        return self._literal(ord(letter))

    def _literal(self, code: int) -> Chars:
        ranges: Ranges = ((code, code),)
        return Chars(self._any_case(ranges) if self._flags.ignore_case else ranges)

    def _group(self, at: int) -> Tree | None:
        self._depth += 1
        if self._depth > _MOST_NESTING:
            raise ConstraintTooLarge(
                f"groups are nested more than {_MOST_NESTING} deep", position=at
            )
        outer = self._flags
        look: bool | None = None
        behind: bool | None = None
        atomic = False
        if self._eat("?"):
            if self._eat("=") or self._peek("!"):
                look = self._eat("!")
            elif self._eat("<=") or self._peek("<!"):
                behind = self._eat("<!")
            elif self._eat("P<") or self._eat("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise self._invalid(f"the group name {name[:20]!r} is not a name", at)
                self._at += len(name) + 1
            elif self._peek("P=") or self._peek("P>") or self._peek("(") or self._peek("R"):
                raise self._unsupported("a backreference, condition or recursion is used", at)
            elif self._eat(">"):
                atomic = True
            elif not self._eat(":") and self._inline_flags(at):
                self._depth -= 1
                return None
        outer_negated = self._negated
        self._negated ^= look is True or behind is True
        tree = self._choice()
        self._negated = outer_negated
        if not self._eat(")"):
            raise self._invalid("a group is not closed", at)
        self._flags = outer
        self._depth -= 1
        if atomic and isinstance(tree, Repeat) and not tree.lazy and isinstance(tree.item, Chars):
            return self._possessive(tree.item, (tree.low, tree.high), at + len("(?>"), at)
        if atomic and not _one_way(tree):
            raise self._unsupported("an atomic group has several ways to match", at, "Use (?:...)")
        if behind is not None:
            if not isinstance(tree, Chars):
                raise self._unsupported(
                    "a lookbehind at more than one character is used", at, "Write the context out"
                )
            return Behind(tree.ranges, behind, at)
        return tree if look is None else Look(tree, look, at)

    def _inline_flags(self, at: int) -> bool:
        """Read ``i-m:`` or ``i)``; True if the flags hold to the end of the enclosing group."""
        names = {"i": "ignore_case", "s": "dot_all", "m": "multiline", "x": "verbose"}
        flags, on = self._flags, True
        while True:
            letter = self._next("a flag")
            if letter in ":)":
                break
            if letter == "-" and on:
                on = False
            elif letter in names:
                flags = replace(flags, **{names[letter]: on})  # type: ignore[arg-type]
            elif letter in "au" and on:
                flags = replace(flags, charset="ascii" if letter == "a" else "unicode")
            else:
                raise self._invalid(f"unknown extension or flag {letter!r}", at)
        self._flags = flags
        return letter == ")"

    # -- escapes and classes ------------------------------------------------------------------

    def _escape(self, at: int) -> Tree:
        letter = self._next("an escaped character")
        if letter in "bB":
            wider = self._negated and self._flags.charset == "common"
            charset = "either" if wider else self._flags.charset
            return Anchor("word" if letter == "b" else "no_word", charset)
        if letter == "A":
            return Anchor("start")
        if letter in "zZ":
            return Anchor("end")
        if letter in "123456789" or (letter == "k" and self._peek("<")):
            octal = self._text[at + 1 : at + 4]
            if len(octal) == 3 and all(c in "01234567" for c in octal) and octal[0] in "123":
                self._at = at + 4
                return self._literal(int(octal, 8))
            raise self._unsupported("a backreference is used", at, "Write the alternatives out")
        ranges = self._named_set(letter, at)
        if ranges is not None:
            return Chars(ranges)
        return self._literal(self._code(letter, at))


def _one_way(tree: Tree) -> bool:
    """Whether a part has one way only to match at a place."""
    if isinstance(tree, Sequence):
        return all(_one_way(item) for item in tree.items)
    if isinstance(tree, Repeat):
        return tree.low == tree.high and _one_way(tree.item)
    return isinstance(tree, Chars | Anchor | Behind | Look)
