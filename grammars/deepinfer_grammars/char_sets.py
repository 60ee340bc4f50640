"""Sets of characters that regular expressions name: classes, Unicode categories, case variants."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cache, lru_cache
from unicodedata import category

from outlines_core import Index, Vocabulary

from .utf8 import MAX_CODE_POINT, Ranges, normalise

# Pairs with one upper case form of several characters, which `re` takes for each other.
_SAME_UPPER = {
    0x390: frozenset({0x1FD3}), 0x3B0: frozenset({0x1FE3}), 0xFB05: frozenset({0xFB06}),
}  # fmt: skip
_LAST_CASED = 0x1FFFF  # Unicode keeps its cased scripts below
_LONG_NAMES = {
    "Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Mark": "M", "Number": "N",
    "Decimal_Number": "Nd", "Punctuation": "P", "Symbol": "S", "Separator": "Z",
}  # fmt: skip
_PROPERTY = re.compile("[A-Za-z0-9_]+(=[A-Za-z0-9_]+)?")

ASCII_DIGITS: Ranges = ((48, 57),)
ASCII_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
ASCII_SPACE: Ranges = ((9, 13), (32, 32))
LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))


@cache
def unicode_set(name: str) -> Ranges:
    """The Unicode set of ``d``, ``w``, ``s``, or of a general category such as ``Lu``.

    ``s`` is white space of Python or ECMA-262, ``python s`` that of Python alone.
    """
    tests = {
        "d": str.isdecimal,
        "w": lambda c: c.isalnum() or c == "_",
        "s": lambda c: c.isspace() or c == "\ufeff",
        "python s": str.isspace,
    }
    test = tests.get(name) or (lambda c: category(c).startswith(name))
    return _scan(code for code in range(MAX_CODE_POINT + 1) if test(chr(code)))


def _scan(codes: Iterable[int]) -> Ranges:
    ranges: list[tuple[int, int]] = []
    first = last = -2
    for code in codes:
        if code == last + 1:
            last = code
            continue
        if first >= 0:
            ranges.append((first, last))
        first = last = code
    return (*ranges, (first, last)) if first >= 0 else tuple(ranges)


@cache
def _case_groups() -> dict[int, frozenset[int]]:
    """Characters that ignore-case matching takes for each other (simple case mappings)."""
    groups: dict[int, set[int]] = {}
    for code in range(_LAST_CASED + 1):
        character = chr(code)
        if character.lower() == character.upper() and code not in _SAME_UPPER:
            continue  # most characters have no case
        variants = {code}
        for other in (character.lower(), character.upper(), character.lower().upper()):
            if len(other) == 1:
                variants.add(ord(other))
        if code == 0x130:  # its lower case is two characters; the simple mapping is i
            variants.add(ord("i"))
        variants |= _SAME_UPPER.get(code, frozenset())
        if len(variants) > 1:
            merged = set().union(*(groups.get(variant, {variant}) for variant in variants))
            for variant in merged:
                groups[variant] = merged
    return {code: frozenset(group) for code, group in groups.items()}


@cache
def _cased() -> list[int]:
    """The characters that have case variants, in order."""
    return sorted(_case_groups())


@lru_cache(maxsize=4096)
def ignore_case(ranges: Ranges) -> Ranges:
    """The set with all case variants of its characters."""
    groups, cased = _case_groups(), _cased()
    extra = [
        (variant, variant)
        for first, last in ranges
        for code in cased[bisect_left(cased, first) : bisect_right(cased, last)]
        for variant in groups[code]
    ]
    return normalise([*ranges, *extra])


def property_set(name: str) -> Ranges | None:
    """The characters of a Unicode property, None if it is not known.

    General categories are those of Python's Unicode version (``Lu``, ``General_Category=Letter``);
    scripts and binary properties (``Script=Greek``, ``scx=Han``, ``Alphabetic``) those of the
    tables in outlines-core.
    """
    kind, equals, value = name.partition("=")
    if equals and kind in ("General_Category", "gc"):
        name = value
    short = _LONG_NAMES.get(name, name)
    if short in ("Any", "ASCII"):
        return ((0, MAX_CODE_POINT if short == "Any" else 127),)
    if 1 <= len(short) <= 2 and short[0] in "LMNPSZC" and short.isalpha():
        return unicode_set(short) or None
    return _table_set(name) if _PROPERTY.fullmatch(name) else None


@cache
def _table_set(name: str) -> Ranges | None:
    """The characters of a property from the tables in outlines-core, read off its automaton."""
    single_bytes = Vocabulary(256, {bytes([byte]): [byte] for byte in range(256)})
    try:
        index = Index(rf"\p{{{name}}}", single_bytes)
    except ValueError:
        return None
    transitions, final = index.get_transitions(), index.get_final_states()
    codes: list[int] = []
    stack = [(index.get_initial_state(), b"")]
    while stack:
        state, data = stack.pop()
        if state in final:
            codes.append(ord(data.decode()))
            continue
        ways = sorted(transitions[state].items(), reverse=True)
        stack += [(after, data + bytes([byte])) for byte, after in ways if byte < 256]
    return _scan(codes)
