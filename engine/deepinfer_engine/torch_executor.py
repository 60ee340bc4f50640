"""An executor on a torch device: the forward pass, the fused sampler and automata that live there.

Logits, masks and automaton states never come back. Results of a step are copied to the host while
the next one runs, and are looked at then: nothing between two launches waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
import torch
from deepinfer_kernels.gpu.commit import commit
from deepinfer_kernels.gpu.sampler import SampleOutput, SamplerPlan, SamplerWorkspace, sample
from deepinfer_kernels.sampler_types import MAX_LOGPROBS
from deepinfer_kernels.sampling import Drawn, Status
from numpy.typing import NDArray

from .config import EngineConfig
from .constraint import TokenConstraint
from .cpu_executor import step_rows
from .device_automata import AutomataStats, DeviceAutomata
from .device_copy import upload
from .device_rows import DeviceRows
from .executor import Choice, refusal, sampling_error
from .free_text import FreeText
from .loop import TokenTable
from .scheduler import Entry
from .sequence import Sequence
from .torch_llama import TorchLlama


@dataclass(eq=False, slots=True)
class _Slot:
    """What the device knows of a sequence.

    Attributes:
        index: Its row.
        constraint: What its automaton on the device is, if it has one.
        controls: Whether control tokens are left to a list of banned ids.
        written: Whether the row says what comes next; it moves on by itself then.
        narrowed: Whether the next mask leaves out tokens for lack of budget.
        early: Whether ends of the text are among the banned ids.
        may_end: Whether the next token may end the text though it is early: nothing else is left.
    """

    index: int
    constraint: TokenConstraint | None
    controls: bool
    written: bool = False
    narrowed: bool = False
    early: bool = False
    may_end: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """One sampling entry of a launched step; `failed` is set if it was not worth running."""

    sequence: Sequence
    slot: _Slot | None
    epoch: int
    narrowed: bool
    early: bool
    failed: Choice | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A launched step: its rows, and their results once `done`."""

    rows: list[_Row]
    results: torch.Tensor | None
    done: torch.cuda.Event | None


