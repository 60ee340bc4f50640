"""The embedded model's tokenizer against a naive one, written from the rules of GPT-2's BPE."""

import itertools
import re
import string

import pytest
from deepinfer_engine import Tokenizer
from deepinfer_engine.gguf_header import read_header
from hypothesis import example, given, settings
from hypothesis import strategies as st

LETTERS = string.ascii_letters + "éßøА中日한क"
DIGITS = "0159" + "½²٣"
SPACES = " \n\t\r\u3000\xa0"
OTHERS = "'!?.-_{}<>|=\x00" + "😀\u0301\u200d\ufeff∑"
CONTROLS = ["<|im_end|>", "<|im_start|>user", "<repo_name>", "<|endoftext|>"]

# GPT-2's pattern over the alphabet above; \p{L}, \p{N} and \s spelled out, digits one by one.
_L, _N, _S = f"[{LETTERS}]", f"[{DIGITS}]", f"[{SPACES}]"
_REST = f"[^{LETTERS}{DIGITS}{SPACES}]"
_PATTERN = re.compile(
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?{_L}+| ?{_N}+| ?{_REST}+|{_S}+(?![^{SPACES}])|{_S}+"
)


def byte_letters():
    """GPT-2's `bytes_to_unicode`: printable bytes stand for themselves, others move up."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    table, moved = {}, 0
    for byte in range(256):
        if byte in kept:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + moved)
            moved += 1
    return table


class Naive:
    """Splits, then merges the best pair until none is left; no cache and no tricks."""

    def __init__(self, fields):
        texts = fields["tokenizer.ggml.tokens"]
        self.ids = {text: index for index, text in enumerate(texts)}
        merges = fields["tokenizer.ggml.merges"]
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self.letters = byte_letters()

    def encode(self, text):
        ids = []
        for part in self.parts(text):
            for word in _PATTERN.findall(part):
                ids += self.merge(word)
        return ids

    @staticmethod
    def parts(text):
        """Digits (every character of a number class) stand alone, whatever is around them."""
        return [part for part in re.split(f"({_N})", text) if part]

    def merge(self, word):
        pieces = [self.letters[byte] for byte in word.encode()]
        while len(pieces) > 1:
            ranked = [
                (self.ranks[pair], at)
                for at, pair in enumerate(itertools.pairwise(pieces))
                if pair in self.ranks
            ]
            if not ranked:
                break
            _, at = min(ranked)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return [self.ids[piece] for piece in pieces]


@pytest.fixture(scope="module")
def fields(smollm2_path):
    return read_header(smollm2_path)[0]


@pytest.fixture(scope="module")
def tokenizer(fields):
    return Tokenizer.from_gguf(fields, None, fields["llama.vocab_size"])


@pytest.fixture(scope="module")
def naive(fields):
    return Naive(fields)


WORDS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=8),
    st.text(DIGITS, min_size=1, max_size=4),
    st.text(SPACES, min_size=1, max_size=4),
    st.text(OTHERS, min_size=1, max_size=4),
    st.sampled_from(["'s", "'ll", " the", "hello", "national", "def ", "return", *CONTROLS]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=10).map("".join))
@example("  two  spaces   and the end  ")
@example("it's he'll 'sit'\n\n\n  x\r\n")
@example("a1b22 333½²٣ 4.5e-3")
@example("<|im_start|>user\n<|im_end|>")
def test_ids_are_those_of_the_naive_tokenizer(tokenizer, naive, text):
    assert tokenizer.encode(text) == naive.encode(text)
    assert tokenizer.decode(naive.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_ids_decode_to_the_bytes_of_their_tokens(tokenizer, naive, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    back = {letter: byte for byte, letter in naive.letters.items()}
    texts = {index: text for text, index in naive.ids.items()}
    expected = b"".join(
        bytes(back[letter] for letter in texts[i])
        for i in ids
        if i not in tokenizer.control_ids.values()
    )
    assert tokenizer.decode(ids) == expected.decode("utf-8", "replace")
    assert expected == b"".join(tokenizer.token_bytes[i] or b"" for i in ids)


def test_every_control_token_is_known_and_none_is_text(tokenizer, naive):
    assert len(tokenizer.token_bytes) == len(naive.ids) == 49_152
    for text, index in tokenizer.control_ids.items():
        assert naive.ids[text] == index
        assert tokenizer.token_bytes[index] is None
        assert tokenizer.encode(text, parse_special=True) == [index]
        assert index not in tokenizer.encode(text)
    others = set(range(49_152)) - set(tokenizer.control_ids.values())
    assert all(tokenizer.token_bytes[index] for index in others)
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= set(tokenizer.control_texts)
    assert tokenizer.control_ids["<|im_end|>"] in tokenizer.eos_ids
