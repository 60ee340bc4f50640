"""FakeSession: a real Session over a tiny model with random weights, for tests of your own code.

The same code runs as with any other model: loader, engine, grammar masks, seeds, errors. Only the
weights mean nothing, so texts are noise inside whatever the schema leaves open.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from .params import SamplingParams
from .session import Session

_START, _END = "<|im_start|>", "<|im_end|>"
_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_WORDS = ("the", "and", "name", "age", "city", "true", "false", "null", "yes", "no")
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS, _INNER, _CONTEXT = 64, 2, 4, 2, 128, 512


class FakeSession(Session):
    """A Session that needs no download and opens in a moment.

    Args:
        seed: Picks the random weights; equal seeds are equal models, and share them.
        sampling: Defaults for every call.
        max_len: Most tokens of prompt and output together.
        max_slots: Most requests that run at the same time.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        sampling: SamplingParams | None = None,
        max_len: int | None = None,
        max_slots: int = 64,
    ) -> None:
        super().__init__(
            _tiny_folder(seed), sampling=sampling, max_len=max_len, max_slots=max_slots
        )


@functools.cache
def _tiny_folder(seed: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="deepinfer-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_tiny_model(folder, seed=seed)
    return folder


def write_tiny_model(folder: Path, *, seed: int = 0) -> None:
    """Write a loadable model folder: two Llama layers, a byte-level vocabulary, a chat template.

    Args:
        folder: An existing folder.
        seed: Picks the random weights.
    """
    tokenizer = _tokenizer()
    size = tokenizer.get_vocab_size()
    end = tokenizer.token_to_id(_END)
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HIDDEN // _HEADS,
        "max_position_embeddings": _CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": size,
        "bos_token_id": tokenizer.token_to_id(_START),
        "eos_token_id": end,
    }
    settings = {"bos_token": _START, "eos_token": _END, "chat_template": _TEMPLATE}
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    save_file(_weights(size, seed), folder / "model.safetensors")


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    for word in _WORDS:
        left = word[0]
        for letter in word[1:]:
            if left + letter not in vocabulary:
                vocabulary[left + letter] = len(vocabulary)
                merges.append((left, letter))
            left += letter
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in (_START, _END)]
    )
    return tokenizer


def _weights(vocab_size: int, seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    random = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> np.ndarray[Any, np.dtype[np.float32]]:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    head = _HIDDEN // _HEADS
    weights = {
        "model.embed_tokens.weight": normal(vocab_size, _HIDDEN, scale=0.25),
        "model.norm.weight": np.ones(_HIDDEN, np.float32),
    }
    for layer in range(_LAYERS):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (
            ("self_attn.q_proj", _HEADS * head, _HIDDEN),
            ("self_attn.k_proj", _KV_HEADS * head, _HIDDEN),
            ("self_attn.v_proj", _KV_HEADS * head, _HIDDEN),
            ("self_attn.o_proj", _HIDDEN, _HEADS * head),
            ("mlp.gate_proj", _INNER, _HIDDEN),
            ("mlp.up_proj", _INNER, _HIDDEN),
            ("mlp.down_proj", _HIDDEN, _INNER),
        ):
            weights[f"{prefix}{name}.weight"] = normal(rows, columns, scale=columns**-0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = np.ones(_HIDDEN, np.float32)
    return weights
