"""Rows for the sampler, made from integers alone, and what the NumPy reference says about them.

A row is a function of (V, index): logits, parameters, history, automaton state. So a recorded file
of results needs no logits, and any machine can make the rows again bit for bit.
"""

from dataclasses import dataclass

import numpy as np
import torch
from deepinfer_kernels.gpu.automaton_tables import AutomatonTables
from deepinfer_kernels.gpu.sampler_rows import RowParams, pack_rows
from deepinfer_kernels.penalties import TokenCounts
from deepinfer_kernels.sampler_types import SamplerParams, Status
from deepinfer_kernels.sampling import sample_row

STATES = 24
"""Automaton states per vocabulary; 0 is dead, the last has no mask, the one before no edges."""

_TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.0, 1.3, 2.5, 40.0)
_TOP_K = (0, 0, 0, 1, 5, 40, 700, 1 << 20)
_TOP_P = (1.0, 1.0, 0.95, 0.95, 0.9, 0.6, 0.2, 1e-7)
_MIN_P = (0.0, 0.0, 0.0, 0.02, 0.3, 1e-10)


def words(seed: int, count: int) -> np.ndarray:
    """uint64 [count] of splitmix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Case:
    """One row; `dtype` says in which type its logits are exact."""

    logits: np.ndarray
    dtype: str
    params: SamplerParams
    position: int
    state: int
    left: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    banned_now: tuple[int, ...]


def make_tables(vocab_size: int) -> AutomatonTables:
    """Masks of many densities, random transitions with gaps, tokens of 0 to 4 bytes."""
    words_per_row = (vocab_size + 31) // 32
    packed = np.zeros((STATES, words_per_row), dtype=np.uint32)
    for state in range(1, STATES):
        draw = words(1_000 + state, vocab_size)
        density = (1, 2, 7, 50, 400, 1000)[state % 6]  # per mille
        bits = np.zeros(words_per_row * 32, dtype=np.uint8)
        bits[:vocab_size] = draw % np.uint64(1000) < density
        if state == 1:
            bits[:] = 0
        packed[state] = np.packbits(bits, bitorder="little").view(np.uint32)
    lengths = (words(77, vocab_size) % np.uint64(5)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    edges = (words(78, STATES * 8) % np.uint64(STATES + 1)).astype(np.int32)
    edges = np.where(edges == STATES, -1, edges).astype(np.int32)
    state_edges = np.arange(STATES, dtype=np.int32) * 8
    state_edges[STATES - 2] = -1
    state_row = np.arange(STATES, dtype=np.int32)
    state_row[STATES - 1] = -1

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values)

    return AutomatonTables(
        byte_class=tensor((words(79, 256) % np.uint64(8)).astype(np.uint8)[None]),
        state_automaton=tensor(np.zeros(STATES, dtype=np.int32)),
        state_edges=tensor(state_edges),
        edges=tensor(edges),
        state_fewest=tensor(np.arange(STATES, dtype=np.int32) % 4),
        state_row=tensor(state_row),
        state_enough=tensor((np.arange(STATES, dtype=np.int32) % 4) * 3),
        rows=tensor(packed.view(np.int32)),
        token_start=tensor(start),
        token_bytes=tensor((words(80, int(start[-1]) + 1) % np.uint64(256)).astype(np.uint8)),
        eos=tensor(packed[-1].view(np.int32)),
    )


def _logits(vocab_size: int, index: int, kind: int) -> tuple[np.ndarray, str]:
    draw = words(index * 7_919 + 5, vocab_size)
    small = (draw & np.uint64(0xFFFF)).astype(np.int64) + (
        (draw >> np.uint64(16)) & np.uint64(0xFFFF)
    ).astype(np.int64)
    small += ((draw >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64) - 98_304
    # Sum of three uniforms: standard deviation 0.5 when divided by 2**16; powers of two are exact.
    x = small.astype(np.float32) * np.float32(2.0**-16)
    if kind == 0:
        x = x * np.float32(1 << (index % 6))
    elif kind == 1:  # ties everywhere, and minus zero
        x = np.round(x * np.float32(4)) * np.float32(0.5)
    elif kind == 2:  # few tokens hold all the mass
        x = x * np.float32(2)
        x[(draw[:4] % np.uint64(vocab_size)).astype(np.int64)] += np.float32(14)
    elif kind == 3:  # -inf, denormals and huge values
        x[draw % np.uint64(3) == 0] = -np.inf
        x[draw % np.uint64(97) == 1] *= np.float32(1e-41)
        x[draw % np.uint64(89) == 1] = np.float32(-3e38)
    elif kind == 4:
        x[:] = x[0]
    elif kind == 5:  # broken rows and empty ones
        x[int(draw[0] % np.uint64(vocab_size))] = (np.nan, np.inf, -np.nan, 0.0)[index % 4]
        if index % 5 == 0:
            x[:] = -np.inf
    dtype = ("float32", "float32", "bfloat16", "float16")[int(draw[-1] >> np.uint64(62))]
    if dtype == "bfloat16":
        x = torch.from_numpy(x).to(torch.bfloat16).to(torch.float32).numpy()
    elif dtype == "float16":
        x = torch.from_numpy(x).to(torch.float16).to(torch.float32).numpy()
    return x, dtype


def make_case(vocab_size: int, index: int) -> Case:
    """Row `index` of a vocabulary."""
    d = [int(v) for v in words(index * 104_729 + vocab_size, 40)]
    kind = (0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5)[d[0] % 11]
    logits, dtype = _logits(vocab_size, index, kind)
    ids = [v % vocab_size for v in d[20:40]]
    penalised = d[1] % 4 == 0
    params = SamplerParams(
        temperature=_TEMPERATURES[d[2] % 8],
        top_k=_TOP_K[d[3] % 8],
        top_p=_TOP_P[d[4] % 8],
        min_p=_MIN_P[d[5] % 6],
        repetition_penalty=(1.0, 1.3, 0.6)[d[6] % 3] if penalised else 1.0,
        presence_penalty=(0.0, 0.7)[d[7] % 2] if penalised else 0.0,
        frequency_penalty=(0.0, -0.2, 0.1)[d[8] % 3] if penalised else 0.0,
        logit_bias=((ids[0], 2.5), (ids[1], -np.inf), (ids[0], -0.1)) if d[9] % 5 == 0 else (),
        banned=(ids[2], ids[3]) if d[10] % 5 == 0 else (),
        seed=d[11],
        sample=d[12] % 4,
    )
    state = -1 if d[13] % 2 else d[14] % STATES
    return Case(
        logits=logits,
        dtype=dtype,
        params=params,
        position=d[15] % (1 << 48),
        state=state,
        left=d[16] % 40,
        prompt=tuple(ids[4:10]) if penalised else (),
        output=tuple(ids[8:16]) + tuple(ids[8:10]) if penalised else (),
        banned_now=(ids[17],) if d[17] % 6 == 0 else (),
    )


def expected(case: Case, tables: AutomatonTables) -> tuple[int, int, int]:
    """Token, next state and status by the NumPy reference."""
    mask = None
    if case.state == 0:
        return -1, 0, int(Status.EMPTY)
    if case.state > 0:
        row = int(tables.state_row[case.state])
        if row < 0 or case.left < int(tables.state_enough[case.state]):
            return -1, case.state, int(Status.MISS)
        mask = tables.rows[row].numpy().view(np.uint32)
    counts = TokenCounts()
    counts.add_prompt(case.prompt)
    for token in case.output:
        counts.add_output(token)
    drawn = sample_row(
        case.logits,
        case.params,
        position=case.position,
        mask=mask,
        counts=counts,
        banned_now=case.banned_now,
    )
    if drawn.status is not Status.OK or case.state < 0:
        return drawn.token, case.state, int(drawn.status)
    state = case.state
    for at in range(int(tables.token_start[drawn.token]), int(tables.token_start[drawn.token + 1])):
        offset = int(tables.state_edges[state])
        if offset >= 0:
            automaton, byte = int(tables.state_automaton[state]), int(tables.token_bytes[at])
            state = int(tables.edges[offset + int(tables.byte_class[automaton, byte])])
        if offset < 0 or state < 0:
            return drawn.token, case.state, int(Status.MISS)
        if state == 0:
            break
    return drawn.token, state, int(Status.OK)


def pack_cases(cases: list[Case], vocab_size: int, device: str) -> tuple[torch.Tensor, RowParams]:
    """Logits of one dtype and parameter rows of the cases, which share that dtype."""
    assert len({case.dtype for case in cases}) == 1
    logits = torch.from_numpy(np.stack([case.logits for case in cases]))
    penalised = [i for i, case in enumerate(cases) if case.prompt or case.output]
    counts = np.zeros((max(len(penalised), 1), vocab_size), dtype=np.int16)
    seen = np.zeros((max(len(penalised), 1), (vocab_size + 31) // 32), dtype=np.uint32)
    slots = [-1] * len(cases)
    for slot, i in enumerate(penalised):
        slots[i] = slot
        np.add.at(counts[slot], list(cases[i].output), 1)
        for token in (*cases[i].prompt, *cases[i].output):
            seen[slot, token >> 5] |= np.uint32(1 << (token & 31))
    rows = pack_rows(
        [case.params for case in cases],
        [case.position for case in cases],
        device=device,
        states=[case.state for case in cases],
        left=[case.left for case in cases],
        slots=slots,
        counts=torch.from_numpy(counts).to(device),
        seen=torch.from_numpy(seen.view(np.int32)).to(device),
        banned_now=[case.banned_now for case in cases],
    )
    return logits.to(getattr(torch, cases[0].dtype)).to(device), rows
