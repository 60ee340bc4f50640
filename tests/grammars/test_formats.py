"""Formats: random accepted texts are valid to every library that checks them."""

import datetime
import ipaddress
import random
import re
import uuid

import pytest
from deepinfer_grammars import Grammar, SchemaNotSupported, TokenAutomaton, Vocabulary
from deepinfer_grammars.formats import KNOWN_FORMATS, format_node
from deepinfer_grammars.utf8 import char_set
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, TypeAdapter, ValidationError

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
}


def grammar_of(name):
    def build(pool):
        node = format_node(pool, name, char_set)
        assert node is not None
        return node

    return Grammar(build, name)


def samples(name, count):
    automaton = TokenAutomaton(grammar_of(name), BYTES)
    for seed in range(count):
        rng = random.Random(f"{name} {seed}")
        state, out = automaton.start, b""
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
        ("duration", ["P1DT2H", "PT5M", "P3W"], ["P", "PT", "P1DT", "1D"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426655440000"], ["123e4567e89b12d3a456426655440000"]),
        ("email", ["a.b+c@example.org"], ["a@b@c.org", ".a@example.org", "a@example", "a b@c.de"]),
        ("hostname", ["a-b.example"], ["-a.example", "a..b", "a" * 64 + ".x"]),
        ("ipv4", ["0.0.0.0", "255.1.2.3"], ["256.1.1.1", "1.1.1", "01.1.1.1"]),
        ("ipv6", ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2", "::ffff:1.2.3.4"],
         ["1::2::3", "1:2:3:4:5:6:7", "12345::", ":::", "1:2:3:4:5:6:7:8:9"]),
        ("uri", ["https://example.com/a?b=c#d", "mailto:x@y.z", "urn:a:b"],
         ["//example.com", "not a uri", "http://exa mple.com", "x"]),
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


def test_pydantic_takes_accepted_urls():
    parse = TypeAdapter(AnyUrl).validate_python
    refused = []
    for text in samples("uri", 60):
        if re.match(r"[a-z]+://[a-z0-9.]+/", text):
            try:
                parse(text)
            except ValidationError:
                refused.append(text)
    assert not refused


def test_formats_that_do_not_restrict_are_left_alone_and_others_refused():
    grammar = grammar_of("date")
    assert format_node(grammar.pool, "password", char_set) is None
    assert format_node(grammar.pool, "made-up", char_set) is None
    with pytest.raises(SchemaNotSupported, match="regex"):
        format_node(grammar.pool, "regex", char_set)
