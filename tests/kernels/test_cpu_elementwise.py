import math

import numpy as np
import pytest
from deepinfer_kernels.cpu import rms_norm, rope_tables, silu_mul
from deepinfer_kernels.cpu.elementwise import exp32

from tests.kernels.invariance import assert_row_invariant, rows_of


def test_norm_rows_do_not_depend_on_each_other():
    weight = rows_of(577, count=1)[0]
    assert_row_invariant(lambda x, rows: rms_norm(x, weight, 1e-5), rows_of(577))


@pytest.mark.parametrize("width", [1, 7, 576, 4096])
def test_norm_is_close_to_float64(width):
    x, weight = rows_of(width, count=40), rows_of(width, 1, count=1)[0]
    exact = x.astype(np.float64)
    exact = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5) * weight
    # Three roundings: the factor and two products.
    np.testing.assert_allclose(rms_norm(x, weight, 1e-5), exact, rtol=4 * 2.0**-24, atol=1e-44)


def test_norm_of_large_values_does_not_overflow():
    x = np.full((1, 64), 1e30, np.float32)
    np.testing.assert_allclose(rms_norm(x, np.ones(64, np.float32), 1e-5), 1.0, rtol=1e-6)


def test_activation_rows_do_not_depend_on_each_other():
    assert_row_invariant(lambda x, rows: silu_mul(x), rows_of(2 * 37))


def test_activation_bits_do_not_depend_on_the_column():
    # Column 0 to 36 hold the same pair; a vector tail computed by another routine would show.
    rng = np.random.default_rng(2)
    for gate, up in rng.standard_normal((50, 2)).astype(np.float32) * 4:
        row = np.concatenate([np.full(37, gate), np.full(37, up)])[None]
        assert len(np.unique(silu_mul(row))) == 1


def test_activation_is_close_to_float64():
    gate = np.linspace(-80, 80, 20_001, dtype=np.float32)
    up = np.linspace(-3, 3, 20_001, dtype=np.float32)
    exact = gate.astype(np.float64)
    exact = exact / (1 + np.exp(-exact)) * up
    np.testing.assert_allclose(silu_mul(np.concatenate([gate, up])[None])[0], exact, rtol=6e-7)


@pytest.mark.parametrize(("gate", "expected"), [(1e4, 1e4), (-1e4, 0.0), (-0.0, 0.0)])
def test_activation_at_the_ends(gate, expected):
    out = silu_mul(np.array([[gate, 1.0]], np.float32))
    assert out[0, 0] == pytest.approx(expected, abs=1e-30)


def test_nan_stays_nan():
    out = silu_mul(np.array([[np.nan, 1.0, 2.0, np.nan], [1.0, 1.0, 1.0, 1.0]], np.float32))
    assert np.isnan(out[0]).all()
    assert np.isfinite(out[1]).all()
    assert math.isnan(exp32(np.float32(np.nan)))


def test_exponential_is_close_to_float64():
    x = np.linspace(-86.9, 87.9, 50_001, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    result = np.array([exp32(value) for value in x])
    np.testing.assert_allclose(result, exact, rtol=2.0**-22)


@pytest.mark.parametrize(("dim", "theta"), [(64, 10_000.0), (128, 500_000.0)])
def test_rotary_tables_are_rounded_once_from_float64(dim, theta):
    cos, sin = rope_tables(dim, theta, 300)
    for position in (0, 1, 7, 299):
        for i in (0, 1, dim // 2 - 1):
            angle = position * theta ** (-2 * i / dim)
            assert cos[position, i] == pytest.approx(math.cos(angle), abs=2.0**-24)
            assert sin[position, i] == pytest.approx(math.sin(angle), abs=2.0**-24)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_llama3_scaling_keeps_short_waves_and_stretches_long_ones():
    dim, theta = 128, 500_000.0
    _, plain = rope_tables(dim, theta, 2)
    _, scaled = rope_tables(dim, theta, 2, LLAMA3)
    frequency = theta ** (-np.arange(0, dim, 2) / dim)
    wavelength = 2 * np.pi / frequency
    short, long = wavelength < 8192 / 4, wavelength > 8192
    assert short.any()
    assert long.any()
    np.testing.assert_array_equal(scaled[:, short], plain[:, short])
    np.testing.assert_allclose(scaled[1, long], np.sin(frequency[long] / 8), rtol=1e-7)
    # In between, the factor goes linearly in 1 / wavelength from 1/8 to 1.
    between = ~short & ~long
    weight = (8192 / wavelength[between] - 1) / 3
    mixed = frequency[between] * (weight + (1 - weight) / 8)
    np.testing.assert_allclose(scaled[1, between], np.sin(mixed), rtol=1e-7)


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="'yarn' is not supported"):
        rope_tables(64, 1e4, 8, {"rope_type": "yarn"})
