"""The Llama forward pass on a torch device, over a cache in blocks; logits stay on the device."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as functional
from deepinfer_kernels.cpu import Weight

from .device_copy import upload
from .llama import LlamaConfig, LlamaWeights, Rows, rotary


def dense(weight: Weight, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """A tiled matrix as [N, K] on the device."""

    def rows(tiles: np.ndarray) -> np.ndarray:
        flat = tiles.transpose(0, 2, 1)
        return np.ascontiguousarray(flat.reshape(-1, flat.shape[2])[: weight.rows])

    values, scales, minima = weight.values, weight.scales, weight.minima
    if weight.kind == "q4":
        values = np.concatenate((values & 15, values >> 4), axis=2)
    plain = Weight(
        weight.kind,
        weight.rows,
        weight.columns,
        rows(values),
        rows(scales) if scales.size else scales,
        rows(minima) if minima.size else minima,
    )
    return torch.from_numpy(plain.dense()).to(device, dtype)


class TorchLlama:
    """Weights and cache on a device, and the forward pass over them.

    Args:
        config: The model's sizes.
        weights: Its weights, tiled.
        length: Longest sequence.
        num_blocks: Cache blocks.
        block_tokens: Tokens per block.
        device: Where everything lives; bfloat16 on CUDA, float32 elsewhere.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: LlamaWeights,
        length: int,
        num_blocks: int,
        block_tokens: int,
        device: torch.device,
    ) -> None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.config, self.device = config, device

        def vector(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.array(values, np.float32)).to(device, dtype)

        self._embedding = dense(weights.embedding, device, dtype)
        tied = weights.head is weights.embedding
        self._head = self._embedding if tied else dense(weights.head, device, dtype)
        self._norm = vector(weights.norm)
        self._layers = [
            (
                vector(one.attention_norm),
                dense(one.qkv, device, dtype),
                dense(one.output, device, dtype),
                vector(one.feed_forward_norm),
                dense(one.gate_up, device, dtype),
                dense(one.down, device, dtype),
            )
            for one in weights.layers
        ]
        shape = (num_blocks, block_tokens, config.kv_heads, config.head_dim)
        self._keys, self._values = (
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.layers)]
            for _ in range(2)
        )
        self._cosine, self._sine = (torch.from_numpy(t).to(device) for t in rotary(config, length))

    @torch.inference_mode()
    def forward(
        self, rows: Rows, drawn: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """Logits [W, vocab_size] of the wanted rows, on the device; fills the cache.

        `drawn` has the places of ids that only the device knows, int64, and those ids.
        """
        config = self.config
        put = [rows.ids, rows.positions, rows.slots, rows.wanted]
        ids, positions, slots, wanted = (upload(a, self.device) for a in put)
        if drawn is not None:
            ids[drawn[0]] = drawn[1].long()
        first = np.flatnonzero(np.diff(rows.sequences, prepend=-1))
        last = np.append(first[1:], len(rows.ids))
        single = first[last - first == 1]
        parts = [np.arange(a, b) for a, b in zip(first, last, strict=True) if b - a > 1]
        groups = []
        for part in (*parts, single):
            if len(part):
                pages = rows.tables[rows.sequences[part if part is single else part[:1]]]
                groups.append((upload(part, self.device), upload(pages, self.device)))
        width = config.heads * config.head_dim
        narrow = config.kv_heads * config.head_dim
        cosine, sine = self._cosine[positions][:, None], self._sine[positions][:, None]
        x = self._embedding[ids]
        for (norm, qkv, output, later, gate_up, down), keys, values in zip(
            self._layers, self._keys, self._values, strict=True
        ):
            mixed = functional.linear(self._rms(x, norm), qkv)
            query, key, value = mixed.split((width, narrow, narrow), dim=1)  # type: ignore[no-untyped-call]
            query = self._rotate(query, cosine, sine)
            keys.flatten(0, 1)[slots] = self._rotate(key, cosine, sine)
            values.flatten(0, 1)[slots] = value.unflatten(1, (config.kv_heads, -1))
            heads = torch.empty_like(query)
            for group, pages in groups:
                heads[group] = self._attend(query[group], keys, values, positions[group], pages)
            x = x + functional.linear(heads.flatten(1), output)
            gate, up = functional.linear(self._rms(x, later), gate_up).chunk(2, dim=1)
            x = x + functional.linear(functional.silu(gate) * up, down)
        return functional.linear(self._rms(x[wanted], self._norm), self._head)

    def _rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, self.config.norm_eps)

    def _rotate(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        a, b = x.unflatten(1, (-1, self.config.head_dim)).float().chunk(2, dim=2)  # type: ignore[no-untyped-call]
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=2).to(x.dtype)

    def _attend(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        positions: torch.Tensor,
        tables: torch.Tensor,
    ) -> torch.Tensor:
        """Every row over the pages of its own sequence: [R, heads, head_dim]."""
        key, value = (t[tables].flatten(1, 2).transpose(1, 2) for t in (keys, values))
        seen = torch.arange(key.shape[2], device=self.device) <= positions[:, None]
        if len(key) == 1 and len(query) > 1:  # a chunk of one sequence
            mixed = functional.scaled_dot_product_attention(
                query.transpose(0, 1)[None], key, value, attn_mask=seen[None, None], enable_gqa=True
            )
            return mixed[0].transpose(0, 1)
        mixed = functional.scaled_dot_product_attention(
            query[:, :, None], key, value, attn_mask=seen[:, None, None], enable_gqa=True
        )
        return mixed[:, :, 0]
