"""Behaviour of one sampling step: statuses, ties, purity, exact masks."""

import dataclasses
import math

import numpy as np
import pytest
from deepinfer_kernels.sampling import Drawn, SamplerParams, Status, TokenCounts, sample_row
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.test_sampling_oracle import packed

GREEDY = SamplerParams(temperature=0)
EVERY_KIND = [
    GREEDY,
    SamplerParams(),
    SamplerParams(top_k=3, top_p=0.9, min_p=0.01),
    SamplerParams(draw="modulo31"),
]


def row(*values):
    return np.array(values, dtype=np.float32)


def noisy(size, seed):
    return (np.random.default_rng(seed).standard_normal(size) * 3).astype(np.float32)


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_or_infinity_is_reported(params, bad):
    assert sample_row(row(1, bad, 2), params, position=0) == Drawn(-1, Status.NUMERIC)


def test_nan_under_the_mask_is_reported_too():
    drawn = sample_row(row(1, math.nan, 2), GREEDY, position=0, mask=packed({0}, 3))
    assert drawn.status is Status.NUMERIC


def test_overflow_by_bias_is_reported():
    params = SamplerParams(logit_bias=((0, 3e38),))
    assert sample_row(row(3e38, 0), params, position=0).status is Status.NUMERIC


@pytest.mark.parametrize("params", EVERY_KIND)
def test_nothing_allowed_is_reported(params):
    empty = Drawn(-1, Status.EMPTY)
    assert sample_row(row(1, 2, 3), params, position=0, mask=packed((), 3)) == empty
    assert sample_row(row(1, 2, 3), params, position=0, banned_now=(0, 1, 2)) == empty
    assert sample_row(row(-math.inf, -math.inf), params, position=0) == empty
    masked = sample_row(row(1, -math.inf), params, position=0, mask=packed({1}, 2))
    assert masked == empty


@pytest.mark.parametrize("params", EVERY_KIND)
def test_one_allowed_token_is_drawn_however_unlikely(params):
    drawn = sample_row(row(80, -3e38, 90), params, position=0, mask=packed({1}, 3))
    assert drawn.token == 1


@pytest.mark.parametrize("temperature", [0.0, 9.9e-5])
def test_greedy_ties_go_to_the_lowest_id_and_zeros_are_equal(temperature):
    params = SamplerParams(temperature=temperature)
    assert sample_row(row(-1, -0.0, 0.0, -0.0), params, position=0).token == 1
    assert sample_row(row(5, 7, 7), params, position=3).token == 1


def test_tiny_top_p_is_greedy_at_any_temperature():
    params = SamplerParams(temperature=5.0, top_p=1e-9)
    logits = noisy(500, 1)
    tokens = {sample_row(logits, params, position=p).token for p in range(50)}
    assert tokens == {int(logits.argmax())}


def test_top_k_of_the_whole_vocabulary_changes_nothing():
    logits = noisy(300, 2)
    for position in range(20):
        plain = sample_row(logits, SamplerParams(), position=position)
        assert sample_row(logits, SamplerParams(top_k=300), position=position) == plain
        assert sample_row(logits, SamplerParams(top_k=10**9), position=position) == plain


def test_equal_logits_reach_every_token():
    tokens = {
        sample_row(np.zeros(8, np.float32), SamplerParams(), position=p).token for p in range(200)
    }
    assert tokens == set(range(8))


@pytest.mark.parametrize("logits", [(1e38, 1.1e38, -3e38), (1e9, 1e9 + 64, -1e9)])
def test_huge_logits_keep_their_order(logits):
    for position in range(20):
        assert sample_row(row(*logits), SamplerParams(), position=position).token == 1
        # Both leave the range of float32 when divided by the temperature, so they count as equal.
        cold = SamplerParams(temperature=2e-4 if logits[0] > 1e37 else 0.5)
        assert sample_row(row(*logits), cold, position=position).token in (0, 1)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.integers(1, 200),
    st.integers(0, 1 << 32),
    st.sampled_from(EVERY_KIND),
    st.floats(0.01, 1),
)
def test_a_masked_token_is_never_drawn(size, seed, params, density):
    rng = np.random.default_rng(seed)
    allowed = set(np.flatnonzero(rng.random(size) < density).tolist())
    logits = (rng.standard_normal(size) * 5).astype(np.float32)
    drawn = sample_row(logits, params, position=seed, mask=packed(allowed, size))
    assert drawn.token in allowed if allowed else drawn.status is Status.EMPTY


@pytest.mark.parametrize("params", EVERY_KIND)
def test_a_mask_means_minus_infinity(params):
    rng = np.random.default_rng(5)
    for position in range(30):
        logits = noisy(400, position)
        allowed = np.flatnonzero(rng.random(400) < 0.3)
        masked = np.full_like(logits, -np.inf)
        masked[allowed] = logits[allowed]
        by_mask = sample_row(logits, params, position=position, mask=packed(allowed, 400))
        assert by_mask == sample_row(masked, params, position=position)


