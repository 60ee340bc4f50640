"""Distributions: chi-square of drawn tokens against softmax in float64, with fixed seeds.

The limits are quantiles at 1e-6 of the chi-square distribution, so a correct sampler passes for
almost every seed, and a biased one fails at these sample sizes.
"""

import math

import numpy as np
import pytest
from deepinfer_kernels.draw import draw_modulo31, rejection_limit, scaled_scores
from deepinfer_kernels.fixed_point import gumbel_q22
from deepinfer_kernels.philox import philox4x32
from deepinfer_kernels.sampling import SamplerParams, sample_row

from tests.kernels import sampler_oracle as oracle
from tests.kernels.test_sampling_oracle import packed


def chi_square_limit(freedom):
    """Upper 1e-6 quantile by the Wilson-Hilferty approximation."""
    return freedom * (1 - 2 / (9 * freedom) + 4.7534 * math.sqrt(2 / (9 * freedom))) ** 3


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def assert_distributed(counts, probabilities):
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    assert counts[probabilities == 0].sum() == 0
    live = probabilities > 0
    expected = probabilities[live] * counts.sum()
    assert expected.min() > 5, "too few draws for the test"
    statistic = float(((counts[live] - expected) ** 2 / expected).sum())
    limit = chi_square_limit(live.sum() - 1)
    assert statistic < limit, f"chi-square {statistic:.1f}, limit {limit:.1f}"


def many_draws(logits, temperature, seed, draws):
    """The draw of 3.5 for many positions at once: every noise value, then an argmax."""
    size = len(logits)
    positions = np.repeat(np.arange(draws, dtype=np.uint64), (size + 3) // 4)
    counters = np.zeros((4, len(positions)), dtype=np.uint64)
    counters[0] = positions
    counters[2] = np.tile(np.arange((size + 3) // 4, dtype=np.uint64), draws)
    words = philox4x32(counters, (seed, 0)).reshape(draws, -1)[:, :size]
    scores = scaled_scores(logits * np.float32(math.log2(math.e) / temperature))
    return (scores + gumbel_q22(words.reshape(-1)).reshape(draws, size)).argmax(axis=1)


DISTRIBUTIONS = {
    "flat": np.zeros(16),
    "two": np.array([0.0, 3.0]),
    "geometric": -0.4 * np.arange(16),
    "spread": np.random.default_rng(1).standard_normal(20),
    "peaked": np.array([6.0, 0, 0.5, -0.5, 1]),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("temperature", [1.0, 1.6])
def test_a_million_draws_follow_softmax(name, temperature):
    logits = DISTRIBUTIONS[name].astype(np.float32)
    tokens = many_draws(logits, temperature, seed=len(name), draws=100_000)
    expected = softmax(logits.astype(np.float64) / temperature)
    assert_distributed(np.bincount(tokens, minlength=len(logits)), expected)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_single_rows_draw_what_the_bulk_computation_draws(name):
    logits = DISTRIBUTIONS[name].astype(np.float32)
    tokens = many_draws(logits, 1.0, seed=7, draws=400)
    params = SamplerParams(seed=7)
    single = [sample_row(logits, params, position=p).token for p in range(400)]
    assert single == tokens.tolist()


def test_a_biased_draw_would_be_noticed():
    logits = DISTRIBUTIONS["geometric"].astype(np.float32)
    tokens = many_draws(logits, 1.0, seed=1, draws=100_000)
    wrong = softmax(logits.astype(np.float64) * 1.03)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_distributed(np.bincount(tokens, minlength=16), wrong)


CUTS = {
    "top_k": SamplerParams(top_k=5, seed=1),
    "top_p": SamplerParams(top_p=0.8, seed=2),
    "min_p": SamplerParams(min_p=0.2, seed=3),
    "all cuts": SamplerParams(temperature=1.5, top_k=10, top_p=0.9, min_p=0.1, seed=4),
    "modulo31": SamplerParams(draw="modulo31", seed=5),
    "modulo31 with cuts": SamplerParams(draw="modulo31", temperature=0.8, top_k=6, seed=6),
}


@pytest.mark.parametrize("name", CUTS)
def test_cut_rows_follow_the_renormalised_softmax(name):
    params = CUTS[name]
    logits = np.random.default_rng(8).standard_normal(20).astype(np.float32)
    kept = sorted(oracle.cut(dict(enumerate(logits.tolist())), range(20), params))
    expected = np.zeros(20)
    expected[kept] = softmax(logits[kept].astype(np.float64) / params.temperature)
    tokens = [sample_row(logits, params, position=p).token for p in range(4_000)]
    assert_distributed(np.bincount(tokens, minlength=20), expected)


def test_a_mask_keeps_relative_probabilities():
    logits = np.random.default_rng(9).standard_normal(40).astype(np.float32)
    allowed = [1, 2, 3, 17, 31, 32, 39]
    expected = np.zeros(40)
    expected[allowed] = softmax(logits[allowed].astype(np.float64))
    mask = packed(allowed, 40)
    params = SamplerParams(seed=10)
    tokens = [sample_row(logits, params, position=p, mask=mask).token for p in range(5_000)]
    assert_distributed(np.bincount(tokens, minlength=40), expected)


def test_samples_of_one_request_are_independent():
    logits = np.zeros(4, np.float32)
    pairs = np.zeros((4, 4), int)
    for position in range(4_000):
        a, b = (
            sample_row(logits, SamplerParams(sample=s), position=position).token for s in (0, 1)
        )
        pairs[a, b] += 1
    assert_distributed(pairs.ravel(), np.full(16, 1 / 16))


@pytest.mark.parametrize(
    ("total", "limit"),
    [((1 << 31) - 1, (1 << 32) - 2), (1 << 31, 1 << 31), (3, 0xFFFFFFFF), (7, 0xFFFFFFFC)],
)
def test_modulo31_limit_halves_where_the_total_reaches_two_to_the_31(total, limit):
    assert rejection_limit(total) == limit


def test_modulo31_rejects_words_above_the_limit():
    # Two equal tokens: weights 2**30 each, total 2**31, so words from 2**31 on are rejected.
    logits = np.zeros(2, np.float32)
    for position in range(100):
        attempts = (oracle.word(3, position, 1, i, 4) for i in range(64))
        accepted = next(word for word in attempts if word < 1 << 31)
        index = draw_modulo31(logits, np.float32(1), seed=3, position=position, sample=4)
        assert index == accepted >> 30


def test_modulo31_never_leaves_the_top_4096():
    logits = np.zeros(5_000, np.float32)
    params = SamplerParams(draw="modulo31")
    tokens = [sample_row(logits, params, position=p).token for p in range(300)]
    assert max(tokens) < 4_096
    assert min(tokens) < 1_000
