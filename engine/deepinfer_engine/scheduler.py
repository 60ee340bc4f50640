"""Who runs in the next step. Plans from counts alone: no token values, no clock, no tensors.

Continuous batching with chunked prompts. Decoding sequences come first; memory pressure preempts
the latest arrivals by dropping their blocks, to be recomputed later. The oldest running sequence is
never preempted and is served first, so it can always obtain what it needs: the engine progresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from .blocks import BlockPool
from .config import EngineConfig
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of one sequence in a step: tokens `start` to `start + count - 1`.

    `samples` tells whether the last row's logits choose the next token.
    """

    sequence: Sequence
    start: int
    count: int
    samples: bool


class Scheduler:
    """Waiting and running sequences, and the blocks they hold.

    Args:
        config: Sizes and limits.
        pool: The cache blocks.
    """

    def __init__(self, config: EngineConfig, pool: BlockPool) -> None:
        self._config = config
        self._pool = pool
        self._admissions = 0
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.preemptions = 0

    def add(self, sequence: Sequence) -> None:
        """Let a sequence wait for admission."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a closed sequence and free its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self._pool.release(sequence.blocks)
        sequence.blocks = []

    def plan(self) -> list[Entry]:
        """The entries of the next step; empty if nothing can run."""
        picked: list[Entry] = []
        budget = self._config.max_step_tokens
        before = self.preemptions
        floor = min(self._config.prefill_floor, budget)
        prefilling = bool(self.waiting) or any(s.pending > 1 for s in self.running)
        kept = floor if prefilling else 0
        oldest = min(self.running, key=lambda s: s.admitted or 0, default=None)
        order = sorted(
            self.running, key=lambda s: (s is not oldest, s.pending > 1, s.admitted or 0)
        )
        for sequence in order:
            if sequence not in self.running:  # preempted meanwhile
                continue
            room = budget if sequence.pending > 1 or sequence is oldest else budget - kept
            count = min(sequence.pending, room, self._config.chunk)
            if count > 0 and self._grow(sequence, count, picked, oldest):
                picked.append(_entry(sequence, count))
                budget -= count
        if self.preemptions == before:
            self._admit(picked, budget)
        return picked

    def preempt(self, sequence: Sequence) -> None:
        """Take the blocks away; the sequence waits and will be recomputed."""
        self.running.remove(sequence)
        self._pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0
        sequence.admitted = None
        sequence.preemptions += 1
        self.preemptions += 1
        self.waiting.append(sequence)

    def _grow(
        self, sequence: Sequence, count: int, picked: list[Entry], oldest: Sequence | None
    ) -> bool:
        """Give `sequence` the blocks for `count` more rows, preempting others if need be."""
        wanted = self._pool.blocks_for(sequence.computed + count) - len(sequence.blocks)
        while wanted > self._pool.free:
            busy = {id(entry.sequence) for entry in picked}
            victims = [s for s in self.running if id(s) not in busy and s is not oldest]
            if not victims:
                return False
            victim = min(victims, key=lambda s: (s.request.priority, -(s.admitted or 0)))
            self.preempt(victim)
            if victim is sequence:
                return False
        if wanted > 0:
            sequence.blocks += self._pool.take(wanted)
        return True

    def _admit(self, picked: list[Entry], budget: int) -> None:
        boost = self._config.preempt_boost
        self.waiting.sort(key=lambda s: (-s.request.priority, s.preemptions < boost, s.number))
        reserve = int(self._config.watermark * self._pool.total)
        blocked: list[Sequence] = []
        for sequence in list(self.waiting):
            if budget <= 0 or len(self.running) >= self._config.max_slots:
                return
            if len(blocked) > self._config.admit_lookahead or any(
                other.passed >= self._config.admit_lookahead for other in blocked
            ):
                return
            count = min(sequence.pending, budget, self._config.chunk)
            # One that was preempted comes back only when all of it fits, so that it does not
            # lose its blocks again at once; the last block is for its next token.
            size = len(sequence.tokens) + 1 if sequence.preemptions else count
            wanted = self._pool.blocks_for(size)
            spare = self._pool.free - (reserve if self.running else 0)
            if wanted > spare:
                blocked.append(sequence)
                continue
            for other in blocked:
                other.passed += 1
            self.waiting.remove(sequence)
            self._admissions += 1
            sequence.admitted = self._admissions
            sequence.passed = 0
            sequence.blocks = self._pool.take(self._pool.blocks_for(count))
            self.running.append(sequence)
            picked.append(_entry(sequence, count))
            budget -= count


def _entry(sequence: Sequence, count: int) -> Entry:
    return Entry(sequence, sequence.computed, count, samples=count == sequence.pending)
