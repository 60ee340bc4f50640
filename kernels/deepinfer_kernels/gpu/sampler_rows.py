"""What a sampler launch reads and writes: parameter rows, pooled lists, workspace, results.

All tensors live on one device. A parameter row is 32 int32 columns (128 bytes, one memory sector
group), so a program fetches everything about its row at once and a caller can rewrite a row, or a
column of all rows, with one copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from deepinfer_kernels.cuts import min_p_weight, top_p_q24
from deepinfer_kernels.draw import MODULO31_WIDTH
from deepinfer_kernels.fixed_point import LOG2_TABLE
from deepinfer_kernels.sampler_types import MAX_LOGPROBS, SamplerParams

COLUMNS = 32
SAMPLE, FLAGS, STATE, LEFT = 4, 5, 6, 7
OVERRIDE_STATE, OVERRIDE_LEFT, OVERRIDE_ROW = 8, 9, 10
SCALE, INVERSE_TEMPERATURE, TOP_K, TOP_P, MIN_P = 11, 12, 13, 14, 15
PENALTY_SLOT, REPETITION, PRESENCE, FREQUENCY = 16, 17, 18, 19
BIAS_START, BIAS_LENGTH, BANNED_START, BANNED_LENGTH, LOGPROBS = 20, 21, 22, 23, 24

GREEDY, MODULO31, PROCESSED_LOGPROBS = 1, 2, 4
# What a launch compiles in, as bits of `FEATURES`.
AUTOMATA, PENALTIES, LISTS = 1, 2, 4
MAX_VOCABULARY = 1 << 18
HELD = -2  # a `STATE` that draws nothing: the row is a `MISS`


@dataclass(frozen=True)
class RowParams:
    """Parameters of every row; see the column constants of this module.

    Attributes:
        table: int32 [B, 32], contiguous. Columns 0-1 and 2-3 hold position and seed (64 bits each);
            `SCALE`, `INVERSE_TEMPERATURE` and the penalties are float32 bits. `TOP_P` is Q0.24, -1
            for off; `MIN_P` the least weight, 0 for off; `STATE` -1 for unconstrained, -2 held;
            `PENALTY_SLOT` -1 for none; `LOGPROBS` -1 for none. The penalties need both tables.
        counts: int16 or int32 [slots, V], occurrences in the output.
        seen: int32 [slots, ceil(V/32)], bits of the ids in prompt or output.
        bias_ids, bias_values: int32 and float32 [n], pooled lists; pairs of one id add up in order.
        banned_ids: int32 [n], pooled lists.
    """

    table: torch.Tensor
    counts: torch.Tensor
    seen: torch.Tensor
    bias_ids: torch.Tensor
    bias_values: torch.Tensor
    banned_ids: torch.Tensor

    def column(self, index: int) -> torch.Tensor:
        """View of an int32 column [B]."""
        return self.table[:, index]

    def float_column(self, index: int) -> torch.Tensor:
        """View of a float32 column [B]."""
        return self.table.view(torch.float32)[:, index]

    @property
    def position(self) -> torch.Tensor:
        """View int64 [B]: absolute index of the token being produced."""
        return self.table.view(torch.int64)[:, 0]

    @property
    def seed(self) -> torch.Tensor:
        """View int64 [B]: bits of the unsigned seed."""
        return self.table.view(torch.int64)[:, 1]


@dataclass(frozen=True)
class SampleOutput:
    """Results, one per row.

    Attributes:
        token: int32 [B], -1 where none was drawn; a `MISS` on the way of a token has that token.
        next_state: int32 [B]; the old state unless the status is OK.
        status: int32 [B], values of `Status`.
        logprob: float32 [B], of the token; written where `LOGPROBS` >= 0, as the three below.
        rank: int32 [B], from 1.
        top_ids: int32 [B, 20], best first, -1 beyond what was asked for or exists.
        top_logprobs: float32 [B, 20].
    """

    token: torch.Tensor
    next_state: torch.Tensor
    status: torch.Tensor
    logprob: torch.Tensor
    rank: torch.Tensor
    top_ids: torch.Tensor
    top_logprobs: torch.Tensor

    @classmethod
    def allocate(cls, rows: int, device: torch.device | str) -> SampleOutput:
        """Room for `rows` results."""
        integers = [torch.full((rows,), -1, dtype=torch.int32, device=device) for _ in range(4)]
        shape = (rows, MAX_LOGPROBS)
        return cls(
            token=integers[0],
            next_state=integers[1],
            status=integers[2],
            logprob=torch.zeros(rows, dtype=torch.float32, device=device),
            rank=integers[3],
            top_ids=torch.full(shape, -1, dtype=torch.int32, device=device),
            top_logprobs=torch.zeros(shape, dtype=torch.float32, device=device),
        )


class SamplerWorkspace:
    """Memory that the kernels share during one call; made once, so that calls allocate nothing."""

    def __init__(
        self, rows: int, vocab_size: int, device: torch.device | str, *, capacity: int = 2048
    ) -> None:
        """Allocate.

        Args:
            rows: largest batch.
            vocab_size: V, at most 2**18.
            device: where the logits are.
            capacity: candidates that a cut gathers before it selects among them; a power of two.
                Results do not depend on it.

        Raises:
            ValueError: the vocabulary is empty or too large.
        """
        if not 0 < vocab_size <= MAX_VOCABULARY:
            raise ValueError(f"vocabulary of {vocab_size}; the sampler takes 1 to 2**18 tokens")
        granules = -(-vocab_size // 256)
        self.rows, self.vocab_size, self.capacity = rows, vocab_size, capacity

        def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.largest = empty(rows, granules, dtype=torch.float32)
        self.mass = empty(rows, granules, dtype=torch.float32)
        self.upper = empty(rows, granules, dtype=torch.float32)
        self.bad = empty(rows, granules, dtype=torch.int32)
        self.visit = empty(rows, granules, dtype=torch.int32)
        self.totals = empty(rows, granules, dtype=torch.int64)
        self.before = empty(rows, granules, dtype=torch.int64)
        # The parity draw gathers 4096 candidates whatever the capacity.
        self.gathered = empty(rows, max(capacity, MODULO31_WIDTH), dtype=torch.int64)
        # Rows that need another visit: a count, then indices.
        self.queues = empty(4, 1 + rows, dtype=torch.int32)
        self.arrivals = empty(rows, dtype=torch.int32)
        self.record = empty(rows, 16, dtype=torch.int32)
        self.log2_table = torch.from_numpy(LOG2_TABLE.astype(np.int32)).to(device)
        self.nothing = empty(1, dtype=torch.int32)


def pack_rows(
    params: Sequence[SamplerParams],
    positions: Sequence[int],
    *,
    device: torch.device | str,
    states: Sequence[int] | None = None,
    left: Sequence[int] | None = None,
    slots: Sequence[int] | None = None,
    counts: torch.Tensor | None = None,
    seen: torch.Tensor | None = None,
    banned_now: Sequence[Sequence[int]] | None = None,
) -> RowParams:
    """Parameter rows for requests; everything that needs float64 is computed here.

    Args:
        params: of each row.
        positions: absolute index of the token that each row produces.
        device: where the logits are.
        states: automaton state of each row; None is unconstrained.
        left: token budget of each row, this token included; None is ample.
        slots: row of `counts` and `seen` for each row, -1 for none.
        counts: see `RowParams`.
        seen: see `RowParams`.
        banned_now: ids refused at this step, beyond those in `params`.
    """
    table = np.zeros((len(params), COLUMNS), dtype=np.int32)
    floats, longs = table.view(np.float32), table.view(np.int64)
    bias: list[tuple[int, float]] = []
    banned: list[int] = []
    for row, (one, position) in enumerate(zip(params, positions, strict=True)):
        longs[row, 0] = position
        longs[row, 1] = np.uint64(one.seed).view(np.int64)
        table[row, SAMPLE] = np.uint32(one.sample).view(np.int32)
        table[row, [STATE, OVERRIDE_STATE, OVERRIDE_ROW, PENALTY_SLOT]] = -1
        table[row, LEFT] = 0x7FFFFFFF if left is None else left[row]
        if states is not None:
            table[row, STATE] = states[row]
        refused = (*one.banned, *(banned_now[row] if banned_now is not None else ()))
        table[row, [BIAS_START, BIAS_LENGTH]] = len(bias), len(one.logit_bias)
        table[row, [BANNED_START, BANNED_LENGTH]] = len(banned), len(refused)
        bias.extend(one.logit_bias)
        banned.extend(refused)
        if slots is not None:
            table[row, PENALTY_SLOT] = slots[row]
        write_params(table[row], floats[row], one)

    def on_device(values: NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(values if len(values) else np.zeros(1, values.dtype)).to(device)

    nothing = torch.zeros((1, 1), dtype=torch.int32, device=device)
    return RowParams(
        table=torch.from_numpy(table).to(device),
        counts=nothing if counts is None else counts,
        seen=nothing if seen is None else seen,
        bias_ids=on_device(np.array([token for token, _ in bias], dtype=np.int32)),
        bias_values=on_device(np.array([value for _, value in bias], dtype=np.float32)),
        banned_ids=on_device(np.array(banned, dtype=np.int32)),
    )


def write_params(row: NDArray[np.int32], floats: NDArray[np.float32], one: SamplerParams) -> None:
    """Fill the columns that depend on `SamplerParams` alone (not the lists, slots and states).

    Args:
        row: int32 [32].
        floats: the same memory as float32 [32].
        one: the parameters.
    """
    row[FLAGS] = (
        GREEDY * one.greedy
        | MODULO31 * (one.draw == "modulo31" and not one.greedy)
        | PROCESSED_LOGPROBS * (one.logprobs_mode == "processed")
    )
    floats[[SCALE, INVERSE_TEMPERATURE]] = 1.0
    if not one.greedy:
        floats[SCALE] = math.log2(math.e) / one.temperature
        floats[INVERSE_TEMPERATURE] = 1 / one.temperature
    cuts = not one.greedy
    row[TOP_K] = min(one.top_k, 0x7FFFFFFF) if cuts else 0
    row[TOP_P] = top_p_q24(one.top_p) if cuts and one.top_p < 1.0 else -1
    row[MIN_P] = min_p_weight(one.min_p) if cuts else 0
    with np.errstate(over="ignore", under="ignore"):
        floats[REPETITION] = np.float32(one.repetition_penalty)
        floats[PRESENCE] = np.float32(one.presence_penalty)
        floats[FREQUENCY] = np.float32(one.frequency_penalty)
    row[LOGPROBS] = -1 if one.logprobs is None else one.logprobs
