"""Llama models from a Hugging Face folder: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from deepinfer_kernels.cpu import Weight, concat_rows
from numpy.typing import NDArray

from .errors import EngineError
from .llama import LlamaConfig, LlamaLayer, LlamaWeights
from .model import LoadedModel, Progress
from .safetensors_file import Shards
from .tokenizer import Tokenizer, turn_ends

_ARCHITECTURES = ("LlamaForCausalLM",)


def load_folder(folder: Path, progress: Progress) -> LoadedModel:
    """Load a model folder.

    Raises:
        EngineError: A file is missing or damaged, or the model is of an unsupported kind.
    """
    record = _json(folder / "config.json")
    names = record.get("architectures") or [record.get("model_type")]
    if names[0] not in _ARCHITECTURES:
        raise EngineError(
            "model",
            f"{folder.name} has the architecture {names[0]!r}, which is not supported",
            hint=f"Supported architectures: {', '.join(_ARCHITECTURES)}",
        )
    config = _config(folder, record)
    settings = _json(folder / "tokenizer_config.json", optional=True)
    template = _chat_template(folder, settings)
    tokenizer = _tokenizer(folder, record, settings, template, config.vocab_size)
    with Shards(folder, progress) as shards:
        weights = _weights(shards, config, tied=bool(record.get("tie_word_embeddings", False)))
        digest = shards.digest
    digest.update(json.dumps(record, sort_keys=True).encode())
    digest.update((folder / "tokenizer.json").read_bytes())
    special = {
        name: text
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if (text := _token_text(settings.get(name))) is not None
    }
    return LoadedModel(
        name=folder.name,
        digest=digest.hexdigest(),
        architecture="llama",
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        chat_template=template,
        special_tokens=special,
    )


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EngineError(
            "model",
            f"{path} cannot be read: {error.strerror}",
            hint="A model folder holds config.json, tokenizer.json and *.safetensors",
        ) from None
    except ValueError as error:
        raise EngineError(
            "model", f"{path} is not valid JSON: {error}", hint="Fetch the file again"
        ) from None
    if not isinstance(value, dict):
        raise EngineError(
            "model", f"{path} does not hold a JSON object", hint="Fetch the file again"
        )
    return value


def _config(folder: Path, record: Mapping[str, Any]) -> LlamaConfig:
    def get(name: str, default: Any = None) -> Any:
        value = record.get(name)
        value = default if value is None else value  # null stands for the default
        if value is None:
            raise EngineError(
                "model", f"{folder.name}/config.json lacks {name!r}", hint="Fetch the model again"
            )
        return value

    for name in ("attention_bias", "mlp_bias"):
        if record.get(name):
            raise EngineError(
                "model",
                f"{folder.name}/config.json sets {name}, which is not supported",
                hint="Use a model without biases",
            )
    if get("hidden_act", "silu") != "silu":
        raise EngineError(
            "model",
            f"{folder.name}/config.json has hidden_act {record['hidden_act']!r}",
            hint="Supported: silu",
        )
    hidden, heads = int(get("hidden_size")), int(get("num_attention_heads"))
    # Newer files put the base into the scaling record, where it comes first.
    scaling = record.get("rope_scaling") or record.get("rope_parameters") or {}
    theta = scaling.get("rope_theta", get("rope_theta", 10000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise EngineError(
            "model",
            f"{folder.name}/config.json scales the rotary embedding by {kind!r}",
            hint="Supported: llama3",
        )
    share = scaling.get("partial_rotary_factor", get("partial_rotary_factor", 1.0))
    if share != 1:
        raise EngineError(
            "model",
            f"{folder.name}/config.json sets partial_rotary_factor to {share}",
            hint="Supported: 1, every channel of a head is rotated",
        )
    config = LlamaConfig(
        vocab_size=int(get("vocab_size")),
        hidden=hidden,
        inner=int(get("intermediate_size")),
        layers=int(get("num_hidden_layers")),
        heads=heads,
        kv_heads=int(get("num_key_value_heads", heads)),
        head_dim=int(get("head_dim", hidden // max(heads, 1))),
        norm_eps=float(get("rms_norm_eps")),
        rope_theta=float(theta),
        rope_scaling=None if kind == "default" else scaling,
        max_len=int(get("max_position_embeddings")),
    )
    config.check(f"{folder.name}/config.json")
    return config


def _tokenizer(
    folder: Path,
    record: Mapping[str, Any],
    settings: Mapping[str, Any],
    template: str | None,
    size: int,
) -> Tokenizer:
    generation = _json(folder / "generation_config.json", optional=True)
    eos: list[int] = []
    for source in (record, generation):
        value = source.get("eos_token_id")
        eos += value if isinstance(value, list) else [value] if value is not None else []
    tokenizer: Tokenizer = Tokenizer.from_file(folder / "tokenizer.json", eos_ids=eos, size=size)
    adds_bos = settings.get("add_bos_token")
    if adds_bos is not None:  # else what tokenizer.json does decides
        tokenizer.bos_id = record.get("bos_token_id") if adds_bos else None
    more = turn_ends(template, tokenizer.control_ids)
    tokenizer.eos_ids = tuple(dict.fromkeys([*eos, *more]))
    return tokenizer


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several named ones
        by_name = {entry["name"]: entry["template"] for entry in template}
        template = by_name.get("default")
    return template if isinstance(template, str) else None


def _token_text(token: Any) -> str | None:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _weights(shards: Shards, config: LlamaConfig, *, tied: bool) -> LlamaWeights:
    wide, narrow = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, inner = config.hidden, config.inner

    def matrix(name: str, rows: int, columns: int) -> Weight:
        return shards.matrix(f"{name}.weight", rows, columns)

    def vector(name: str) -> NDArray[np.float32]:
        return shards.vector(f"{name}.weight", hidden)

    embedding = matrix("model.embed_tokens", config.vocab_size, hidden).tile()
    head = embedding if tied else matrix("lm_head", config.vocab_size, hidden).tile()
    layers = []
    for index in range(config.layers):
        prefix = f"model.layers.{index}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        qkv = [
            matrix(f"{attention}.q_proj", wide, hidden),
            matrix(f"{attention}.k_proj", narrow, hidden),
            matrix(f"{attention}.v_proj", narrow, hidden),
        ]
        gate_up = [
            matrix(f"{mlp}.gate_proj", inner, hidden),
            matrix(f"{mlp}.up_proj", inner, hidden),
        ]
        layers.append(
            LlamaLayer(
                attention_norm=vector(f"{prefix}.input_layernorm"),
                qkv=concat_rows(qkv).tile(),
                output=matrix(f"{attention}.o_proj", hidden, wide).tile(),
                feed_forward_norm=vector(f"{prefix}.post_attention_layernorm"),
                gate_up=concat_rows(gate_up).tile(),
                down=matrix(f"{mlp}.down_proj", hidden, inner).tile(),
            )
        )
    norm = vector("model.norm")
    shards.refuse_unread(("lm_head.weight",) if tied else ())
    return LlamaWeights(embedding, tuple(layers), norm, head)
