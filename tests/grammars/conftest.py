"""Shared helpers of the grammar tests: small vocabularies and matching by bytes."""

import random

import pytest
from deepinfer_grammars import TokenAutomaton, Vocabulary


@pytest.fixture(scope="session")
def vocabulary():
    """All single bytes, common JSON pieces, parts of characters; the last id ends the text."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [
        b'{"', b'":', b'": ', b'", "', b'"}', b"[[", b"]]", b", ", b"null", b"true", b"false",
        b"name", b"age", b"the ", b" the", b"ing", b"12", b"123", b"-1", b".5", b"00", b'\\"',
        b"\\n", b"\\u", b"\xc3\xa9", b"\xe2\x82", b"\x82\xac", b"\xf0\x9f", b"\x98\x80",
        b"\xf0\x9f\x98\x80", b"        ", b"\n\n", b"ab", b"abc", b"aaaa", b'a"', b'""',
    ]  # fmt: skip
    pieces += [b"ab", None, None]  # a twin, a special token, the end of the text
    return Vocabulary(pieces, [len(pieces) - 1])


class Walker:
    """Random walks that only follow masks."""

    def __init__(self, automaton, seed):
        self.automaton = automaton
        self.random = random.Random(seed)
        self.eos = set(automaton.vocabulary.eos_ids)

    def text(self, budget):
        """A text made of at most `budget` tokens, every one drawn from the mask."""
        automaton = self.automaton
        state, out = automaton.start, b""
        while not automaton.complete(state):
            allowed = automaton.vocabulary.unpack(automaton.mask(state, budget))
            assert allowed, f"dead end after {out!r} with {budget} tokens left"
            assert bool(self.eos & set(allowed)) == automaton.accepting(state)
            token = self.random.choice(allowed)
            if token in self.eos:
                break
            state = automaton.advance(state, token)
            out += automaton.vocabulary.tokens[token]
            budget -= 1
        assert budget >= 0
        assert automaton.accepting(state)
        return out


@pytest.fixture
def walker(vocabulary):
    def make(grammar, seed=0):
        return Walker(TokenAutomaton(grammar, vocabulary), seed)

    return make
