import hashlib

import numpy as np
import pytest
from deepinfer_kernels.fixed_point import (
    GUMBEL_ABOVE,
    GUMBEL_BELOW,
    LOG2_TABLE,
    WEIGHT_ONE,
    exp2_fixed,
    gumbel_q22,
    log2_q30,
)

from tests.kernels import sampler_oracle as oracle

SEAM = 1 << 22  # u crosses 2**-10 between the words SEAM - 1 and SEAM


def words(*ranges):
    return np.concatenate([np.arange(*r, dtype=np.uint64) for r in ranges]).astype(np.uint32)


def exact_gumbel(k):
    u = (2 * k.astype(np.longdouble) + 1) / np.longdouble(2) ** 33
    ln2 = np.log(np.longdouble(2))
    return -np.log2(-np.log1p(-u) / ln2)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs 80-bit floats as reference")
def test_gumbel_is_within_its_stated_error():
    rng = np.random.default_rng(3)
    k = np.concatenate(
        [
            rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint64).astype(np.uint32),
            # Small words, where the noise is large: every magnitude alike.
            (2 ** rng.uniform(0, 32, 200_000)).astype(np.uint32),
            words((0, 4096), (SEAM - 4096, SEAM + 4096), ((1 << 32) - 4096, 1 << 32)),
        ]
    )
    error = np.abs(gumbel_q22(k) / np.longdouble(1 << 22) - exact_gumbel(k))
    assert error.max() < 3.7e-6, f"word {k[error.argmax()]}"


def test_gumbel_never_increases_with_the_word():
    rng = np.random.default_rng(4)
    spread = np.sort(rng.integers(0, 1 << 32, 500_000, dtype=np.uint64)).astype(np.uint32)
    for k in (
        spread,
        words((0, 200_000)),
        words((SEAM - 200_000, SEAM + 200_000)),
        words(((1 << 32) - 200_000, 1 << 32)),
    ):
        assert (np.diff(gumbel_q22(k)) <= 0).all()


def test_gumbel_stays_in_its_stated_range():
    ends = gumbel_q22(np.array([0, 0xFFFFFFFF], dtype=np.uint32)) / (1 << 22)
    assert GUMBEL_BELOW > ends[0] > 32.4
    assert GUMBEL_ABOVE < ends[1] < -5.0


def test_gumbel_equals_plain_integers():
    rng = np.random.default_rng(5)
    k = (2 ** rng.uniform(0, 32, 5_000)).astype(np.uint32)
    assert gumbel_q22(k).tolist() == [oracle.gumbel(int(v)) for v in k]


def test_log2_table_holds_the_rounded_logarithms():
    assert LOG2_TABLE.tolist() == oracle.TABLE


def test_log2_of_powers_of_two_is_exact():
    powers = np.array([1 << n for n in range(53)], dtype=np.int64)
    assert log2_q30(powers).tolist() == [n << 30 for n in range(53)]


def test_exp2_is_within_its_stated_error():
    grid = np.linspace(-1, 0, 1 << 20, dtype=np.float32)
    exact = np.exp2(grid.astype(np.float64))
    # One bit is dropped by the shift below 1; count it at 2**30.
    error = np.abs(exp2_fixed(grid) / WEIGHT_ONE - exact) / exact
    assert error.max() < 2.0**-22


def test_exp2_never_decreases():
    grid = np.linspace(-4, 0, 1 << 20, dtype=np.float32)
    assert (np.diff(exp2_fixed(grid)) >= 0).all()


def test_exp2_of_whole_numbers_is_a_shift():
    t = -np.arange(70, dtype=np.float32)
    assert exp2_fixed(t).tolist() == [WEIGHT_ONE >> n for n in range(70)]


@pytest.mark.parametrize("t", [-np.inf, -3e38, -64.0, -31.5])
def test_exp2_far_below_is_zero(t):
    assert exp2_fixed(np.array([t], dtype=np.float32)).tolist() == [0]


@pytest.mark.parametrize("t", [-1e-45, -1e-9, -(2.0**-24)])
def test_exp2_just_below_zero_does_not_exceed_one(t):
    weight = int(exp2_fixed(np.array([t], dtype=np.float32))[0])
    assert WEIGHT_ONE - 128 <= weight <= WEIGHT_ONE


def test_exp2_equals_plain_arithmetic():
    rng = np.random.default_rng(6)
    t = -np.abs(rng.standard_normal(5_000) * 12).astype(np.float32)
    assert exp2_fixed(t).tolist() == [oracle.exp2_fixed(float(v)) for v in t]


def test_published_bits_have_not_changed():
    k = np.arange(0, 1 << 32, 65_537, dtype=np.uint64).astype(np.uint32)
    t = -np.arange(0, 32, 1 / 2048, dtype=np.float32)
    digest = hashlib.sha256(gumbel_q22(k).astype("<i8").tobytes())
    digest.update(exp2_fixed(t).astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == "aecef9be63adf7c1"
