"""Planning with a fake executor: termination, budgets, replay, accounting."""

import hashlib
import random

import pytest
from deepinfer_engine import EngineConfig, FinishEvent, GenerationRequest, RequestHandle
from deepinfer_engine.blocks import BlockPool
from deepinfer_engine.executor import Choice
from deepinfer_engine.loop import Loop, TokenTable
from deepinfer_engine.sequence import Sequence
from deepinfer_kernels.sampling import Drawn, SamplerParams, Status
from engine_helpers import Immediate

TABLE = TokenTable(tuple(bytes([byte]) for byte in range(256)), (0,))


class HashExecutor(Immediate):
    """Tokens from a hash of the sequence; records every plan."""

    def __init__(self):
        self.plans = []

    def launch(self, entries):
        self.plans.append([(e.sequence.number, e.start, e.count, e.samples) for e in entries])
        return [self.choice(e.sequence) for e in entries if e.samples]

    @staticmethod
    def choice(sequence):
        digest = hashlib.blake2b(repr((sequence.params.seed, sequence.tokens)).encode()).digest()
        token = 0 if digest[0] < 8 else 1 + digest[1] % 255
        return Choice(Drawn(token=token, status=Status.OK))


class Bench:
    """A loop driven by hand."""

    def __init__(self, config, num_blocks):
        self.executor = HashExecutor()
        self.now = 0.0
        self.loop = Loop(self.executor, TABLE, config, num_blocks, clock=lambda: self.now)
        self.sequences = []

    def submit(self, number, prompt, max_tokens, priority=0, deadline=None):
        request = GenerationRequest(
            prompt_ids=tuple(prompt),
            sampling=SamplerParams(seed=number),
            max_tokens=max_tokens,
            priority=priority,
            deadline_s=deadline,
        )
        handle = RequestHandle(1, 10_000, self.loop.cancel)
        sequence = Sequence.open(
            number, request, 0, handle, max_tokens=max_tokens, banned=(), now=self.now
        )
        self.loop.admit([sequence])
        self.sequences.append(sequence)
        return sequence

    def finish(self, sequence):
        events = []
        while (event := sequence.handle.next_event(timeout=0)) is not None:
            events.append(event)
        assert isinstance(events[-1], FinishEvent)
        assert [i for e in events[:-1] for i in e.ids] == list(events[-1].ids)
        return events[-1]


