"""The Llama family (SmolLM2, Llama 3, ...) on the CPU: weights, cache, and the forward pass.

Works on a flat list of rows; a row is one token of one sequence. Row r of the result depends on
that row and its sequence's cache alone, bit for bit (see `deepinfer_kernels.cpu`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from deepinfer_kernels.cpu import (
    Weight,
    attention,
    embedding,
    linear,
    rms_norm,
    rope_and_store,
    rope_tables,
    silu_mul,
)
from numpy.typing import NDArray

from .errors import EngineError

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_LLAMA3_SCALING = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
)


_MOST_TOKENS = 1 << 22


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of a Llama model.

    Attributes:
        vocab_size: Rows of the embedding.
        hidden: Width of the residual stream.
        inner: Width of the feed-forward layer.
        layers: Number of layers.
        heads: Query heads.
        kv_heads: Key and value heads; divides `heads`.
        head_dim: Channels per head.
        norm_eps: Epsilon of the norms.
        rope_theta: Base of the rotary frequencies.
        rope_scaling: Hugging Face record of the rotary scaling, or None.
        max_len: Longest sequence the model was made for.
        rope_factors: What each rotary frequency is divided by (head_dim / 2 numbers), or None.
    """

    vocab_size: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    max_len: int
    rope_factors: tuple[float, ...] | None = None

    def check(self, source: str) -> None:
        """Refuse sizes that cannot be.

        Args:
            source: The file they come from.

        Raises:
            EngineError: A size or a number is not positive, or heads and channels do not go
                together.
        """
        for name in ("vocab_size", "hidden", "inner", "heads", "kv_heads", "head_dim", "max_len"):
            if getattr(self, name) < 1:
                raise EngineError(
                    "model",
                    f"{source} says that {name} is {getattr(self, name)}",
                    hint="Fetch the model again",
                )
        if self.vocab_size > _MOST_TOKENS:  # before a tokenizer makes a table of that size
            raise EngineError(
                "model",
                f"{source} says that vocab_size is {self.vocab_size}, more than {_MOST_TOKENS}",
                hint="Fetch the model again",
            )
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise EngineError(
                "model",
                f"{source}: {self.heads} heads over {self.kv_heads} kv heads of {self.head_dim} "
                "channels do not go together",
                hint="The heads must be a multiple of the kv heads, and the channels even",
            )
        numbers = {"norm_eps": self.norm_eps, "rope_theta": self.rope_theta}
        if self.rope_scaling is not None:
            numbers |= {name: float(self.rope_scaling.get(name, 0)) for name in _LLAMA3_SCALING}
            low, high = numbers["low_freq_factor"], numbers["high_freq_factor"]
            numbers["high_freq_factor - low_freq_factor"] = high - low
        for name, value in numbers.items():
            if not 0 < value < math.inf:
                raise EngineError(
                    "model",
                    f"{source} says that {name} is {value}; it must be a number above 0",
                    hint="Fetch the model again",
                )


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """Weights of one layer; `qkv` and `gate_up` are stacked along their outputs."""

    attention_norm: Floats
    qkv: Weight
    output: Weight
    feed_forward_norm: Floats
    gate_up: Weight
    down: Weight


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    """All weights, tiled; `head` is the embedding itself where the two are tied."""

    embedding: Weight
    layers: tuple[LlamaLayer, ...]
    norm: Floats
    head: Weight


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one step.

    Attributes:
        ids: int64 [R], token ids.
        positions: int64 [R], absolute.
        slots: int64 [R], where keys and values go: block * block_tokens + offset.
        sequences: int64 [R], row of `tables` that each row belongs to.
        tables: int64 [S, most blocks], cache blocks of each sequence.
        wanted: int64 [W], rows whose logits are needed.
    """

    ids: Integers
    positions: Integers
    slots: Integers
    sequences: Integers
    tables: Integers
    wanted: Integers


class LlamaCache:
    """Keys and values of all layers, in blocks.

    Args:
        config: The model's sizes.
        num_blocks: Number of blocks.
        block_tokens: Tokens per block.
    """

    def __init__(self, config: LlamaConfig, num_blocks: int, block_tokens: int) -> None:
        shape = (num_blocks, config.kv_heads, config.head_dim, block_tokens)
        self.keys = [np.zeros(shape, np.float32) for _ in range(config.layers)]
        swapped = (num_blocks, config.kv_heads, block_tokens, config.head_dim)
        self.values = [np.zeros(swapped, np.float32) for _ in range(config.layers)]

    @staticmethod
    def bytes_per_block(config: LlamaConfig, block_tokens: int) -> int:
        """Bytes that one block takes over all layers."""
        return 2 * 4 * config.layers * config.kv_heads * config.head_dim * block_tokens


class LlamaModel:
    """The forward pass.

    Args:
        config: The model's sizes.
        weights: Its weights.
        length: Longest sequence that will be asked for.
    """

    def __init__(self, config: LlamaConfig, weights: LlamaWeights, length: int) -> None:
        self.config = config
        self.weights = weights
        self._tables = rotary(config, length)

    def forward(self, rows: Rows, cache: LlamaCache) -> Floats:
        """Logits float32 [W, vocab_size] of the wanted rows; fills the cache at `rows.slots`."""
        config, weights = self.config, self.weights
        x = embedding(rows.ids, weights.embedding)
        scale = float(config.head_dim) ** -0.5
        for layer, keys, values in zip(weights.layers, cache.keys, cache.values, strict=True):
            normed = rms_norm(x, layer.attention_norm, config.norm_eps)
            queries = rope_and_store(
                linear(normed, layer.qkv),
                config.heads,
                rows.positions,
                rows.slots,
                self._tables,
                keys,
                values,
            )
            mixed = attention(
                queries, keys, values, rows.positions, rows.sequences, rows.tables, scale
            )
            x = x + linear(mixed, layer.output)
            normed = rms_norm(x, layer.feed_forward_norm, config.norm_eps)
            x = x + linear(silu_mul(linear(normed, layer.gate_up)), layer.down)
        last = rms_norm(np.ascontiguousarray(x[rows.wanted]), weights.norm, config.norm_eps)
        return linear(last, weights.head)


def rotary(config: LlamaConfig, length: int) -> tuple[Floats, Floats]:
    """Cosines and sines float32 [length, head_dim / 2]."""
    if config.rope_factors is None:
        return rope_tables(config.head_dim, config.rope_theta, length, config.rope_scaling)
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    frequency = config.rope_theta**-exponents / np.array(config.rope_factors)
    angle = np.outer(np.arange(length, dtype=np.float64), frequency)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
