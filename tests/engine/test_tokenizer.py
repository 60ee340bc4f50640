"""Pre-tokenizers by name, control tokens, bytes of tokens, begin-of-text."""

import json

import pytest
from deepinfer_engine import EngineError, Tokenizer
from deepinfer_engine.tokenizer import _byte_letters, _pre_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

TEXT = "I'LL pay 12345\u20ac!!\n\n  it's ok\u00bd"


def fields(pre="gpt-2", extra=(), merges=("h e", "l l", "he ll", "hell o"), **more):
    """GGUF metadata of a byte-level vocabulary with one word, and two control tokens."""
    texts = [*sorted(_byte_letters()), "he", "ll", "hell", "hello", *extra]
    types = [1] * len(texts) + [3, 4]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [*texts, "<|end|>", "<think>"],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.eos_token_id": len(texts),
        "tokenizer.ggml.bos_token_id": len(texts),
        **more,
    }


def tokenizer(**changes):
    return Tokenizer.from_gguf(fields(**changes), None, 300)


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("gpt-2", ["I", "'", "LL", " pay", " 12345", "\u20ac!!", "\n\n ", " it", "'s", " ok",
                   "\u00bd"]),
        ("smollm", ["I", "'", "LL", " pay", " ", "1", "2", "3", "4", "5", "\u20ac!!", "\n\n ",
                    " it", "'s", " ok", "\u00bd"]),
        ("llama-bpe", ["I", "'LL", " pay", " ", "123", "45", "\u20ac!!\n\n", " ", " it", "'s",
                       " ok", "\u00bd"]),
        ("qwen2", ["I", "'LL", " pay", " ", "1", "2", "3", "4", "5", "\u20ac!!\n\n", " ", " it",
                   "'s", " ok", "\u00bd"]),
    ],
)  # fmt: skip
def test_each_pre_tokenizer_divides_as_its_rules_say(name, pieces):
    letters = _byte_letters()
    found = [
        bytes(letters[letter] for letter in piece).decode()
        for piece, _ in _pre_tokenizer(name).pre_tokenize_str(TEXT)
    ]
    assert found == pieces


def test_other_kinds_are_refused_by_name():
    with pytest.raises(EngineError, match="'deepseek-llm'") as caught:
        tokenizer(pre="deepseek-llm")
    assert "smollm" in caught.value.hint
    with pytest.raises(EngineError, match="'llama'"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "llama"}, None, 300)
    with pytest.raises(EngineError, match="damaged: 'q z'"):
        tokenizer(merges=("q z",))


def test_bytes_of_tokens_and_none_for_control_and_unused_ids():
    made = tokenizer()
    hello = made.encode("hello")
    assert [made.token_bytes[i] for i in hello] == [b"hello"]
    assert made.token_bytes[260:] == (None,) * 40
    assert made.eos_ids == (260,)
    assert sorted(made.token_bytes[:256]) == [bytes([byte]) for byte in range(256)]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20), st.sampled_from(["<|end|>", "<think>", "", "<|end|"]))
@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe"])
def test_texts_of_people_hold_no_control_ids(pre, text, spelling):
    made = tokenizer(pre=pre)
    ids = made.encode(f"{text}{spelling}{text}")
    assert max(ids, default=0) < 260
    assert made.decode(ids) == f"{text}{spelling}{text}"


def test_a_control_token_that_looks_like_a_word_stays_text_too():
    """Llama 3 looks up whole words before merging, so a control token could be found so."""
    made = Tokenizer.from_gguf(
        fields(pre="llama-bpe", **{"tokenizer.ggml.tokens": [
            *sorted(_byte_letters()), "he", "ll", "hell", "hello", "STOP", "<think>"]}),
        None, 300,
    )  # fmt: skip
    assert made.encode("STOP", parse_special=True) == [260]
    assert [made.token_bytes[i] for i in made.encode("STOP")] == [b"S", b"T", b"O", b"P"]


def test_merges_into_a_control_token_are_not_followed_in_texts_of_people():
    record = fields(merges=("h e", "he ll"), **{"tokenizer.ggml.tokens": [
        *sorted(_byte_letters()), "he", "ll", "hell", "hello", "hell!", "<think>"]})  # fmt: skip
    record["tokenizer.ggml.token_type"][258] = 3  # "hell" is a control token here
    made = Tokenizer.from_gguf(record, None, 300)
    assert made.decode(made.encode("hell")) == "hell"
    assert 258 not in made.encode("hell")


def test_llama_3_looks_up_whole_words_before_merging():
    word = {"extra": ("abc",), "merges": ()}
    assert len(tokenizer(pre="llama-bpe", **word).encode("abc")) == 1
    assert len(tokenizer(pre="gpt-2", **word).encode("abc")) == 3


def test_texts_begin_with_an_id_where_the_model_says_so():
    assert tokenizer().encode("hello", add_special=True) == tokenizer().encode("hello")
    wanted = tokenizer(**{"tokenizer.ggml.add_bos_token": True})
    assert wanted.encode("hello", add_special=True) == [260, *wanted.encode("hello")]
    assert tokenizer(pre="llama-bpe").encode("", add_special=True) == [260]


def library(begin):
    made = Library(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(_byte_letters()))}, merges=[])
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    made.add_tokens([AddedToken("<tool>")])
    if begin:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 256)]
        )
    return made


@pytest.mark.parametrize("begin", [False, True])
def test_tokenizer_json_decides_how_texts_begin(tmp_path, begin):
    path = tmp_path / "tokenizer.json"
    library(begin).save(str(path))
    made = Tokenizer.from_file(path, eos_ids=(257,), size=259)
    assert made.encode("A", add_special=True)[0] == (256 if begin else made.encode("A")[0])
    assert made.encode("<tool></s>", parse_special=True) == [258, 257]
    assert not {256, 257, 258} & set(made.encode("<tool></s><s>"))
    assert made.token_bytes[256:] == (None, None, None)


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    library(False).save(str(path))
    with pytest.raises(EngineError, match="259 token ids, the model only 258"):
        Tokenizer.from_file(path, eos_ids=(257,), size=258)
    record = json.loads(path.read_text())
    record["decoder"] = {"type": "Fuse"}
    path.write_text(json.dumps(record))
    with pytest.raises(EngineError, match="decoder 'Fuse'"):
        Tokenizer.from_file(path, eos_ids=(257,), size=259)
