"""Llama models from GGUF files. Quantised weights stay quantised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from deepinfer_kernels.cpu import Weight, concat_rows
from numpy.typing import NDArray

from .errors import EngineError
from .gguf_header import GGUFTensor, read_header
from .llama import LlamaConfig, LlamaLayer, LlamaWeights
from .model import LoadedModel, Progress
from .tokenizer import Tokenizer

_ARCHITECTURES = ("llama",)
_BLOCK_KINDS = ("Q4_0", "Q4_1", "Q8_0")
_KINDS = ("F32", "F16", "BF16", *_BLOCK_KINDS)


def load_gguf(path: Path, progress: Progress) -> LoadedModel:
    """Load a GGUF file.

    Raises:
        EngineError: It is damaged, or of an unsupported kind.
    """
    fields, tensors = read_header(path)
    architecture = fields.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise EngineError(
            "model",
            f"{path.name} has the architecture {architecture!r}, which is not supported",
            hint=f"Supported architectures: {', '.join(_ARCHITECTURES)}",
        )
    reader = _Reader(path, tensors, progress)
    config = _config(path, fields)
    if "rope_freqs.weight" in tensors:  # Llama 3.1's scaling, worked out by the converter
        factors = reader.vector("rope_freqs.weight", config.head_dim // 2)
        config = replace(config, rope_factors=tuple(factors.tolist()))
    template = fields.get("tokenizer.chat_template")
    tokenizer = Tokenizer.from_gguf(fields, template, config.vocab_size)
    weights = reader.weights(config)
    texts = fields["tokenizer.ggml.tokens"]
    special = {
        f"{name}_token": texts[fields[f"tokenizer.ggml.{name}_token_id"]]
        for name in ("bos", "eos")
        if f"tokenizer.ggml.{name}_token_id" in fields
    }
    return LoadedModel(
        name=path.stem,
        digest=_digest(path),
        architecture="llama",
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        chat_template=template,
        special_tokens=special,
    )


def _config(path: Path, fields: Mapping[str, Any]) -> LlamaConfig:
    def get(name: str, default: Any = None) -> Any:
        value = fields.get(f"llama.{name}", default)
        if value is None:
            raise EngineError(
                "model", f"{path.name} lacks the field llama.{name}", hint="Fetch the file again"
            )
        return value

    hidden, heads = int(get("embedding_length")), int(get("attention.head_count"))
    # Without a kind, a factor means linear scaling; its older name is scale_linear.
    factor = get("rope.scaling.factor", fields.get("llama.rope.scale_linear", 0.0))
    scaling = get("rope.scaling.type", "none" if float(factor) in (0.0, 1.0) else "linear")
    if scaling not in ("none", ""):
        raise EngineError(
            "model",
            f"{path.name} scales its rotary embedding by {scaling!r}, which is not supported",
            hint="Use the model's safetensors folder",
        )
    if "tokenizer.ggml.tokens" not in fields:
        raise EngineError(
            "model",
            f"{path.name} holds no tokenizer (tokenizer.ggml.tokens)",
            hint="Convert the model again, with its tokenizer",
        )
    config = LlamaConfig(
        vocab_size=int(get("vocab_size", len(fields["tokenizer.ggml.tokens"]))),
        hidden=hidden,
        inner=int(get("feed_forward_length")),
        layers=int(get("block_count")),
        heads=heads,
        kv_heads=int(get("attention.head_count_kv", heads)),
        head_dim=int(get("attention.key_length", hidden // max(heads, 1))),
        norm_eps=float(get("attention.layer_norm_rms_epsilon")),
        rope_theta=float(get("rope.freq_base", 10000.0)),
        rope_scaling=None,
        max_len=int(get("context_length")),
    )
    config.check(path.name)
    rotated = int(get("rope.dimension_count", config.head_dim))
    if rotated != config.head_dim:
        raise EngineError(
            "model",
            f"{path.name} rotates {rotated} of the {config.head_dim} channels of each head, which "
            "is not supported",
            hint="Use a model whose llama.rope.dimension_count equals its head size",
        )
    return config


class _Reader:
    """Reads tensors by name, checking shape and type."""

    def __init__(self, path: Path, tensors: Mapping[str, GGUFTensor], progress: Progress) -> None:
        self._path = path
        self._tensors = tensors
        self._progress = progress
        self._total = sum(tensor.data.size for tensor in tensors.values())
        self._done = 0
        self._unread = set(tensors)

    def weights(self, config: LlamaConfig) -> LlamaWeights:
        """All weights of the model."""
        embedding = self.matrix("token_embd.weight", config.vocab_size, config.hidden).tile()
        head = embedding
        if "output.weight" in self._tensors:
            head = self.matrix("output.weight", config.vocab_size, config.hidden).tile()
        layers = tuple(self._layer(config, index) for index in range(config.layers))
        norm = self.vector("output_norm.weight", config.hidden)
        if self._unread:
            raise EngineError(
                "model",
                f"{self._path.name} holds the tensor {min(self._unread)}, which a Llama model does "
                f"not have ({len(self._unread)} such tensors)",
                hint="Biases, adapters and experts are not supported; use another model",
            )
        return LlamaWeights(embedding, layers, norm, head)

    def _layer(self, config: LlamaConfig, index: int) -> LlamaLayer:
        name = f"blk.{index}."
        wide, narrow = config.heads * config.head_dim, config.kv_heads * config.head_dim
        query = self.matrix(f"{name}attn_q.weight", wide, config.hidden)
        key = self.matrix(f"{name}attn_k.weight", narrow, config.hidden)
        value = self.matrix(f"{name}attn_v.weight", narrow, config.hidden)
        gate = self.matrix(f"{name}ffn_gate.weight", config.inner, config.hidden)
        up = self.matrix(f"{name}ffn_up.weight", config.inner, config.hidden)
        return LlamaLayer(
            attention_norm=self.vector(f"{name}attn_norm.weight", config.hidden),
            qkv=self._stack(
                name,
                query.select_rows(_halves(config.heads, config.head_dim)),
                key.select_rows(_halves(config.kv_heads, config.head_dim)),
                value,
            ),
            output=self.matrix(f"{name}attn_output.weight", config.hidden, wide).tile(),
            feed_forward_norm=self.vector(f"{name}ffn_norm.weight", config.hidden),
            gate_up=self._stack(name, gate, up),
            down=self.matrix(f"{name}ffn_down.weight", config.hidden, config.inner).tile(),
        )

    def _stack(self, name: str, *parts: Weight) -> Weight:
        if len({part.kind for part in parts}) > 1:  # mixed files: float32 holds every kind exactly
            parts = tuple(Weight.from_float32(part.dense()) for part in parts)
        return concat_rows(parts).tile()

    def _tensor(self, name: str, shape: tuple[int, ...]) -> GGUFTensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise EngineError(
                "model", f"{self._path.name} lacks the tensor {name}", hint="Fetch the file again"
            )
        if tensor.shape != shape:
            raise EngineError(
                "model",
                f"tensor {name} of {self._path.name} is {list(tensor.shape)}, expected "
                f"{list(shape)}",
                hint="Fetch the file again; if it stays so, its metadata is wrong",
            )
        if tensor.kind not in _KINDS:
            raise EngineError(
                "model",
                f"tensor {name} of {self._path.name} is stored as {tensor.kind}, which is "
                "not supported",
                hint=f"Supported: {', '.join(_KINDS)}",
            )
        self._unread.discard(name)
        self._done += tensor.data.size
        self._progress("weights", self._done, self._total)
        return tensor

    def matrix(self, name: str, rows: int, columns: int) -> Weight:
        """A matrix [rows, columns]."""
        tensor = self._tensor(name, (rows, columns))
        kind, data = tensor.kind, tensor.data
        if kind in _BLOCK_KINDS:
            return Weight.from_gguf_blocks(kind, data.reshape(rows, -1))  # type: ignore[arg-type]
        if kind == "BF16":
            return Weight.from_bfloat16_bits(data.view(np.uint16).reshape(rows, columns).copy())
        return Weight.from_float32(_floats(tensor).reshape(rows, columns))

    def vector(self, name: str, size: int) -> NDArray[np.float32]:
        """A vector [size] in float32."""
        tensor = self._tensor(name, (size,))
        if tensor.kind not in ("F32", "F16"):
            raise EngineError(
                "model",
                f"tensor {name} of {self._path.name} is {tensor.kind}, expected F32 or F16",
                hint="Convert the model again",
            )
        return _floats(tensor)


def _floats(tensor: GGUFTensor) -> NDArray[np.float32]:
    """The values of an F32 or F16 tensor, copied out of the file."""
    stored = np.float32 if tensor.kind == "F32" else np.float16
    return tensor.data.view(stored).astype(np.float32)


def _halves(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Row order that turns GGUF's interleaved rotary pairs back into halves."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(-1)


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
