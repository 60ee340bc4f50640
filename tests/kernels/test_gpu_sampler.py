"""The fused kernels against the NumPy reference: on a GPU, or in Triton's interpreter without one.

Tokens, next states and statuses are equal, always; no agreement rate is accepted.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.gpu_sampler_support import DEVICE, draw, draw_cases
from tests.kernels.test_sampling_oracle import packed, replay
from tests.kernels.test_sampling_oracle import rows as any_row

from benchmarks.sampler_cases import expected, make_case, make_tables  # isort: skip
from deepinfer_kernels.sampler_types import SamplerParams, Status  # isort: skip
from deepinfer_kernels.sampling import sample_row  # isort: skip

V = 50


def reference(logits, params, positions, **given):
    with np.errstate(all="ignore"):
        drawn = [
            sample_row(row, one, position=at, **given)
            for row, one, at in zip(logits, params, positions, strict=True)
        ]
    return [one.token for one in drawn], [int(one.status) for one in drawn]


def normal(count, size=V, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, size)) * spread).astype(np.float32)


@pytest.mark.parametrize(
    ("vocab_size", "first", "rows", "capacity", "granule"),
    [
        (50, 0, 40, 2048, None),
        (1_000, 0, 16, 64, 256),
        (1_000, 300, 6, 2048, 1024),
        (32_000, 2, 2, 2048, 1024),
    ],
)
def test_rows_of_every_kind_equal_the_reference(vocab_size, first, rows, capacity, granule):
    tables = make_tables(vocab_size)
    cases = [make_case(vocab_size, index) for index in range(first, first + rows)]
    with np.errstate(all="ignore"):
        wanted = [expected(case, tables) for case in cases]
    got = draw_cases(cases, vocab_size, tables, capacity=capacity, granule=granule)
    assert got == wanted


@settings(max_examples=20, deadline=None, derandomize=True)
@given(any_row(), st.sampled_from(["float32", "bfloat16", "float16"]))
def test_any_row_equals_the_reference(row, dtype):
    logits, params, position, allowed, prompt, output, banned_now = row
    typed = torch.tensor([logits], dtype=torch.float32).to(getattr(torch, dtype))
    got = draw(
        typed,
        [params],
        [position],
        allowed=[allowed],
        history=[(prompt, output)],
        banned_now=[banned_now],
    )
    mask = None if allowed is None else packed(allowed, len(logits))
    wanted = reference(
        typed.float().numpy(),
        [params],
        [position],
        mask=mask,
        counts=replay(prompt, output),
        banned_now=banned_now,
    )
    assert (got.token.tolist(), got.status.tolist()) == wanted


SPECIAL = {
    "all equal": np.zeros(V, np.float32),
    "zeros of both signs": np.where(np.arange(V) % 2, 0.0, -0.0).astype(np.float32),
    "denormals": (np.arange(V) % 5 * 1e-45).astype(np.float32),
    "one finite": np.where(np.arange(V) == 17, 1.0, -np.inf).astype(np.float32),
    "beyond the fixed point": np.where(np.arange(V) % 9, 1e13, 3e38).astype(np.float32),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_ties_and_extremes_equal_the_reference(name):
    params = [
        SamplerParams(seed=1),
        SamplerParams(seed=2, top_k=7, temperature=0.01),
        SamplerParams(seed=3, top_p=1e-7),
        SamplerParams(seed=4, top_k=V, top_p=0.9),
        SamplerParams(temperature=0),
    ]
    logits = np.tile(SPECIAL[name], (len(params), 1))
    got = draw(torch.from_numpy(logits), params, range(5), capacity=16)
    assert (got.token.tolist(), got.status.tolist()) == reference(logits, params, range(5))


def test_neighbours_of_a_broken_row_do_not_change():
    logits = normal(4)
    params = [SamplerParams(seed=9, top_p=0.8)] * 4
    clean = draw(torch.from_numpy(logits), params, range(4))
    logits[1, 3], logits[2] = np.nan, -np.inf
    broken = draw(torch.from_numpy(logits), params, range(4))
    assert broken.status.tolist() == [Status.OK, Status.NUMERIC, Status.EMPTY, Status.OK]
    assert broken.token[[0, 3]].tolist() == clean.token[[0, 3]].tolist()
    assert broken.token[1:3].tolist() == [-1, -1]


def test_a_row_draws_the_same_alone_and_in_any_order():
    logits = torch.from_numpy(normal(5, seed=3))
    params = [SamplerParams(seed=i, top_k=10 * (i % 2), top_p=0.9) for i in range(5)]
    together = draw(logits, params, range(5)).token.tolist()
    order = [3, 0, 4, 2, 1]
    shuffled = draw(logits[order], [params[i] for i in order], order).token.tolist()
    assert [shuffled[order.index(i)] for i in range(5)] == together
    alone = draw(logits[2:3], params[2:3], [2]).token.tolist()
    assert alone == together[2:3]


def test_tiles_do_not_change_a_draw():
    logits = torch.from_numpy(normal(2, size=1_500, spread=1.0, seed=4))
    params = [SamplerParams(seed=5, top_p=0.7), SamplerParams(seed=6)]
    tokens = [draw(logits, params, [8, 9], granule=g).token.tolist() for g in (256, 512, 1024)]
    assert tokens[0] == tokens[1] == tokens[2] == reference(logits.numpy(), params, [8, 9])[0]


def test_parity_draw_and_reports_equal_the_reference():
    params = [
        SamplerParams(draw="modulo31", top_p=0.8, temperature=0.7, logprobs=4),
        SamplerParams(top_p=0.5, top_k=30, temperature=1.4, logprobs=5, logprobs_mode="processed"),
        SamplerParams(temperature=0, logprobs=2, logprobs_mode="processed"),
    ]
    logits = normal(3, size=90, seed=6)
    logits[:, ::7] = logits[:, :1]  # ties in the lists
    logits[:, 3] = -np.inf
    got = draw(torch.from_numpy(logits), params, range(3), reports=True, capacity=32)
    for i, one in enumerate(params):
        drawn = sample_row(logits[i], one, position=i)
        assert got.token[i].item() == drawn.token
        assert got.rank[i].item() == drawn.rank
        assert got.logprob[i].item() == pytest.approx(drawn.logprob, abs=2e-6)
        listed = [token for token, _ in drawn.top]
        assert got.top_ids[i].tolist() == listed + [-1] * (20 - len(listed))
        values = [value for _, value in drawn.top]
        assert got.top_logprobs[i, : len(values)].tolist() == pytest.approx(values, abs=2e-6)


def test_a_narrowed_mask_is_used_for_its_state_and_budget_only():
    tables = make_tables(V).to(DEVICE)
    tables.state_enough[10] = 5
    tables.token_start.zero_()  # tokens without bytes leave the state as it is
    logits = torch.from_numpy(normal(4, seed=7))
    got = draw(
        logits,
        [SamplerParams()] * 4,
        range(4),
        tables=tables,
        states=[10, 10, 10, 10],
        left=[5, 4, 4, 4],
        override=[(-1, -1, -1), (10, 4, 11), (10, 3, 11), (9, 4, 11)],
    )
    assert got.status.tolist() == [Status.OK, Status.OK, Status.MISS, Status.MISS]
    assert got.token[2:].tolist() == [-1, -1]
    for row, packed_row in ((0, 10), (1, 11)):
        mask = tables.rows[packed_row].cpu().numpy().view(np.uint32)
        drawn = sample_row(logits[row].numpy(), SamplerParams(), position=row, mask=mask)
        assert got.token[row].item() == drawn.token
    assert got.next_state.tolist() == [10, 10, 10, 10]
