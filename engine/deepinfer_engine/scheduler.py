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
        self._most_rows = config.max_step_tokens
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

    def limit_rows(self, rows: int) -> None:
        """Plan no steps of more than `rows` rows from now on: memory did not suffice for more."""
        self._most_rows = max(1, min(self._most_rows, rows))

    def plan(self) -> list[Entry]:
        """The entries of the next step; empty if nothing can run."""
        picked: list[Entry] = []
        left = self._most_rows
        before = self.preemptions
        oldest = min(self.running, key=lambda s: s.admitted or 0, default=None)
        order = sorted(
            (s for s in self.running if s.may_draw),
            key=lambda s: (s is not oldest, s.pending > 1, s.admitted or 0),
        )
        kept = self._kept_for_prompts()
        late: list[Sequence] = []  # decodes that the rows kept for prompts leave out at first
        for sequence in order:
            if sequence.pending == 1 and sequence is not oldest and left <= kept:
                late.append(sequence)
            else:
                left -= self._pick(sequence, left, picked, oldest)
        if self.preemptions == before:
            left -= self._admit(picked, left)
        for sequence in late:
            left -= self._pick(sequence, left, picked, oldest)
        return picked

    def _kept_for_prompts(self) -> int:
        """Rows that decoding sequences leave to prompts; never more than half of a step."""
        rows = sum(s.pending for s in self.running if s.pending > 1)
        if len(self.running) < self._config.max_slots:
            rows += sum(s.pending for s in self.waiting)
        return min(rows, self._config.prefill_floor, self._most_rows // 2)

    def _pick(
        self, sequence: Sequence, left: int, picked: list[Entry], oldest: Sequence | None
    ) -> int:
        """Plan rows of a running sequence if there is room; returns how many."""
        count = min(sequence.pending, left, self._config.chunk)
        if count <= 0 or sequence not in self.running:  # preempted meanwhile
            return 0
        if not self._grow(sequence, count, picked, oldest):
            return 0
        picked.append(_entry(sequence, count))
        return count

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

    def _admit(self, picked: list[Entry], left: int) -> int:
        """Let waiting sequences start while there is room; returns the rows they got."""
        budget = left
        boost = self._config.preempt_boost
        self.waiting.sort(key=lambda s: (-s.request.priority, s.preemptions < boost, s.number))
        reserve = int(self._config.watermark * self._pool.total)
        blocked: list[Sequence] = []
        for sequence in list(self.waiting):
            if budget <= 0 or len(self.running) >= self._config.max_slots:
                break
            if len(blocked) > self._config.admit_lookahead or any(
                other.passed >= self._config.admit_lookahead for other in blocked
            ):
                break
            if sequence.drawing:  # preempted with a token on its way, which comes first
                continue
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
        return left - budget


def _entry(sequence: Sequence, count: int) -> Entry:
    return Entry(sequence, sequence.computed, count, samples=count == sequence.pending)


def halves(entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """A step in two parts: half of the sequences each, or half of the rows of a single one."""
    if len(entries) > 1:
        middle = len(entries) // 2
        return entries[:middle], entries[middle:]
    (entry,) = entries
    middle = entry.count // 2
    first = Entry(entry.sequence, entry.start, middle, samples=False)
    rest = Entry(entry.sequence, entry.start + middle, entry.count - middle, entry.samples)
    return [first], [rest]