class TorchExecutor:
    """The forward pass and the fused sampler on one device.

    Args:
        model: The forward pass and its cache.
        config: Sizes and limits.
        tokens: The tokenizer's table.

    Raises:
        EngineError: ``memory``, if `config.automata_bytes` is too little.
    """

    def __init__(self, model: TorchLlama, config: EngineConfig, tokens: TokenTable) -> None:
        self._model, self._config, self._tokens = model, config, tokens
        device, slots, size = model.device, config.max_slots, model.config.vocab_size
        self._controls = {
            i
            for i, data in enumerate(tokens.token_bytes)
            if data is None and i not in tokens.eos_ids
        }
        self._free_text = FreeText(tokens.token_bytes, tokens.eos_ids)
        self._workspace = SamplerWorkspace(slots, size, device)
        self._rows = DeviceRows(slots, size, device)
        self._automata = DeviceAutomata(
            tokens.token_bytes, tokens.eos_ids, device, slots=slots, max_bytes=config.automata_bytes
        )
        self._slots: dict[Sequence, _Slot] = {}
        self._free = list(range(slots - 1, -1, -1))

    @property
    def depth(self) -> int:
        """One step runs while the results of the one before are looked at."""
        return 1

    def start(self) -> None:
        """Nothing to prepare on the thread."""

    def stats(self) -> AutomataStats:
        """Counters of the automata on the device."""
        return self._automata.stats()

    def release(self, sequence: Sequence) -> None:
        """Free the row of a sequence that has ended, or that can be written again."""
        slot = self._slots.pop(sequence, None)
        if slot is not None:
            if slot.constraint is not None:
                self._automata.release(slot.constraint)
            self._rows.forget(slot.index)
            self._free.append(slot.index)

    # -- launching ------------------------------------------------------------------------------

    def launch(self, entries: Many[Entry]) -> _Step:
        """Enqueue the forward pass over all rows, and one draw per sampling entry."""
        try:
            with torch.inference_mode():
                return self._launch(entries)
        except torch.OutOfMemoryError as error:  # the loop tries again with fewer rows
            raise MemoryError(str(error)) from None

    def _launch(self, entries: Many[Entry]) -> _Step:
        self._automata.refresh()
        rows = [self._prepared(entry.sequence) for entry in entries if entry.samples]
        self._automata.flush()
        self._rows.flush()
        logits = self._model.forward(
            step_rows(entries, self._config.block_tokens), self._drawn(entries)
        )
        live = [i for i, row in enumerate(rows) if row.failed is None]
        if not live:
            return _Step(rows, None, None)
        if len(live) < len(rows):
            logits = logits[upload(np.array(live), self._model.device)]
        out = self._draw(logits, [rows[i] for i in live])
        return _Step(rows, *self._copied(out, any(_reports(rows[i]) for i in live)))

    def _drawn(self, entries: Many[Entry]) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Rows whose token only the device knows, int64, and those tokens; None if there are none.

        Such a token is the last one of its entry.
        """
        ends = np.cumsum([entry.count for entry in entries])
        found = [
            (end - 1, self._slots[entry.sequence].index)
            for entry, end in zip(entries, ends.tolist(), strict=True)
            if entry.start + entry.count > len(entry.sequence.tokens)
        ]
        if not found:
            return None
        at, slots = upload(np.array(found, np.int64).T, self._model.device)
        return at, self._rows.last[slots]

    def _prepared(self, sequence: Sequence) -> _Row:
        """See to it that the device knows how to draw; a failure stays with the sequence."""
        slot = None
        try:
            slot = self._slots.get(sequence) or self._open(sequence)
            if slot is None:
                again = Choice(None, again=True)
                return _Row(sequence, None, sequence.epoch, False, False, again)
            narrowed = self._write(sequence, slot)
        except Exception as error:
            failed = Choice(None, error=sampling_error(error, sequence))
            return _Row(sequence, slot, sequence.epoch, False, False, failed)
        return _Row(sequence, slot, sequence.epoch, narrowed, slot.early, None)

    def _open(self, sequence: Sequence) -> _Slot | None:
        """A row for a sequence; None if it has to wait for one that is drawing its last token."""
        if not self._free:  # preempted sequences keep theirs as long as nobody needs it
            idle = (s for s in self._slots if s.admitted is None and not s.drawing)
            preempted = next(idle, None)
            if preempted is None:
                return None
            self.release(preempted)
        constraint = sequence.request.constraint
        listed = not self._controls.issubset(sequence.params.banned)
        if constraint is None and not listed:
            constraint = self._free_text
        if constraint is not None:
            self._automata.acquire(constraint)
        slot = self._slots[sequence] = _Slot(self._free.pop(), constraint, controls=listed)
        return slot

    def _write(self, sequence: Sequence, slot: _Slot) -> bool:
        """Write the row unless it is right already; whether the budget narrows its mask."""
        params = sequence.params
        drawn = sequence.output_length + sequence.drawing
        early = drawn < sequence.request.min_tokens and not slot.may_end
        banned = params.banned
        if not slot.controls:
            banned = tuple(i for i in banned if i not in self._controls)
        if early:
            banned += (*self._tokens.eos_ids, *sequence.request.stop_ids)
        if slot.written:
            if early != slot.early:
                self._rows.write_banned(slot.index, banned)
                slot.early = early
            return False
        state, override, narrowed = -1, -1, False
        if slot.constraint is not None:
            at = sequence.state if sequence.request.constraint is not None else FreeText.start
            state, override, narrowed = self._automata.serve(
                slot.constraint, at, sequence.budget, slot.index
            )
        self._rows.write(
            slot.index, sequence, params, state=state, override=override, banned=banned
        )
        slot.written, slot.early, slot.may_end = True, early, False
        return narrowed

    def _draw(self, logits: torch.Tensor, rows: list[_Row]) -> SampleOutput:
        params = [row.sequence.params for row in rows]
        slots = [row.slot.index for row in rows if row.slot]
        at = upload(np.array(slots, np.int32), self._model.device)
        plan = SamplerPlan(
            penalties=self._rows.penalised,
            lists=self._rows.listed,
            modulo31=any(p.draw == "modulo31" for p in params),
            logprobs=any(p.logprobs is not None for p in params),
        )
        out = SampleOutput.allocate(len(rows), self._model.device)
        tables = self._automata.tables
        sample(logits, self._rows.params(at), tables, out, self._workspace, plan)
        commit(self._rows.all_params(), at, self._rows.last, out, self._workspace.vocab_size)
        return out

    def _copied(
        self, out: SampleOutput, reports: bool
    ) -> tuple[torch.Tensor, torch.cuda.Event | None]:
        """The results as int32 [B, 3 or more] on their way to the host."""
        parts = [torch.stack([out.token, out.next_state, out.status], 1)]
        if reports:
            numbers = (out.logprob[:, None], out.top_logprobs)
            parts += [out.rank[:, None], out.top_ids, *(n.view(torch.int32) for n in numbers)]
        whole = torch.cat(parts, 1)
        if self._model.device.type != "cuda":
            return whole, None
        there = torch.empty(whole.shape, dtype=whole.dtype, pin_memory=True)
        there.copy_(whole, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return there, done

    # -- collecting -----------------------------------------------------------------------------

    def collect(self, step: _Step) -> list[Choice]:
        """Look at the results of a step, which may still be running."""
        if step.done is not None:
            step.done.synchronize()
        found = iter([] if step.results is None else step.results.numpy())
        return [row.failed or self._choice(row, next(found)) for row in step.rows]

    def _choice(self, row: _Row, result: NDArray[np.int32]) -> Choice:
        sequence, slot = row.sequence, row.slot
        if sequence.closed or sequence.epoch != row.epoch or slot is None:
            return Choice(None, again=True)  # launched before it was known to be in vain
        try:
            drawn = _drawn(result, sequence.params.logprobs)
            if drawn.status is Status.OK:
                return self._taken(row, drawn, int(result[1]))
            slot.written = False
            if drawn.status is Status.MISS:
                self._automata.count(misses=1, stalls=int(drawn.token < 0))
                if drawn.token < 0:
                    return Choice(None, again=True)
                found = Drawn(drawn.token, Status.OK, drawn.logprob, drawn.rank, drawn.top)
                return Choice(found, row.narrowed, rewind=True)
            if drawn.status is Status.EMPTY and row.early:  # nothing else is left to say
                slot.may_end = True
                return Choice(None, again=True)
            return refusal(sequence, drawn, row.narrowed) or Choice(drawn, row.narrowed)
        except Exception as error:
            return Choice(None, error=sampling_error(error, sequence))

    def _taken(self, row: _Row, drawn: Drawn, reached: int) -> Choice:
        constraint = row.sequence.request.constraint
        if constraint is None:
            return Choice(drawn)
        state = self._automata.host_state(reached)
        if state is None:  # the token says nothing about the state, such as one that ends the text
            row.slot.written = False  # type: ignore[union-attr]
        return Choice(drawn, row.narrowed, rewind=state is None, state=state)


def _reports(row: _Row) -> bool:
    return row.sequence.params.logprobs is not None


def _drawn(row: NDArray[np.int32], wanted: int | None) -> Drawn:
    token, status = int(row[0]), Status(int(row[2]))
    if wanted is None or token < 0:
        return Drawn(token, status)
    values = np.ascontiguousarray(row[4 + MAX_LOGPROBS :]).view(np.float32)
    ids = row[4 : 4 + MAX_LOGPROBS].tolist()
    top = tuple((i, v) for i, v in zip(ids, values[1:].tolist(), strict=True) if i >= 0)
    return Drawn(token, status, float(values[0]), int(row[3]), top)
