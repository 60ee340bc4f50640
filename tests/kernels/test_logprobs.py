import dataclasses

import numpy as np
import pytest
from deepinfer_kernels.logprobs import TILE, tiled_sum
from deepinfer_kernels.sampling import SamplerParams, sample_row

from tests.kernels import sampler_oracle as oracle
from tests.kernels.test_sampling_oracle import packed

TOP = SamplerParams(logprobs=20, seed=1)


def noisy(size, seed=0, spread=4.0):
    return (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)


def log_softmax(x):
    x = x.astype(np.float64)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


@pytest.mark.parametrize("size", [1, 50, TILE - 1, TILE, TILE + 1, 49_152, 129_280])
@pytest.mark.parametrize("spread", [0.01, 4.0, 30.0])
def test_raw_logprobs_are_close_to_float64(size, spread):
    logits = noisy(size, size, spread)
    drawn = sample_row(logits, TOP, position=3)
    exact = log_softmax(logits)
    assert drawn.logprob is not None
    assert abs(drawn.logprob - exact[drawn.token]) < 2e-6
    for token, logprob in drawn.top:
        assert abs(logprob - exact[token]) < 2e-6


def test_raw_ignores_penalties_masks_and_cuts():
    logits = noisy(200)
    params = SamplerParams(
        temperature=0.5, top_k=3, logit_bias=((0, 9.0),), banned=(1,), logprobs=5
    )
    drawn = sample_row(logits, params, position=0, mask=packed(range(100), 200))
    exact = log_softmax(logits)
    assert drawn.logprob == pytest.approx(exact[drawn.token], abs=2e-6)
    assert [token for token, _ in drawn.top] == np.argsort(-logits)[:5].tolist()


def test_processed_is_the_distribution_drawn_from():
    logits = noisy(200)
    params = SamplerParams(
        temperature=0.7, top_k=12, top_p=0.95, logprobs=20, logprobs_mode="processed"
    )
    allowed = list(range(0, 200, 2))
    drawn = sample_row(logits, params, position=0, mask=packed(allowed, 200))
    values = dict(enumerate(logits.tolist()))
    kept = sorted(oracle.cut(values, allowed, params))
    exact = dict(zip(kept, log_softmax(logits[kept].astype(np.float64) / 0.7), strict=True))
    assert {token for token, _ in drawn.top} == set(kept)
    assert drawn.logprob == pytest.approx(exact[drawn.token], abs=2e-6)
    for token, logprob in drawn.top:
        assert logprob == pytest.approx(exact[token], abs=2e-6)


def test_processed_greedy_reports_temperature_one_without_cuts():
    logits = noisy(60)
    params = SamplerParams(temperature=0, top_k=1, logprobs=20, logprobs_mode="processed")
    drawn = sample_row(logits, params, position=0, banned_now=(int(logits.argmax()),))
    rest = logits.copy()
    rest[logits.argmax()] = -np.inf
    assert drawn.logprob == pytest.approx(log_softmax(rest)[drawn.token], abs=2e-6)
    assert len(drawn.top) == 20


def test_rank_counts_better_logits_and_equal_ones_with_lower_ids():
    logits = np.array([2, 3, 2, 2, -1], dtype=np.float32)
    for token, rank in ((1, 1), (0, 2), (2, 3), (3, 4), (4, 5)):
        drawn = sample_row(logits, SamplerParams(logprobs=0), position=0, mask=packed({token}, 5))
        assert (drawn.token, drawn.rank, drawn.top) == (token, rank, ())


def test_equal_tokens_are_listed_by_id():
    logits = np.array([1, -0.0, 5, 0.0, 5, -0.0], dtype=np.float32)
    drawn = sample_row(logits, SamplerParams(logprobs=6), position=0)
    assert [token for token, _ in drawn.top] == [2, 4, 0, 1, 3, 5]


def test_impossible_tokens_are_not_listed():
    logits = np.array([1, -np.inf, 0], dtype=np.float32)
    drawn = sample_row(logits, SamplerParams(logprobs=3), position=0)
    assert [token for token, _ in drawn.top] == [0, 2]


@pytest.mark.parametrize("mode", ["raw", "processed"])
def test_asking_for_logprobs_never_changes_the_token(mode):
    logits = noisy(3_000, spread=2.0)
    for position in range(30):
        plain = SamplerParams(temperature=0.9, top_p=0.99, seed=4)
        asked = dataclasses.replace(plain, logprobs=5, logprobs_mode=mode)
        with_report = sample_row(logits, asked, position=position)
        assert with_report.token == sample_row(logits, plain, position=position).token


def test_the_sum_is_a_fixed_tree_over_tiles():
    values = np.abs(noisy(2 * TILE + 100))
    padded = np.concatenate([values, np.zeros(TILE - 100, np.float32)])
    total = np.float32(0)
    for tile in padded.reshape(3, TILE):
        folded = tile
        while len(folded) > 1:
            folded = folded[: len(folded) // 2] + folded[len(folded) // 2 :]
        total = total + folded[0]
    assert tiled_sum(values) == total


@pytest.mark.parametrize("offset", [0, 1, 3, 7])
def test_exponentials_do_not_depend_on_alignment_or_index(offset):
    # The report relies on it: NumPy's float32 exp gives an element the same bits anywhere.
    values = -np.abs(noisy(1_037, 9, 20.0))
    reference = np.array([np.exp(values[i : i + 1])[0] for i in range(len(values))])
    shifted = np.concatenate([np.zeros(offset, np.float32), values])[offset:]
    np.testing.assert_array_equal(np.exp(shifted), reference)
