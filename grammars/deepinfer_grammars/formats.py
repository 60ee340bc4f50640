"""The `format` keyword: each known format as an expression.

Every expression accepts a subset of its RFC that the `jsonschema` checkers and Pydantic's types
accept as well. Formats that say nothing about validity (``password``, ``binary``, ...) and unknown
ones are left alone, as JSON Schema asks.
"""

from __future__ import annotations

from functools import cache

from .errors import SchemaNotSupported
from .expr import Pool
from .node import Node
from .regex import Encode, regex_node

_YEAR = "(?!0000)[0-9]{4}"
_LONG = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_FEBRUARY = "02-(?:0[1-9]|1[0-9]|2[0-8])"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = f"(?:{_YEAR}-(?:{_LONG}|{_SHORT}|{_FEBRUARY})|(?!0000){_LEAP}-02-29)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = f"{_CLOCK}{_OFFSET}"
_DAYS_TIME = (
    "T(?:[0-9]{1,6}H(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)"
)
_DURATION = f"P(?:[0-9]{{1,6}}D(?:{_DAYS_TIME})?|{_DAYS_TIME}|[0-9]{{1,6}}W)"
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})+"
_HEX = "[0-9A-Fa-f]{1,4}"
_PLAIN = "A-Za-z0-9\\-._~"
_SUB = "!$&'()*+,;="
_PERCENT = "%[0-9A-Fa-f]{2}"
_PCHAR = f"(?:[{_PLAIN}{_SUB}:@]|{_PERCENT})"
_PCHAR_NO_COLON = f"(?:[{_PLAIN}{_SUB}@]|{_PERCENT})"


def _ipv6() -> str:
    """RFC 4291 text forms: `::` at most once, and an IPv4 tail."""
    forms = [f"(?:{_HEX}:){{7}}{_HEX}", f"(?:{_HEX}:){{6}}{_IPV4}"]
    for left in range(8):
        head = f"{_HEX}(?::{_HEX}){{{left - 1}}}" if left else ""
        room = 7 - left
        tail = f"(?:{_HEX}(?::{_HEX}){{0,{room - 1}}})?" if room else ""
        forms.append(f"{head}::{tail}")
        if room >= 2:
            groups = f"(?:{_HEX}:){{0,{room - 2}}}"
            forms.append(f"{head}::{groups}{_IPV4}")
    return "(?:" + "|".join(forms) + ")"


def _uri(extra: str = "") -> tuple[str, str]:
    """RFC 3986 (with `extra` characters: RFC 3987): a URI, and a URI reference."""
    pchar = _PCHAR.replace("[", f"[{extra}", 1)
    first = _PCHAR_NO_COLON.replace("[", f"[{extra}", 1)
    user = f"(?:(?:[{extra}{_PLAIN}{_SUB}:]|{_PERCENT})*@)?"
    host = rf"(?:\[{_ipv6()}\]|(?:[{extra}{_PLAIN}{_SUB}]|{_PERCENT})*)"
    port = "(?::(?:[0-9]{1,4}|[1-5][0-9]{4}))?"
    empty_or_slash = f"(?:/{pchar}*)*"
    rest = rf"(?:\?(?:{pchar}|[/?])*)?(?:#(?:{pchar}|[/?])*)?"
    authority = f"//{user}{host}{port}{empty_or_slash}"
    absolute = f"/(?:{pchar}+{empty_or_slash})?"
    scheme = "[A-Za-z][A-Za-z0-9+.\\-]*"
    uri = f"{scheme}:(?:{authority}|{absolute}|{pchar}+{empty_or_slash})?{rest}"
    relative = f"(?:{authority}|{absolute}|{first}+{empty_or_slash})?{rest}"
    return uri, f"(?:{uri}|{relative})"


_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_INTERNATIONAL = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF"


def _uuid(version: int) -> str:
    """RFC 9562 with a fixed version and the standard variant."""
    digit = "[0-9a-fA-F]"
    return f"{digit}{{8}}-{digit}{{4}}-{version}{digit}{{3}}-[89abAB]{digit}{{3}}-{digit}{{12}}"


@cache
def _patterns() -> dict[str, str]:
    uri, uri_reference = _uri()
    iri, iri_reference = _uri(_INTERNATIONAL)
    return {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": _DURATION,
        "uuid": _UUID,
        **{f"uuid{version}": _uuid(version) for version in range(1, 9)},
        "email": _EMAIL,
        "idn-email": _EMAIL,
        "hostname": _HOSTNAME,
        "idn-hostname": _HOSTNAME,
        "ipv4": _IPV4,
        "ipv6": _ipv6(),
        "ipvanyaddress": f"(?:{_IPV4}|{_ipv6()})",
        "uri": uri,
        "uri-reference": uri_reference,
        "iri": iri,
        "iri-reference": iri_reference,
        "json-pointer": _POINTER,
        # Only numbers that jsonschema's checker takes too: it refuses any digit after a zero.
        "relative-json-pointer": f"(?:0|[1-9]+0?)(?:#|{_POINTER})",
    }


KNOWN_FORMATS: frozenset[str] = frozenset(_patterns())
_REFUSED: dict[str, str] = {
    "regex": "A pattern that is itself a valid regular expression is not regular",
    "uri-template": "Use format: uri, or a pattern",
}


def format_node(pool: Pool, name: str, encode: Encode) -> Node | None:
    """The texts of a format; None for formats that do not restrict anything.

    Args:
        pool: Where to build.
        name: The value of the `format` keyword.
        encode: How a set of characters is written.

    Raises:
        SchemaNotSupported: The format restricts texts but cannot be enforced.
    """
    if name in _REFUSED:
        raise SchemaNotSupported(f"format {name!r} cannot be enforced", hint=_REFUSED[name])
    if name not in KNOWN_FORMATS:
        return None
    return regex_node(pool, _patterns()[name], encode=encode)