def scenario(seed, config, num_blocks):
    """Random arrivals and cancellations; returns the bench at rest."""
    rng = random.Random(seed)
    bench = Bench(config, num_blocks)
    limit = num_blocks * config.block_tokens
    left, number = 30, 0
    for _ in range(5000):
        if left and rng.random() < 0.3:
            prompt = [rng.randrange(1, 256) for _ in range(rng.randint(1, limit // 2))]
            bench.submit(number, prompt, rng.randint(1, limit - len(prompt)), rng.randrange(2))
            number, left = number + 1, left - 1
        if rng.random() < 0.02:
            bench.loop.cancel(rng.choice(bench.sequences).handle) if bench.sequences else None
        oldest = min(bench.loop.scheduler.running, key=lambda s: s.admitted, default=None)
        bench.loop.turn()
        pool = bench.loop.pool
        held = [b for s in bench.loop.scheduler.running for b in s.blocks]
        assert len(held) == len(set(held)) == pool.used
        assert pool.used + pool.free == pool.total
        if oldest is not None and not oldest.closed:
            assert oldest.admitted is not None, "the oldest running sequence was preempted"
        for sequence in bench.loop.scheduler.running:
            assert sequence.computed <= len(sequence.blocks) * config.block_tokens
        if not left and not bench.loop.scheduler.running and not bench.loop.scheduler.waiting:
            return bench
    raise AssertionError("requests are left after 5000 steps")


CONFIGS = [
    (EngineConfig(block_tokens=4, max_slots=6, max_step_tokens=24, chunk=7, prefill_floor=6), 12),
    (EngineConfig(block_tokens=2, max_slots=3, max_step_tokens=3, chunk=1, prefill_floor=1), 9),
    (EngineConfig(block_tokens=8, max_slots=16, max_step_tokens=64, chunk=64), 10),
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("config", "num_blocks"), CONFIGS)
def test_every_request_ends_and_budgets_hold(seed, config, num_blocks):
    bench = scenario(seed, config, num_blocks)
    for plan in bench.executor.plans:
        assert 0 < sum(count for _, _, count, _ in plan) <= config.max_step_tokens
        assert len(plan) <= config.max_slots
        assert all(count <= config.chunk for _, _, count, _ in plan)
    for sequence in bench.sequences:
        end = bench.finish(sequence)
        assert end.reason in ("stop", "length", "cancelled")
        assert end.usage.completion_tokens <= sequence.max_tokens
    assert bench.loop.pool.used == 0


def test_some_scenario_preempts():
    assert any(scenario(s, *CONFIGS[0]).loop.scheduler.preemptions for s in range(12))


@pytest.mark.parametrize(("config", "num_blocks"), CONFIGS)
def test_equal_commands_give_equal_plans(config, num_blocks):
    assert scenario(3, config, num_blocks).executor.plans == (
        scenario(3, config, num_blocks).executor.plans
    )


def test_outputs_do_not_depend_on_the_schedule():
    """Tokens come from the sequence alone, so every schedule must give the same ones."""
    outputs = []
    for config, num_blocks in CONFIGS:
        bench = Bench(config, num_blocks)
        for number in range(8):
            bench.submit(number, [1 + number] * (1 + number), 9)
        while bench.loop.scheduler.running or bench.loop.scheduler.waiting:
            bench.loop.turn()
        outputs.append([bench.finish(s).ids for s in bench.sequences])
    assert outputs[0] == outputs[1] == outputs[2]


def test_cancelling_at_every_step_frees_everything():
    config, num_blocks = CONFIGS[0]
    for step in range(40):
        bench = Bench(config, num_blocks)
        for number in range(4):
            bench.submit(number, [7] * (3 * number + 1), 10)
        for _ in range(step):
            bench.loop.turn()
        bench.loop.cancel(bench.sequences[1].handle)
        assert not bench.sequences[1].blocks
        while bench.loop.scheduler.running or bench.loop.scheduler.waiting:
            bench.loop.turn()
        assert bench.loop.pool.used == 0
        bench.finish(bench.sequences[1])


def test_deadlines_end_requests_that_wait_or_run():
    bench = Bench(EngineConfig(block_tokens=4, max_slots=1, max_step_tokens=8), 8)
    bench.executor.choice = lambda sequence: Choice(Drawn(token=1, status=Status.OK))
    running = bench.submit(0, [5] * 4, 20, deadline=5.0)
    waiting = bench.submit(1, [5] * 4, 20, deadline=3.0)
    bench.loop.turn()
    bench.now = 3.0
    bench.loop.turn()
    assert bench.finish(waiting).reason == "timeout"
    assert not running.closed
    bench.now = 5.0
    bench.loop.turn()
    assert bench.finish(running).reason == "timeout"
    assert bench.loop.pool.used == 0


def test_higher_priority_goes_first():
    bench = Bench(EngineConfig(block_tokens=4, max_slots=1, max_step_tokens=8), 8)
    low = bench.submit(0, [5], 5)
    high = bench.submit(1, [6], 5, priority=1)
    bench.loop.turn()
    assert high.admitted is not None
    assert low.admitted is None


def test_block_pool_against_a_naive_model():
    rng = random.Random(0)
    pool = BlockPool(40, 4)
    held = []
    for _ in range(20_000):
        choice = rng.random()
        if choice < 0.45:
            count = rng.randint(1, 6)
            if count <= pool.free:
                held.append(pool.take(count))
            else:
                with pytest.raises(ValueError, match="free"):
                    pool.take(count)
        elif choice < 0.6 and held:
            blocks = list(rng.choice(held))
            pool.share(blocks)
            held.append(blocks)
        elif held:
            pool.release(held.pop(rng.randrange(len(held))))
        in_use = {block for blocks in held for block in blocks}
        assert pool.used == len(in_use)
        assert pool.free == 40 - len(in_use)
    for blocks in held:
        pool.release(blocks)
    assert pool.free == 40
    with pytest.raises(ValueError, match="twice"):
        pool.release([3])
    with pytest.raises(ValueError, match="free block"):
        pool.share([3])


def endless(config, num_blocks):
    """A bench whose sequences end by length only."""
    bench = Bench(config, num_blocks)
    bench.executor.choice = lambda sequence: Choice(Drawn(token=1, status=Status.OK))
    return bench


def test_decoding_sequences_leave_rows_to_a_prompt():
    config = EngineConfig(block_tokens=4, max_slots=9, max_step_tokens=9, prefill_floor=8, chunk=16)
    bench = endless(config, 200)
    for number in range(8):
        bench.submit(number, [5], 60)
    bench.loop.turn()
    bench.submit(8, [5] * 40, 5)
    for _ in range(10):
        bench.loop.turn()
        plan = {number: count for number, _, count, _ in bench.executor.plans[-1]}
        assert plan[8] == 4, "half of a step is the most that is kept"
        assert [plan[number] for number in range(5)] == [1] * 5
    bench.loop.turn()
    assert [count for _, _, count, _ in bench.executor.plans[-1]] == [1] * 9


@pytest.mark.parametrize("why", ["slots", "blocks"])
def test_a_prompt_that_cannot_start_takes_no_rows_from_others(why):
    slots = 4 if why == "slots" else 5
    config = EngineConfig(
        block_tokens=4, max_slots=slots, max_step_tokens=slots, prefill_floor=8, watermark=0.0
    )
    bench = endless(config, 12)
    for number in range(4):
        bench.submit(number, [5], 11)
    bench.loop.turn()
    assert len(bench.executor.plans[-1]) == 4
    bench.submit(4, [5] * 44, 1)
    if why == "blocks":  # one row less than the prompt needs is free
        taken = bench.loop.pool.take(bench.loop.pool.free)
    for _ in range(3):
        bench.loop.turn()
        assert [entry[0] for entry in bench.executor.plans[-1]] == [0, 1, 2, 3]
    if why == "blocks":
        bench.loop.pool.release(taken)
    while bench.loop.scheduler.running or bench.loop.scheduler.waiting:
        bench.loop.turn()
    assert [bench.finish(s).reason for s in bench.sequences] == ["length"] * 5


def test_few_may_pass_a_prompt_that_does_not_fit_yet():
    config = EngineConfig(block_tokens=4, max_slots=16, chunk=64, watermark=0.0, admit_lookahead=2)
    bench = endless(config, 16)
    holder = bench.submit(0, [5] * 20, 30)
    bench.loop.turn()
    big = bench.submit(1, [5] * 60, 2)
    small = [bench.submit(number, [5], 2) for number in range(2, 8)]
    order = []
    while bench.loop.scheduler.running or bench.loop.scheduler.waiting:
        bench.loop.turn()
        order += [e[0] for e in bench.executor.plans[-1] if e[0] not in order]
    assert order[:4] == [0, 2, 3, 1]
    assert sorted(order[4:]) == [4, 5, 6, 7]
    assert all(bench.finish(s).reason == "length" for s in [holder, big, *small])


def test_a_sequence_that_was_preempted_often_goes_before_newcomers():
    bench = endless(EngineConfig(block_tokens=4, max_slots=1, preempt_boost=1), 8)
    running = bench.submit(0, [5] * 4, 12)
    bench.loop.turn()
    late = bench.submit(5, [5] * 4, 4)
    bench.submit(1, [5] * 4, 4)
    late.preemptions = 1
    while not running.closed:
        bench.loop.turn()
    bench.loop.turn()
    assert late.admitted is not None
    assert bench.sequences[2].admitted is None
