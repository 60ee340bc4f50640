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
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = f"{_CLOCK}{_OFFSET}"
_DAYS_TIME = (
    "T(?:[0-9]{1,6}H(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)"
)
_DAYS = "[0-9]{1,6}D"
_MONTHS = f"[0-9]{{1,6}}M(?:{_DAYS})?"
_DAYS_DATE = f"(?:{_DAYS}|{_MONTHS}|[0-9]{{1,6}}Y(?:{_MONTHS})?)"
_DURATION = f"P(?:{_DAYS_DATE}(?:{_DAYS_TIME})?|{_DAYS_TIME}|[0-9]{{1,6}}W)"
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
# Pydantic refuses reserved names at the end, encoded labels, and more than 254 characters in all.
_MAIL_LABEL = "(?:[A-Za-z0-9]{1,63}|[A-Za-z0-9](?:-?[A-Za-z0-9]){0,31})"
_RESERVED = "(?i:arpa|invalid|local|localhost|onion|test)"
_MAIL_END = f"(?!{_RESERVED}$)[A-Za-z](?:[A-Za-z0-9]{{0,61}}|(?:-?[A-Za-z0-9]){{0,30}})[A-Za-z]"
_MAIL_DOMAIN = rf"(?=.{{1,189}}$){_MAIL_LABEL}(?:\.{_MAIL_LABEL})*\.{_MAIL_END}"
_EMAIL = rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@{_MAIL_DOMAIN}"
_HEX = "[0-9A-Fa-f]{1,4}"
_PLAIN = "A-Za-z0-9\\-._~"
_SUB = "!$&'()*+,;="
_PERCENT = "%[0-9A-Fa-f]{2}"
_SCHEME = "[A-Za-z][A-Za-z0-9+.\\-]*"
_PORT = "(?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
# No label may begin with xn--: what follows would have to decode.
_WEB_LABEL = "(?:[A-WYZa-wyz0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?|[Xx](?:-?[A-Za-z0-9_])*)"
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


def _generic(extra: str, ipv6: str) -> tuple[str, str]:
    """RFC 3986 (with `extra` characters: RFC 3987): what follows a scheme, and a relative one."""
    pchar = _PCHAR.replace("[", f"[{extra}", 1)
    first = _PCHAR_NO_COLON.replace("[", f"[{extra}", 1)
    user = f"(?:(?:[{extra}{_PLAIN}{_SUB}:]|{_PERCENT})*@)?"
    host = rf"(?:\[{ipv6}\]|(?:[{extra}{_PLAIN}{_SUB}]|{_PERCENT})+)"
    segments = f"(?:/{pchar}*)*"
    rest = rf"(?:\?(?:{pchar}|[/?])*)?(?:#(?:{pchar}|[/?])*)?"
    authority = f"//(?:{user}{host}{_PORT})?{segments}"
    absolute = f"/(?:{pchar}+{segments})?"
    return (
        f"(?:{authority}|{absolute}|{pchar}+{segments})?{rest}",
        f"(?:{authority}|{absolute}|{first}+{segments})?{rest}",
    )


def _uri() -> str:
    """RFC 3986; the schemes of the web also need what browsers and Pydantic ask of a host."""
    name = rf"(?:{_WEB_LABEL}\.)*(?![0-9]){_WEB_LABEL}"  # a number at the end would be an address
    host = rf"(?:{name}|{_IPV4}|\[{_ipv6()}\])"
    user = f"(?:(?:[{_PLAIN}{_SUB}:]|{_PERCENT})*@)?"
    rest = rf"(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
    web = f"(?i:https?|wss?|ftp)://{user}{host}{_PORT}{rest}"
    file = f"(?i:file)://(?:{host})?{rest}"
    other = f"(?!(?i:https?|wss?|ftp|file):){_SCHEME}:{_generic('', _ipv6())[0]}"
    return f"(?:{web}|{file}|{other})"


def _uri_template() -> str:
    """RFC 6570."""
    name = f"(?:[A-Za-z0-9_]|{_PERCENT})"
    variable = rf"{name}(?:\.?{name})*(?::[1-9][0-9]{{0,3}}|\*)?"
    expression = rf"\{{[+#./;?&]?{variable}(?:,{variable})*\}}"
    literal = f"(?:[!#$&(-;=?-\\[\\]_a-z~{_INTERNATIONAL}]|{_PERCENT})"
    return f"(?:{literal}|{expression})*"


