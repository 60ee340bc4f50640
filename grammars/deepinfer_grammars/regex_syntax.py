r"""Regular expression text to a small tree; errors carry the position in the pattern.

The language is the common subset of Python's `re` and ECMA-262. Where the two read a construct
differently, the narrower reading is taken, so that what matches here matches there:
`\d \w \s` are the ASCII characters and `\D \W \S` leave out the Unicode ones as well (`(?a)` and
`(?u)` ask for exactly the ASCII or the Unicode sets); `.` stands for no line terminator of either;
`$` is the end of the text.
"""

from __future__ import annotations

import string
from dataclasses import replace

from .char_sets import (
    ASCII_DIGITS,
    ASCII_SPACE,
    ASCII_WORD,
    LINE_ENDS,
    ignore_case,
    property_set,
    unicode_set,
)
from .errors import ConstraintTooLarge, InvalidConstraint, SchemaNotSupported
from .regex_tree import Anchor, Chars, Choice, Flags, Look, Repeat, Sequence, Tree
from .utf8 import MAX_CODE_POINT, Ranges, invert, normalise

_MOST_NESTING = 200
_LONGEST = 1 << 20
_MOST_REPEATS = 1_000_000
_ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}


class Parser:
    """Parses one pattern.

    Args:
        pattern: The pattern.

    Raises:
        ConstraintTooLarge: It is longer than a megabyte.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise ConstraintTooLarge(f"the pattern has {len(pattern)} characters")
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._flags = Flags()

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

    # -- helpers ------------------------------------------------------------------------------

    def _invalid(self, what: str, at: int | None = None) -> InvalidConstraint:
        return InvalidConstraint(
            f"{what} in the pattern {_short(self._text)}",
            position=self._at if at is None else at,
        )

    def _unsupported(self, what: str, at: int, hint: str | None = None) -> SchemaNotSupported:
        return SchemaNotSupported(
            f"{what} in the pattern {_short(self._text)}", position=at, hint=hint
        )

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _eat(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self, what: str) -> str:
        if self._at >= len(self._text):
            raise self._invalid(f"{what} is missing at the end")
        self._at += 1
        return self._text[self._at - 1]

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
            if self._flags.verbose and self._skip_comment():
                continue
            start = self._at
            item = self._item()
            if item is None:
                continue
            items.append(self._quantified(item, start))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _skip_comment(self) -> bool:
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
            while self._flags.verbose and self._at < len(self._text) and self._skip_comment():
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
                raise self._unsupported(
                    "a possessive quantifier is used", at, "Use the plain quantifier"
                )
            self._eat("?")  # lazy: the same language
            item = Repeat(item, *bounds, position=start)
            quantified = True
        return item

    def _quantifier(self) -> tuple[int, int] | None:
        for sign, bounds in (("*", (0, -1)), ("+", (1, -1)), ("?", (0, 1))):
            if self._eat(sign):
                return bounds
        if not self._peek("{"):
            return None
        at = self._at
        end = self._text.find("}", at)
        low, comma, high = self._text[at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not (low or comma) or not all(part.isascii() and part.isdigit() for part in (low, high)
                                         if part) or not (low or high):  # fmt: skip
            return None  # a brace that stands for itself
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
            return Chars(((0, MAX_CODE_POINT),) if self._flags.dot_all else invert(LINE_ENDS))
        if letter == "^":
            return Anchor("line_start" if self._flags.multiline else "start")
        if letter == "$":
            return Anchor("line_end" if self._flags.multiline else "end")
        if letter in "*+?":
            raise self._invalid("nothing to repeat", at)
        return self._literal(ord(letter))

    def _literal(self, code: int) -> Chars:
        ranges: Ranges = ((code, code),)
        return Chars(ignore_case(ranges) if self._flags.ignore_case else ranges)

    def _group(self, at: int) -> Tree | None:
        self._depth += 1
        if self._depth > _MOST_NESTING:
            raise ConstraintTooLarge(
                f"groups are nested more than {_MOST_NESTING} deep", position=at
            )
        outer = self._flags
        look: bool | None = None
        if self._eat("?"):
            if self._eat("=") or self._peek("!"):
                look = self._eat("!")
            elif self._eat("#"):
                end = self._text.find(")", self._at)
                if end < 0:
                    raise self._invalid("a comment is not closed", at)
                self._at = end + 1
                self._depth -= 1
                return None
            elif self._peek("<=") or self._peek("<!"):
                raise self._unsupported("a lookbehind is used", at, "Write the context out")
            elif self._eat("P<") or self._eat("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise self._invalid(f"the group name {name[:20]!r} is not a name", at)
                self._at += len(name) + 1
            elif self._peek("P=") or self._peek("P>") or self._peek("(") or self._peek("R"):
                raise self._unsupported("a backreference, condition or recursion is used", at)
            elif self._peek(">"):
                raise self._unsupported("an atomic group is used", at, "Use (?:...)")
            elif not self._eat(":") and self._inline_flags(at):
                self._depth -= 1
                return None
        tree = self._choice()
        if not self._eat(")"):
            raise self._invalid("a group is not closed", at)
        self._flags = outer
        self._depth -= 1
        return tree if look is None else Look(tree, look)

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
            return Anchor("word" if letter == "b" else "no_word")
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

    def _named_set(self, letter: str, at: int, *, inverted: bool = False) -> Ranges | None:
        r"""The set of ``\d``, ``\W``, ``\p{...}`` and so on, or None.

        Inside ``[^...]`` the wider reading is the one that lets the whole class be narrower.
        """
        if letter in "pP":
            return self._property(letter == "P", at)
        lower = letter.lower()
        if lower not in ("d", "w", "s"):
            return None
        ascii_set = {"d": ASCII_DIGITS, "w": ASCII_WORD, "s": ASCII_SPACE}[lower]
        charset = self._flags.charset
        wide = charset == "unicode" or (charset == "common" and inverted == (letter == lower))
        named = unicode_set(lower) if wide else ascii_set
        return named if letter == lower else invert(named)

    def _property(self, negative: bool, at: int) -> Ranges:
        name = self._next("a property")
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._invalid("a property is not closed", at)
            name = self._text[self._at : end]
            self._at = end + 1
        ranges = property_set(name)
        if ranges is None:
            raise self._unsupported(
                f"the property {name!r} is used", at, "Use a general category such as \\p{Lu}"
            )
        return invert(ranges) if negative else ranges

    def _code(self, letter: str, at: int) -> int:
        """The code point of an escape that stands for one character."""
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter in "xU":
            return self._hex(2 if letter == "x" else 8, at)
        if letter == "u":
            if self._eat("{"):
                digits, closed, _ = self._text[self._at :].partition("}")
                code = int(digits, 16) if closed and _is_hex(digits) else MAX_CODE_POINT + 1
                if code > MAX_CODE_POINT:
                    raise self._invalid("\\u{...} is not a code point", at)
                self._at += len(digits) + 1
                return code
            code = self._hex(4, at)
            if 0xD800 <= code < 0xDC00 and self._eat("\\u"):
                low = self._hex(4, at)
                if not 0xDC00 <= low < 0xE000:
                    raise self._invalid("half a surrogate pair", at)
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            return code
        if letter == "c" and self._at < len(self._text) and self._text[self._at].isascii():
            return ord(self._next("a control letter")) % 32
        if letter == "0":
            return self._octal("0")
        if letter.isascii() and letter.isalnum():
            raise self._invalid(f"unknown escape \\{letter}", at)
        return ord(letter)

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
            digits += self._next("a digit")
        return int(digits, 8)

    def _hex(self, count: int, at: int) -> int:
        digits = self._text[self._at : self._at + count]
        if len(digits) != count or not _is_hex(digits):
            raise self._invalid("an escape lacks hexadecimal digits", at)
        self._at += count
        if int(digits, 16) > MAX_CODE_POINT:
            raise self._invalid("an escape is beyond the last code point", at)
        return int(digits, 16)

    def _class(self, at: int) -> Ranges:
        negative = self._eat("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._peek("]"):
            first = False
            start = self._at
            low = self._class_item(at, inverted=negative)
            if isinstance(low, tuple):
                ranges += low
                continue
            if self._peek("-") and not self._text.startswith("]", self._at + 1):
                self._at += 1
                high = self._class_item(at, inverted=negative)
                if isinstance(high, tuple) or high < low:
                    raise self._invalid("a bad character range", start)
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        self._at += 1
        result = normalise(ranges)
        if self._flags.ignore_case:
            result = ignore_case(result)
        return invert(result) if negative else result

    def _class_item(self, opened: int, *, inverted: bool) -> int | Ranges:
        if self._at >= len(self._text):
            raise self._invalid("a character class is not closed", opened)
        at = self._at
        letter = self._next("a character")
        if letter != "\\":
            return ord(letter)
        escaped = self._next("an escaped character")
        if escaped == "b":
            return 8
        named = self._named_set(escaped, at, inverted=inverted)
        if named is not None:
            return named
        if escaped in "1234567":
            return self._octal(escaped)
        return self._code(escaped, at)


def _is_hex(digits: str) -> bool:
    return bool(digits) and all(c in string.hexdigits for c in digits)


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")
