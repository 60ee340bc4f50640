import numpy as np
import pytest
from deepinfer_kernels.cuts import (
    keep_top_k,
    keep_top_p,
    min_p_weight,
    order_keys,
    ranked,
    top_p_q24,
)
from deepinfer_kernels.fixed_point import exp2_fixed

DENORMAL = np.float32(1e-42)


def adversarial_row(rng):
    """A short row full of ties, signed zeros, denormals, extremes and wide gaps."""
    n = int(rng.integers(1, 24))
    kind = rng.integers(6)
    if kind == 0:
        return rng.integers(-2, 3, n).astype(np.float32)
    if kind == 1:
        return rng.choice(np.array([0.0, -0.0, DENORMAL, -DENORMAL], np.float32), n)
    if kind == 2:
        return np.full(n, rng.standard_normal(), np.float32)
    if kind == 3:
        return (rng.standard_normal(n) * 10 ** rng.uniform(-3, 3)).astype(np.float32)
    if kind == 4:
        row = np.full(n, -3e38, np.float32)
        row[rng.integers(n)] = 1.0
        return row
    base = np.float32(rng.standard_normal() * 10)
    return base + rng.integers(0, 4, n).astype(np.float32) * np.spacing(base)


def rows(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng, adversarial_row(rng)


def by_sorting(x):
    return sorted(range(len(x)), key=lambda i: (-float(x[i]), i))


def test_order_is_logit_then_id_with_equal_zeros():
    for _, x in rows(2_000, 1):
        assert ranked(order_keys(x)).tolist() == by_sorting(x), x


def test_top_k_keeps_exactly_the_first_k():
    for rng, x in rows(5_000, 2):
        k = int(rng.integers(1, len(x) + 3))
        kept = keep_top_k(order_keys(x), k).tolist()
        assert kept == sorted(by_sorting(x)[:k]), (x, k)


def test_top_p_keeps_the_shortest_prefix_that_reaches_the_mass():
    for rng, x in rows(10_000, 3):
        with np.errstate(over="ignore"):
            weights = exp2_fixed((x - x.max()) * np.float32(rng.choice([0.1, 1.44, 30])))
        fraction = int(rng.choice([0, 1, 1 << 12, 1 << 22, 1 << 23, 15_938_355, 1 << 24]))
        kept = keep_top_p(order_keys(x), weights, fraction).tolist()
        need = -(-fraction * int(weights.sum()) // (1 << 24))
        order = by_sorting(x)
        reached = np.cumsum([int(weights[i]) for i in order]).tolist()
        length = next(n for n, total in enumerate(reached, 1) if total >= need)
        assert kept == sorted(order[:length]), (x, fraction)


def test_top_p_is_exact_on_a_very_wide_row():
    # 2**18 equal tokens: the mass is 2**48 and no float could count it token by token.
    size = 1 << 18
    x = np.zeros(size, np.float32)
    kept = keep_top_p(order_keys(x), np.full(size, 1 << 30), top_p_q24(0.7))
    expected = -(-round(0.7 * (1 << 24)) * size // (1 << 24))
    np.testing.assert_array_equal(kept, np.arange(expected))


@pytest.mark.parametrize("fraction", [0.3, 0.9, 0.999])
def test_top_p_on_a_model_sized_row(fraction):
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(49_152) * 3).astype(np.float32)
    weights = exp2_fixed((x - x.max()) * np.float32(1.4427))
    kept = keep_top_p(order_keys(x), weights, top_p_q24(fraction))
    order = np.lexsort((np.arange(len(x)), -x))
    need = -(-top_p_q24(fraction) * int(weights.sum()) // (1 << 24))
    length = int(np.searchsorted(np.cumsum(weights[order]), need)) + 1
    np.testing.assert_array_equal(kept, np.sort(order[:length]))


def test_min_p_threshold_is_rounded_up():
    assert min_p_weight(0.5) == 1 << 29
    assert min_p_weight(2.0**-31) == 1
    assert min_p_weight(0.1) == 107_374_183
    assert min_p_weight(1.0) == 1 << 30
