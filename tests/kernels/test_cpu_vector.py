"""The vector code against plain loops, and its refusals; every rounding is float32."""

import numba
import numpy as np
import pytest
from deepinfer_kernels.cpu import attention, linear
from deepinfer_kernels.cpu.elementwise import exp32
from deepinfer_kernels.cpu.linear import add_block
from deepinfer_kernels.cpu.vector import add_float32_1, power_of_two
from numba.core.errors import TypingError

from tests.kernels.test_cpu_weight import any_weight


@numba.njit(error_model="numpy")
def one_row(w, x, acc):
    add_float32_1(w, 0, w.shape[1], x, 0, 0, len(w), acc, 0, 0, w.shape[1])


@numba.njit
def power(n):
    return power_of_two(n)


@pytest.mark.parametrize("rows", range(10))
@pytest.mark.parametrize("lanes", [16, 48, 64, 80, 192])
@pytest.mark.parametrize("count", [0, 1, 2, 33])
def test_sums_are_those_of_the_plain_loop_and_nothing_else_is_touched(rows, lanes, count):
    rng = np.random.default_rng(rows)
    w = rng.standard_normal((count + 1, lanes + 5)).astype(np.float32)
    x = rng.standard_normal((rows + 2, 40)).astype(np.float32)
    acc = rng.standard_normal((rows + 2, lanes + 3)).astype(np.float32)
    expected = acc.copy()
    for r in range(rows):
        for k in range(count):
            expected[r + 1, 2 : lanes + 2] += w[k, 5:] * x[r + 1, 4 + k]
    add_block(w, 5, lanes + 5, x, 44, 40, rows, count, acc, lanes + 3 + 2, lanes + 3, lanes)
    np.testing.assert_array_equal(acc, expected)


def test_products_and_sums_are_rounded_apart():
    # A fused multiply-add would keep the low bits of the product: 2**-24 instead of 0.
    x = np.full(1, 1 + 2.0**-12, np.float32)
    acc = np.full(16, -(1 + 2.0**-11), np.float32)
    one_row(np.full((1, 16), x[0], np.float32), x, acc)
    assert not acc.any()


def test_powers_of_two_are_exact():
    for n in range(-126, 128):
        assert power(np.float32(n)) == np.float32(2.0**n)
    assert power(np.float32("nan")) == 1


def test_exponential_of_an_array_equals_one_at_a_time():
    @numba.njit(error_model="numpy")
    def all_of(x, out):
        for i in range(len(x)):
            out[i] = exp32(x[i])

    x = np.concatenate([np.linspace(-100, 100, 4_001), [np.nan, np.inf, -np.inf]])
    x = x.astype(np.float32)
    out = np.empty_like(x)
    all_of(x, out)
    np.testing.assert_array_equal(out, np.array([exp32(value) for value in x]))
    assert np.isnan(out[-3])
    assert np.isfinite(np.delete(out, -3)).all()


@pytest.mark.parametrize("wrong", [np.ones((4, 32), np.float32)[:, ::2], np.ones((4, 16))])
def test_arrays_of_another_layout_or_type_do_not_compile(wrong):
    with pytest.raises(TypingError, match="is not a contiguous array of float32"):
        one_row(wrong, np.ones(4, np.float32), np.zeros(16, np.float32))


def test_a_product_refuses_what_does_not_fit():
    weight = any_weight("Q4_1", 64, 64)
    with pytest.raises(ValueError, match="not tiled"):
        linear(np.ones((1, 64), np.float32), weight)
    for shape in ((1, 32), (64,), (1, 96)):
        with pytest.raises(ValueError, match=r"the weight needs \[R, 64\]"):
            linear(np.ones(shape, np.float32), weight.tile())


def test_a_product_takes_rows_of_any_layout_and_type():
    weight = any_weight("Q8_0", 64, 64).tile()
    x = np.random.default_rng(1).standard_normal((6, 128)).astype(np.float32)
    expected = linear(np.ascontiguousarray(x[::2, ::2]), weight)
    np.testing.assert_array_equal(linear(x[::2, ::2], weight), expected)
    np.testing.assert_array_equal(linear(x[::2, ::2].astype(np.float64), weight), expected)


def test_attention_refuses_a_cache_that_does_not_fit():
    queries, one = np.ones((1, 4, 32), np.float32), np.zeros(1, np.int64)
    keys, values = np.ones((3, 2, 32, 16), np.float32), np.ones((3, 2, 16, 32), np.float32)
    for k, v in ((keys[:, :1], values), (keys, keys), (keys[:, :, :16], values)):
        with pytest.raises(ValueError, match="do not fit together"):
            attention(queries, k, v, one, one, one[None], 1.0)
    with pytest.raises(ValueError, match="do not fit together"):
        attention(queries[:, :3], keys, values, one, one, one[None], 1.0)
    with pytest.raises(ValueError, match="C-contiguous"):
        attention(queries, keys[::2], values[::2], one, one, one[None], 1.0)


@pytest.mark.parametrize(("dim", "block"), [(32, 16), (20, 10), (48, 8), (80, 64), (8, 4)])
def test_attention_of_any_width_and_block_sums_in_order(dim, block):
    rng = np.random.default_rng(dim)
    blocks, length = 5, 4 * block + 3
    keys = rng.standard_normal((blocks, 1, dim, block)).astype(np.float32)
    values = rng.standard_normal((blocks, 1, block, dim)).astype(np.float32)
    query = rng.standard_normal((1, 2, dim)).astype(np.float32)
    table = rng.permutation(blocks)
    scale = np.float32(dim**-0.5)
    out = attention(
        query, keys, values, np.array([length - 1]), np.zeros(1, np.int64), table[None], scale
    )
    for head in range(2):
        k = keys[table, 0].transpose(0, 2, 1).reshape(-1, dim)[:length]
        v = values[table, 0].reshape(-1, dim)[:length]
        scores = np.zeros(length, np.float32)
        for i in range(dim):
            scores += query[0, head, i] * k[:, i]
        weights = [exp32(np.float32(s * scale)) for s in scores - scores.max()]
        acc, total = np.zeros(dim, np.float32), 0.0
        for t in range(length):
            acc += weights[t] * v[t]
            total += float(weights[t])
        expected = acc * np.float32(1.0 / total)
        np.testing.assert_array_equal(out[0, head * dim : (head + 1) * dim], expected)
