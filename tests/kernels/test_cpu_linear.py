import numpy as np
import pytest
from deepinfer_kernels.cpu import Weight, linear, set_threads

from tests.kernels.invariance import (
    assert_independent_of_threads,
    assert_row_invariant,
    rows_of,
)
from tests.kernels.test_cpu_weight import KINDS, any_weight

SHAPES = [(1, 32), (64, 64), (100, 96), (130, 576)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_each_other(kind):
    weight = any_weight(kind, 130, 576).tile()
    assert_row_invariant(lambda x, rows: linear(x, weight), rows_of(576))


def test_a_product_that_splits_its_sum_by_load_is_caught():
    # The canary: with few rows the sum over K is cut in pieces, as a split-K kernel would.
    matrix = any_weight("float32", 64, 576).dense()

    def split(x, rows):
        pieces = 4 if len(x) < 16 else 1
        parts = [
            linear(np.ascontiguousarray(part), Weight.from_float32(w).tile())
            for part, w in zip(
                np.split(x, pieces, axis=1), np.split(matrix, pieces, axis=1), strict=True
            )
        ]
        return np.add.reduce(parts)

    with pytest.raises(AssertionError, match="differ from the full call"):
        assert_row_invariant(split, rows_of(576))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 3, 65])
def test_sums_run_in_index_order_with_separate_roundings(kind, shape, count):
    weight = any_weight(kind, *shape, seed=shape[1])
    dense = weight.dense()
    x = rows_of(shape[1], seed=shape[0], count=count)
    expected = np.zeros((count, shape[0]), np.float32)
    for k in range(shape[1]):
        expected += dense[:, k] * x[:, k : k + 1]
    np.testing.assert_array_equal(linear(x, weight.tile()), expected)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_widths_need_not_be_whole_blocks_without_quantisation(kind):
    weight = any_weight(kind, 10, 45)
    x = rows_of(45, count=4)
    expected = x.astype(np.float64) @ weight.dense().T.astype(np.float64)
    assert_close(linear(x, weight.tile()), expected, x, weight)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_close_to_float64(kind):
    weight = any_weight(kind, 130, 1536)
    x = rows_of(1536, count=20)
    expected = x.astype(np.float64) @ weight.dense().T.astype(np.float64)
    assert_close(linear(x, weight.tile()), expected, x, weight)


def assert_close(result, expected, x, weight):
    """Error below K roundings of the sum of magnitudes (the classical bound for a plain sum)."""
    magnitude = np.abs(x).astype(np.float64) @ np.abs(weight.dense()).T.astype(np.float64)
    bound = x.shape[1] * 2.0**-24 * magnitude + x.shape[1] * 2.0**-149
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_change_bits(kind):
    weight = any_weight(kind, 300, 256).tile()
    x = rows_of(256, count=70)
    assert_independent_of_threads(lambda: linear(x, weight))


def test_nan_stays_in_its_row():
    weight = any_weight("Q4_1", 70, 64).tile()
    x = rows_of(64, count=3)
    x[1, 5] = np.nan
    out = linear(x, weight)
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[[0, 2]]).all()


def test_more_threads_than_the_machine_has_are_refused():
    with pytest.raises(ValueError, match="this machine offers 1 to"):
        set_threads(10_000)
