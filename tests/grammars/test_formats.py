"""Formats: random accepted texts are valid to every library that checks them."""

import datetime
import ipaddress
import random
import uuid

import pytest
from deepinfer_grammars import Grammar, SchemaNotSupported, TokenAutomaton, Vocabulary
from deepinfer_grammars.formats import KNOWN_FORMATS, format_node
from deepinfer_grammars.utf8 import char_set
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, Base64Bytes, Base64UrlBytes, TypeAdapter

BYTES = Vocabulary([*[bytes([byte]) for byte in range(256)], None], [256])
PARSERS = {
    "date": TypeAdapter(datetime.date).validate_python,
    "time": TypeAdapter(datetime.time).validate_python,
    "date-time": TypeAdapter(datetime.datetime).validate_python,
    "duration": TypeAdapter(datetime.timedelta).validate_python,
    "uuid": uuid.UUID,
    "uuid4": lambda text: uuid.UUID(text).version == 4 or pytest.fail(text),
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "ipvanyaddress": ipaddress.ip_address,
    "ipv4network": ipaddress.IPv4Network,
    "ipv6network": ipaddress.IPv6Network,
    "ipvanynetwork": ipaddress.ip_network,
    "ipv4interface": ipaddress.IPv4Interface,
    "ipv6interface": ipaddress.IPv6Interface,
    "ipvanyinterface": ipaddress.ip_interface,
    "base64": TypeAdapter(Base64Bytes).validate_python,
    "base64url": TypeAdapter(Base64UrlBytes).validate_python,
    "uri": TypeAdapter(AnyUrl).validate_python,
}


def grammar_of(name):
    def build(pool):
        node = format_node(pool, name, char_set)
        assert node is not None
        return node

    return Grammar(build, name)


def samples(name, count, prefix=""):
    """Random accepted texts that begin with `prefix`."""
    automaton = TokenAutomaton(grammar_of(name), BYTES)
    for seed in range(count):
        rng = random.Random(f"{name} {seed}")
        state, out = automaton.start, prefix.encode()
        for byte in out:
            state = automaton.advance(state, byte)
        left = rng.randint(1, 40) + automaton.fewest_tokens(state)
        while not automaton.complete(state):
            token = rng.choice(BYTES.unpack(automaton.mask(state, left)))
            if token == 256:
                break
            state, left = automaton.advance(state, token), left - 1
            out += bytes([token])
        yield out.decode()


@pytest.mark.parametrize("name", sorted(KNOWN_FORMATS))
def test_accepted_texts_are_valid(name):
    checker = Draft202012Validator.FORMAT_CHECKER
    for text in samples(name, 60):
        if name in checker.checkers:
            assert checker.conforms(text, name), text
        if name in PARSERS:
            PARSERS[name](text)


def test_the_format_checkers_are_installed():
    """Without them the test above would check nothing."""
    wanted = {"date", "time", "date-time", "duration", "uri", "iri", "hostname", "json-pointer"}
    assert wanted <= Draft202012Validator.FORMAT_CHECKER.checkers.keys()


@pytest.mark.parametrize(
    ("name", "takes", "refuses"),
    [
        ("date", ["2024-02-29", "0001-01-01", "2000-02-29"],
         ["2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "0000-01-01", "2024-1-1"]),
        ("time", ["23:59:59Z", "00:00:00.123456+05:30"], ["24:00:00Z", "23:59:59", "1:00:00Z"]),
        ("date-time", ["2026-12-01T05:22:38Z"], ["2026-12-01 05:22:38Z", "2026-12-01T05:22:38"]),
        ("duration", ["P1DT2H", "PT5M", "P3W", "P1Y2M3DT4H5M6S", "P2M"],
         ["P", "PT", "P1DT", "1D", "P1D2M", "PT1H1S1M"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426655440000"], ["123e4567e89b12d3a456426655440000"]),
        ("email", ["a.b+c@example.org", "x@a-b.c-d.localx"],
         ["a@b@c.org", ".a@example.org", "a@example", "a b@c.de", "a@x.local", "a@x-.de",
          "a" * 65 + "@example.org"]),
        ("hostname", ["a-b.example"], ["-a.example", "a..b", "a" * 64 + ".x"]),
        ("ipv4", ["0.0.0.0", "255.1.2.3"], ["256.1.1.1", "1.1.1", "01.1.1.1"]),
        ("ipv6", ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2", "::ffff:1.2.3.4"],
         ["1::2::3", "1:2:3:4:5:6:7", "12345::", ":::", "1:2:3:4:5:6:7:8:9"]),
        ("uri", ["https://example.com/a?b=c#d", "mailto:x@y.z", "urn:a:b"],
         ["//example.com", "not a uri", "http://exa mple.com", "x", "http:///a", "http://a:70000",
          "http://1.2.3.400", "http:a", "HTTPS://u@", "https://xn--a"]),
        ("ipv4network", ["10.0.0.0/8", "1.2.3.4", "1.2.3.128/25"], ["10.0.0.1/8", "1.2.3.4/33"]),
        ("ipv6network", ["2001:db8::/32", "::/0", "::1/128"], ["::1/0", "1::1/64", "::/129"]),
        ("base64", ["", "YQ==", "YWI=", "YWJj"], ["YQ", "YR==", "a", "Y-Jj"]),
        ("uri-reference", ["/a/b", "x", "#f", "?q", ""], ["a b", "http://[::1"]),
        ("json-pointer", ["", "/a~1b/~0"], ["a", "/~2"]),
        ("relative-json-pointer", ["0", "1/a", "2#"], ["01", "/a", "-1"]),
    ],
)  # fmt: skip
def test_near_misses(name, takes, refuses):
    grammar = grammar_of(name)
    for text in takes:
        assert grammar.accepts(text), text
    for text in refuses:
        assert not grammar.accepts(text), text


def test_every_date_of_some_years_is_accepted():
    grammar = grammar_of("date")
    for year in (1600, 1900, 2000, 2023, 2024, 9999):
        day = datetime.date(year, 1, 1)
        while day.year == year:
            assert grammar.accepts(day.isoformat())
            if (day.month, day.day) == (12, 31):
                break
            day += datetime.timedelta(days=1)


@pytest.mark.parametrize(
    "prefix", ["http://", "https://a", "ftp://x", "file://", "x://", "http://[", "ws://u@h:", "a:"]
)
def test_pydantic_and_the_checker_take_accepted_urls(prefix):
    checker = Draft202012Validator.FORMAT_CHECKER
    for text in samples("uri", 40, prefix):
        PARSERS["uri"](text)
        assert checker.conforms(text, "uri"), text
    for name in ("iri", "uri-reference", "iri-reference"):
        for text in samples(name, 15, prefix):
            assert checker.conforms(text, name), (name, text)


def test_formats_that_do_not_restrict_are_left_alone_and_others_refused():
    grammar = grammar_of("date")
    assert format_node(grammar.pool, "password", char_set) is None
    assert format_node(grammar.pool, "made-up", char_set) is None
    with pytest.raises(SchemaNotSupported, match="regex"):
        format_node(grammar.pool, "regex", char_set)
