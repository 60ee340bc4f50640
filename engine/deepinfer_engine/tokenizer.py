"""Text to tokens and back, on the `tokenizers` library; from a tokenizer.json or GGUF metadata.

Control tokens are recognised only on request, so text that people pass in can never become one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from .errors import EngineError

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3_NAMES = ("llama-bpe", "llama3")
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _byte_letters() -> dict[str, int]:
    """GPT-2's alphabet: the letter that stands for each byte in a byte-level vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in plain}
    shifted = (byte for byte in range(256) if byte not in plain)
    letters.update({chr(256 + index): byte for index, byte in enumerate(shifted)})
    return letters


class Tokenizer:
    """A tokenizer of one model.

    Args:
        library: The tokenizer with its control tokens.
        controls: Text of control and other added tokens by id.
        eos_ids: Ids that end the text.
        bos_id: Id that begins a text, if the model uses one.
        size: Number of token ids of the model; ids the tokenizer does not know are never used.

    Attributes:
        token_bytes: Bytes of each id; None for control, added and unused ids.
        control_ids: Ids of the control and added tokens by spelling.

    Raises:
        EngineError: The vocabulary is larger than the model's, or of a kind that is not supported.
    """

    def __init__(
        self,
        library: Library,
        controls: Mapping[int, str],
        *,
        eos_ids: Sequence[int],
        bos_id: int | None,
        size: int,
    ) -> None:
        description = json.loads(library.to_str())
        self._with_controls = library
        self.eos_ids = tuple(dict.fromkeys(eos_ids))
        self.bos_id = bos_id
        self.vocab_size = size
        self.control_ids = {text: index for index, text in controls.items()}
        self.token_bytes = _token_bytes(library, description.get("decoder") or {}, controls, size)
        self._plain = _without_controls(description, controls)

    @property
    def control_texts(self) -> tuple[str, ...]:
        """Spellings of the control and added tokens."""
        return tuple(self.control_ids)

    @classmethod
    def from_file(cls, path: Path, *, eos_ids: Sequence[int], size: int) -> Self:
        """Read a tokenizer.json; its post-processor tells whether texts begin with an id."""
        try:
            library = Library.from_file(str(path))
        except Exception as error:
            raise EngineError(
                "model", f"{path} cannot be read as a tokenizer: {error}", hint="Fetch it again"
            ) from None
        added = library.get_added_tokens_decoder()
        controls = {index: token.content for index, token in added.items()}
        around = library.encode("", add_special_tokens=True).ids
        bos = around[0] if around and around[0] not in eos_ids else None
        return cls(library, controls, eos_ids=eos_ids, bos_id=bos, size=size)

    @classmethod
    def from_gguf(cls, fields: Mapping[str, Any], chat_template: str | None, size: int) -> Self:
        """Rebuild a byte-level BPE tokenizer from GGUF metadata (``tokenizer.ggml.*``).

        Raises:
            EngineError: The tokenizer is of another kind.
        """
        kind = fields.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise EngineError(
                "model",
                f"the tokenizer kind {kind!r} of this GGUF file is not supported",
                hint="Supported: gpt2 (byte-level BPE). Use the model's safetensors folder instead",
            )
        texts: list[str] = fields["tokenizer.ggml.tokens"]
        types: list[int] = fields.get("tokenizer.ggml.token_type", [1] * len(texts))
        controls = {i: text for i, (text, kind_) in enumerate(zip(texts, types, strict=True))
                    if kind_ != 1}  # fmt: skip
        pre = fields.get("tokenizer.ggml.pre", "default")
        vocabulary = {text: index for index, text in enumerate(texts)}
        merges = [_merge(text, vocabulary) for text in fields.get("tokenizer.ggml.merges", ())]
        # Llama 3 looks up whole words first, and begins texts with an id unless told otherwise.
        llama3 = pre in _LLAMA3_NAMES
        library = Library(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=llama3))
        library.pre_tokenizer = _pre_tokenizer(pre)
        library.decoder = decoders.ByteLevel()
        library.add_special_tokens(
            [AddedToken(text, special=True, normalized=False) for text in controls.values()]
        )
        names = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
        eos = [fields[name] for name in names if name in fields]
        eos += turn_ends(chat_template, {text: i for i, text in controls.items()})
        bos = fields.get("tokenizer.ggml.bos_token_id")
        adds_bos = fields.get("tokenizer.ggml.add_bos_token", llama3)
        return cls(library, controls, eos_ids=eos, bos_id=bos if adds_bos else None, size=size)

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """Token ids of a text.

        Args:
            text: Any text.
            add_special: Put the begin-of-text id first, if the model uses one.
            parse_special: Recognise spellings of control tokens; else they are ordinary text.
        """
        library = self._with_controls if parse_special else self._plain
        ids: list[int] = library.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *ids] if add_special and self.bos_id is not None else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; control tokens are left out, broken characters become U+FFFD."""
        return b"".join(self.token_bytes[i] or b"" for i in ids).decode("utf-8", "replace")


def turn_ends(chat_template: str | None, ids: Mapping[str, int]) -> list[int]:
    """Ids of the tokens with which a chat template ends a turn."""
    names = ("<|im_end|>", "<|eot_id|>")
    return [ids[name] for name in names if name in ids and name in (chat_template or "")]


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    by_pattern = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name in ("gpt-2", "default"):
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in (*_LLAMA3_NAMES, "qwen2"):
        pattern = Regex(_QWEN2 if name == "qwen2" else _LLAMA3)
        split = pre_tokenizers.Split(pattern, "isolated")
        return pre_tokenizers.Sequence([split, by_pattern])
    raise EngineError(
        "model",
        f"the pre-tokenizer {name!r} of this GGUF file is not supported",
        hint="Supported: default, gpt-2, llama-bpe, qwen2, smollm. Use the safetensors folder",
    )


def _merge(text: str, vocabulary: Mapping[str, int]) -> tuple[str, str]:
    left, _, right = text.partition(" ")
    if not (left and right) or any(part not in vocabulary for part in (left, right, left + right)):
        raise EngineError(
            "model",
            f"the tokenizer of this GGUF file is damaged: {text!r} does not merge two of its "
            "tokens into a third",
            hint="Fetch the file again",
        )
    return left, right


def _without_controls(description: dict[str, Any], controls: Mapping[int, str]) -> Library:
    """The same tokenizer for texts of people: it does not know that there are control tokens."""
    description["added_tokens"] = []
    description["post_processor"] = None
    model = description["model"]
    if model.get("type") == "BPE":
        # A whole word may be looked up without any merge, so they leave the vocabulary too.
        model["vocab"] = {t: i for t, i in model["vocab"].items() if i not in controls}
        model["merges"] = [merge for merge in model["merges"] if _joins(merge, model["vocab"])]
    return Library.from_str(json.dumps(description))


def _joins(merge: str | list[str], vocabulary: Mapping[str, int]) -> bool:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left in vocabulary and right in vocabulary and left + right in vocabulary


def _token_bytes(
    library: Library, decoder: Mapping[str, Any], controls: Mapping[int, str], size: int
) -> tuple[bytes | None, ...]:
    vocabulary = library.get_vocab(with_added_tokens=False)
    most = max([*vocabulary.values(), *controls], default=-1) + 1
    if most > size:
        raise EngineError(
            "model",
            f"the tokenizer has {most} token ids, the model only {size}",
            hint="The tokenizer belongs to another model",
        )
    kinds = {part.get("type") for part in [decoder, *decoder.get("decoders", [])]}
    table: list[bytes | None] = [None] * size
    if "ByteLevel" in kinds:
        letters = _byte_letters()
        for text, index in vocabulary.items():
            if index not in controls:
                table[index] = bytes(letters[letter] for letter in text)
    elif "ByteFallback" in kinds:
        for text, index in vocabulary.items():
            if index in controls:
                continue
            if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
                table[index] = bytes([int(text[3:5], 16)])
            else:
                table[index] = text.replace("\u2581", " ").encode()
    else:
        raise EngineError(
            "model",
            f"the tokenizer's decoder {decoder.get('type')!r} is not supported",
            hint="Supported: byte-level BPE, and SentencePiece with byte fallback",
        )
    return tuple(table)
