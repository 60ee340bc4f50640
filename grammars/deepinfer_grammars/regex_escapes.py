r"""Reads the letters of a pattern: escapes, character classes, and errors with their position.

Two dialects. ``"common"`` reads what Python's `re` and ECMA-262 have in common; where they differ
it takes the narrower reading, so that what matches here matches there: `\d \w \s` are the ASCII
characters and `\D \W \S` leave out the Unicode ones as well (`(?a)` and `(?u)` ask for exactly
the ASCII or the Unicode sets). ``"python"`` reads exactly as `re` does.
"""

from __future__ import annotations

import string
from unicodedata import lookup

from .char_sets import (
    ASCII_DIGITS,
    ASCII_SPACE,
    ASCII_WORD,
    ignore_case,
    property_set,
    unicode_set,
)
from .errors import ConstraintTooLarge, InvalidConstraint, SchemaNotSupported
from .regex_tree import Dialect, Flags
from .utf8 import MAX_CODE_POINT, Ranges, intersect, invert, normalise

_LONGEST = 1 << 20
_ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_ASCII: Ranges = ((0, 127),)


class Reader:
    """A position in a pattern, and the flags in force there.

    Args:
        pattern: The pattern.
        dialect: How to read what Python and ECMA-262 read differently.

    Raises:
        ConstraintTooLarge: It is longer than a megabyte.
    """

    def __init__(self, pattern: str, dialect: Dialect = "common") -> None:
        if len(pattern) > _LONGEST:
            raise ConstraintTooLarge(f"the pattern has {len(pattern)} characters")
        self._text = pattern
        self._at = 0
        self._python = dialect == "python"
        self._negated = False  # inside a negative lookahead, where narrower means wider
        self._flags = Flags(charset="unicode" if self._python else "common")

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

    # -- escapes

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
        wider = inverted != self._negated
        wide = charset == "unicode" or (charset == "common" and wider == (letter == lower))
        exact = "python s" if lower == "s" and self._python else lower
        named = unicode_set(exact) if wide else ascii_set
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
                f"the property {name!r} is used", at, "Use a general category or a script"
            )
        if self._flags.ignore_case:
            ranges = self._any_case(ranges)
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
        if letter == "N" and self._eat("{"):
            return self._character_name(at)
        if letter == "c" and self._at < len(self._text) and self._text[self._at].isascii():
            return ord(self._next("a control letter")) % 32
        if letter == "0":
            return self._octal("0")
        if letter.isascii() and letter.isalnum():
            raise self._invalid(f"unknown escape \\{letter}", at)
        return ord(letter)

    def _character_name(self, at: int) -> int:
        name, closed, _ = self._text[self._at :].partition("}")
        try:
            character = lookup(name) if closed else ""
        except KeyError:
            character = ""
        if len(character) != 1:
            raise self._invalid(f"\\N{{{name[:40]}}} is not a character", at)
        self._at += len(name) + 1
        return ord(character)

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
            digits += self._next("a digit")
        return int(digits, 8)

    def _any_case(self, ranges: Ranges) -> Ranges:
        """The set with the case variants that the flags in force ask for."""
        if self._flags.charset != "ascii":
            return ignore_case(ranges)
        letters = ignore_case(intersect(ranges, _ASCII))
        return normalise([*ranges, *intersect(letters, _ASCII)])

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
            result = self._any_case(result)
        return invert(result) if negative else result

    def _refuse_set_syntax(self, at: int) -> None:
        """POSIX classes and operations on sets, which other engines read as such."""
        if self._peek("[:") and ":]" in self._text[at : at + 20]:
            raise self._unsupported(
                "a POSIX class is used", at, "Write the characters out, such as [A-Za-z]"
            )
        if self._text[at : at + 3] in ("&&[", "--[", "~~[", "||["):
            raise self._unsupported(
                "an operation on sets is used", at, "Write the characters of the result out"
            )

    def _class_item(self, opened: int, *, inverted: bool) -> int | Ranges:
        if self._at >= len(self._text):
            raise self._invalid("a character class is not closed", opened)
        at = self._at
        self._refuse_set_syntax(at)
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
