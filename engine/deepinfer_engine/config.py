"""Sizes and limits of an engine, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .errors import EngineError


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine schedules.

    Attributes:
        max_len: Most tokens of prompt and output together; None is the model's own limit.
        max_slots: Most sequences that run at the same time.
        max_step_tokens: Most rows in one step.
        chunk: Most prompt tokens of one sequence in one step.
        prefill_floor: Rows kept for prompts when many sequences are decoding.
        block_tokens: Tokens per cache block.
        num_blocks: Cache blocks in all; None sizes the cache by `max_slots` and `max_len`, within
            `cache_bytes`.
        cache_bytes: Most bytes of cache when `num_blocks` is None.
        watermark: Share of the blocks that admission leaves free.
        preempt_boost: Preemptions after which a sequence outranks newcomers.
        admit_lookahead: Waiting sequences that may pass one that does not fit yet.
        stream_queue: Events kept per request before they are merged.
        threads: Processor threads; None is all.
        automata_bytes: Most bytes of constraints on a GPU: masks, states and transitions.
    """

    max_len: int | None = None
    max_slots: int = 64
    max_step_tokens: int = 2048
    chunk: int = 512
    prefill_floor: int = 256
    block_tokens: int = 64
    num_blocks: int | None = None
    cache_bytes: int = 2 << 30
    watermark: float = 0.01
    preempt_boost: int = 2
    admit_lookahead: int = 4
    stream_queue: int = 64
    threads: int | None = None
    automata_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse values that cannot work, naming the field."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "watermark":
                if not 0 <= value < 1:
                    raise EngineError("invalid", f"watermark is {value}; it must be in [0, 1)")
            elif field.name in ("prefill_floor", "preempt_boost", "admit_lookahead"):
                if value < 0:
                    raise EngineError("invalid", f"{field.name} is {value}; it must be >= 0")
            elif value is not None and value < 1:
                raise EngineError("invalid", f"{field.name} is {value}; it must be >= 1")
        if self.max_step_tokens < self.max_slots:
            raise EngineError(
                "invalid",
                f"max_step_tokens ({self.max_step_tokens}) is less than max_slots "
                f"({self.max_slots}): not every running sequence could decode",
                hint=f"Use max_step_tokens={self.max_slots} or more",
            )