_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_INTERNATIONAL = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF"


def _uuid(version: int) -> str:
    """RFC 9562 with a fixed version and the standard variant."""
    digit = "[0-9a-fA-F]"
    return f"{digit}{{8}}-{digit}{{4}}-{version}{digit}{{3}}-[89abAB]{digit}{{3}}-{digit}{{12}}"


def _pydantic_patterns() -> dict[str, str]:
    """Formats that only Pydantic writes and checks."""
    ipv6 = _ipv6()
    interface4 = f"{_IPV4}(?:/(?:[12]?[0-9]|3[0-2]))?"
    interface6 = f"{ipv6}(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"
    network4, network6 = _ipv4_network(), _ipv6_network()
    return {
        "ipvanyaddress": f"(?:{_IPV4}|{ipv6})",
        "ipv4interface": interface4,
        "ipv6interface": interface6,
        "ipvanyinterface": f"(?:{interface4}|{interface6})",
        "ipv4network": network4,
        "ipv6network": network6,
        "ipvanynetwork": f"(?:{network4}|{network6})",
        "base64": _base64("A-Za-z0-9+/"),
        "base64url": _base64("A-Za-z0-9_-"),
    }


def _base64(letters: str) -> str:
    """RFC 4648 with padding, whose unused bits are zero."""
    tail = f"[{letters}][AQgw]==|[{letters}]{{2}}[AEIMQUYcgkosw048]="
    return f"(?:[{letters}]{{4}})*(?:{tail})?"


def _ipv4_network() -> str:
    """Addresses whose bits beyond the prefix are zero."""
    forms = [f"{_IPV4}(?:/32)?"]
    for bits in range(32):
        whole, rest = divmod(bits, 8)
        step = 256 >> rest
        octets = [f"{_BYTE}\\."] * whole + ["(?:" + "|".join(map(str, range(0, 256, step))) + ")"]
        forms.append("".join(octets) + r"(?:\.0)" + f"{{{3 - whole}}}/{bits}")
    return "(?:" + "|".join(forms) + ")"


def _ipv6_network() -> str:
    """Single addresses, and full groups followed by `::` under a prefix that covers them."""
    forms = [f"{_ipv6()}(?:/128)?"]
    for groups in range(8):
        head = f"(?:{_HEX}:){{{groups}}}:" if groups else "::"
        bits = "|".join(map(str, range(16 * groups, 128)))
        forms.append(f"{head}/(?:{bits})")
    return "(?:" + "|".join(forms) + ")"


@cache
def _patterns() -> dict[str, str]:
    after_scheme, relative = _generic("", _ipv6())
    # The usual checker of IRIs does not know the `::` of IPv6 addresses.
    full_ipv6 = f"(?:{_HEX}:){{7}}{_HEX}"
    after_iri_scheme, relative_iri = _generic(_INTERNATIONAL, full_ipv6)
    iri = f"{_SCHEME}:{after_iri_scheme}"
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
        **_pydantic_patterns(),
        "uri": _uri(),
        "uri-reference": f"(?:{_SCHEME}:{after_scheme}|{relative})",
        "iri": iri,
        "iri-reference": f"(?:{iri}|{relative_iri})",
        "uri-template": _uri_template(),
        "json-pointer": _POINTER,
        # Only numbers that jsonschema's checker takes too: it refuses any digit after a zero.
        "relative-json-pointer": f"(?:0|[1-9]+0?)(?:#|{_POINTER})",
    }