def test_bits_beyond_the_vocabulary_are_ignored():
    mask = np.array([0xFFFFFFFF, 0xFFFFFFF0], dtype=np.uint32)
    logits = np.full(36, -5, np.float32)
    tokens = {sample_row(logits, SamplerParams(), position=p, mask=mask).token for p in range(500)}
    assert max(tokens) < 36


def test_evaluation_order_and_neighbours_do_not_matter():
    rows = [noisy(1_000, n) for n in range(6)]
    cases = [(n, position) for n in range(6) for position in range(5)]
    params = SamplerParams(temperature=0.8, top_p=0.97, seed=99)
    alone = {c: sample_row(rows[c[0]], params, position=c[1]) for c in cases}
    np.random.default_rng(0).shuffle(cases)
    for case in cases:
        sample_row(noisy(77, 1), SamplerParams(seed=3), position=case[1])
        assert sample_row(rows[case[0]], params, position=case[1]) == alone[case]


def test_a_row_split_into_tiles_draws_the_same_token():
    # The winner of the row is the winner among the winners of its parts, in any order of parts.
    for position in range(20):
        logits = noisy(2_000, position)
        params = SamplerParams(seed=position)
        whole = sample_row(logits, params, position=position).token
        for width in (1_000, 300, 128):
            tiles = [range(at, min(at + width, 2_000)) for at in range(0, 2_000, width)]
            winners = {
                sample_row(logits, params, position=position, mask=packed(tile, 2_000)).token
                for tile in reversed(tiles)
            }
            best = sample_row(logits, params, position=position, mask=packed(winners, 2_000))
            assert best.token == whole


def test_inputs_are_not_modified():
    logits = noisy(100, 3)
    mask = packed(range(50), 100)
    counts = TokenCounts()
    counts.add_output(4)
    before = logits.copy(), mask.copy()
    params = SamplerParams(logit_bias=((1, 2.0),), banned=(5,), repetition_penalty=1.5)
    for used in (None, mask):
        sample_row(logits, params, position=0, mask=used, counts=counts, banned_now=(7,))
    np.testing.assert_array_equal(logits, before[0])
    np.testing.assert_array_equal(mask, before[1])


@pytest.mark.parametrize("field", ["seed", "sample", "position"])
def test_each_part_of_the_noise_address_matters(field):
    logits = np.zeros(1_000, np.float32)
    drawn = set()
    for value in range(20):
        params = SamplerParams(seed=5, sample=5)
        if field != "position":
            params = dataclasses.replace(params, **{field: value})
        position = value if field == "position" else 5
        drawn.add(sample_row(logits, params, position=position).token)
    assert len(drawn) > 15


def test_counts_by_replay_do_not_depend_on_grouping():
    one, other = TokenCounts(), TokenCounts()
    one.add_prompt([5, 5, 9])
    for token in range(200):
        one.add_output(token % 150)
    other.add_prompt([5])
    for token in range(200):
        other.add_output(token % 150)
    other.add_prompt([9, 5])
    for counts in (one, other):
        ids, output = counts.arrays()
        assert dict(zip(ids.tolist(), output.tolist(), strict=True)) == {
            token: 2 if token < 50 else 1 for token in range(150)
        }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, r"top_p is 0.0; it must be in \(0, 1\]"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": 2.0}, "min_p is 2.0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"presence_penalty": math.inf}, "presence_penalty is inf"),
        ({"logit_bias": ((1, math.inf),)}, "logit_bias is inf"),
        ({"logit_bias": ((1, math.nan),)}, "logit_bias is nan"),
        ({"banned": (-1,)}, "banned"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616"),
        ({"sample": -1}, "sample is -1"),
        ({"draw": "cdf"}, "draw is 'cdf'"),
        ({"logprobs": 21}, "logprobs is 21"),
        ({"logprobs_mode": "sampled"}, "logprobs_mode is 'sampled'"),
    ],
    ids=str,
)
def test_values_outside_their_range_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        SamplerParams(**changes)


def test_malformed_inputs_are_refused():
    with pytest.raises(ValueError, match=r"expected float32\[V\]"):
        sample_row(np.zeros(3), GREEDY, position=0)
    with pytest.raises(ValueError, match=r"needs uint32\[2\]"):
        sample_row(np.zeros(33, np.float32), GREEDY, position=0, mask=np.zeros(1, np.uint32))
    for params in (SamplerParams(banned=(3,)), SamplerParams(logit_bias=((3, 1.0),))):
        with pytest.raises(ValueError, match="token id 3 is outside the vocabulary of 3"):
            sample_row(row(1, 2, 3), params, position=0)