@cache
def _as_specified() -> dict[str, str]:
    """Formats whose specification is wider than what common checkers and parsers take."""
    letters = f"A-Za-z0-9{_INTERNATIONAL}"
    # RFC 5321: quoted local parts and address literals; RFC 6531 adds letters of all scripts.
    quoted = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
    literal = rf"\[(?:{_IPV4}|IPv6:{_ipv6()})\]"
    domain = rf"{_LABEL}(?:\.{_LABEL})*"
    atom = _ATOM.replace("A-Za-z0-9", letters, 1)
    label = f"[{letters}](?:[{letters}-]{{0,61}}[{letters}])?"
    after_scheme, _ = _generic("", _ipv6())
    time = f"(?:{_CLOCK}(?:[Zz]|{_OFFSET})|{_leap_second()})"
    return {
        "time": time,
        "date-time": f"{_DATE}[Tt]{time}",
        "email": rf"(?:{_ATOM}(?:\.{_ATOM})*|{quoted})@(?:{domain}|{literal})",
        "idn-email": rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{label}(?:\.{label})*|{literal})",
        "uri": f"{_SCHEME}:{after_scheme}",
    }


def _leap_second() -> str:
    """RFC 3339, appendix D: second 60 is the last one of a day in UTC; quarter-hour offsets."""
    forms = ["23:59:60(?:\\.[0-9]{1,9})?[Zz]"]
    for quarter in range(24 * 4):
        offset = 15 * quarter
        for sign in (1, -1):
            local = (24 * 60 - 1 + sign * offset) % (24 * 60)
            clock = f"{local // 60:02}:{local % 60:02}:60(?:\\.[0-9]{{1,9}})?"
            forms.append(f"{clock}[{'+' if sign > 0 else '-'}]{offset // 60:02}:{offset % 60:02}")
    return "(?:" + "|".join(forms) + ")"


_WIDEST: dict[str, str] = {
    "date": "[0-9]{4}-?[0-9W].*",
    "time": "[0-9]{2}:?[0-9]{2}.*",
    "date-time": "[0-9]{4}-?[0-9]{2}-?[0-9]{2}.*",
    "duration": "[-+]?P.*",
    "uuid": "[0-9a-fA-F{urn:id-]{32,}.*",
    "email": ".*@.*",
    "idn-email": ".*@.*",
    "hostname": "[A-Za-z0-9._-]*",
    "ipv4": "[0-9.]*",
    "ipv6": "[0-9A-Fa-f:.]*(?:%.*)?",
    "uri": "[A-Za-z][A-Za-z0-9+.-]*:.*",
    "iri": "[A-Za-z][A-Za-z0-9+.-]*:.*",
    "json-pointer": "(?:/.*)?",
    "relative-json-pointer": "[0-9].*",
}
"""Texts without which no checker takes a format; what does not match them is surely not of it."""

KNOWN_FORMATS: frozenset[str] = frozenset(_patterns())
_REFUSED: dict[str, str] = {
    "regex": "A pattern that is itself a valid regular expression is not regular",
}
_ONLY_STRICT = "Use format: hostname, or formats='strict', which takes those of ASCII"


def format_node(pool: Pool, name: str, encode: Encode, *, strict: bool = True) -> Node | None:
    """The texts of a format; None for formats that do not restrict anything.

    Args:
        pool: Where to build.
        name: The value of the `format` keyword.
        encode: How a set of characters is written.
        strict: Take only what common checkers and parsers take too, such as no leap seconds.

    Raises:
        SchemaNotSupported: The format restricts texts but cannot be enforced.
    """
    if name in _REFUSED:
        raise SchemaNotSupported(f"format {name!r} cannot be enforced", hint=_REFUSED[name])
    if name not in KNOWN_FORMATS:
        return None
    if not strict and name == "idn-hostname":
        raise SchemaNotSupported(f"format {name!r} cannot be enforced in full", hint=_ONLY_STRICT)
    pattern = _patterns()[name] if strict else _as_specified().get(name, _patterns()[name])
    return regex_node(pool, pattern, encode=encode)


def not_format_node(pool: Pool, name: str, encode: Encode) -> Node:
    """Texts that no reading of a format takes (not all of them).

    Raises:
        SchemaNotSupported: Readings of the format differ too much to say.
    """
    if name not in _WIDEST:
        raise SchemaNotSupported(
            f"the negation of format {name!r} cannot be enforced",
            hint="Use a pattern, or formats='annotate'",
        )
    pattern = f"(?s:{_WIDEST[name]})"
    return pool.complement(regex_node(pool, pattern, encode=encode, widest=True))
