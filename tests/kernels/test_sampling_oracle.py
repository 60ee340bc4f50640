"""`sample_row` against the plain-Python sampler, parameter by parameter and at random."""

import itertools
import math

import numpy as np
import pytest
from deepinfer_kernels.sampling import SamplerParams, Status, TokenCounts, sample_row
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import sampler_oracle as oracle

V = 50

# Two settings per parameter, each of which changes what is drawn.
SETTINGS = {
    "temperature": [0.3, 2.5],
    "top_k": [1, 7],
    "top_p": [0.2, 0.9],
    "min_p": [0.02, 0.3],
    "repetition_penalty": [0.7, 1.8],
    "presence_penalty": [1.5, -2.0],
    "frequency_penalty": [0.4, -0.3],
    "logit_bias": [((3, 4.0), (49, -5.0)), ((7, -math.inf), (8, 2.5))],
    "banned": [(0, 5, 6), tuple(range(30))],
    "seed": [1, (1 << 64) - 1],
    "sample": [1, 77],
}
CASES = [{name: value} for name, values in SETTINGS.items() for value in values] + [
    {first: SETTINGS[first][i], second: SETTINGS[second][j]}
    for first, second in itertools.combinations(SETTINGS, 2)
    for i, j in ((0, 1), (1, 0))
]


def packed(allowed, vocab_size):
    bits = np.zeros((vocab_size + 31) // 32 * 32, dtype=np.uint8)
    bits[list(allowed)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def replay(prompt, output):
    counts = TokenCounts()
    counts.add_prompt(prompt)
    for token in output:
        counts.add_output(token)
    return counts


def assert_equal_to_oracle(logits, params, position, allowed, prompt, output, banned_now):
    logits = np.array(logits, dtype=np.float32)
    drawn = sample_row(
        logits,
        params,
        position=position,
        mask=None if allowed is None else packed(allowed, len(logits)),
        counts=replay(prompt, output),
        banned_now=banned_now,
    )
    expected = oracle.draw(logits.tolist(), params, position, allowed, prompt, output, banned_now)
    if expected == "numeric":
        assert drawn.status is Status.NUMERIC
    elif expected is None:
        assert drawn.status is Status.EMPTY
    else:
        assert (drawn.status, drawn.token) == (Status.OK, expected)


@pytest.mark.parametrize("changes", CASES, ids=lambda c: "+".join(c))
def test_each_parameter_alone_and_in_pairs(changes):
    rng = np.random.default_rng(len(str(changes)))
    params = SamplerParams(**changes)
    for position in range(3):
        logits = (rng.standard_normal(V) * 3).astype(np.float32)
        prompt, output = rng.integers(0, V, 8).tolist(), rng.integers(0, V, 12).tolist()
        allowed = None if position == 0 else set(rng.integers(0, V, 30).tolist())
        assert_equal_to_oracle(logits, params, position, allowed, prompt, output, (1, 2))


LOGIT = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-42, -1e-42, -math.inf, 12.5, 3e38, -3e38]),
    st.floats(-30, 30, width=32),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@st.composite
def rows(draw):
    size = draw(st.integers(1, 40))
    palette = draw(st.lists(LOGIT, min_size=1, max_size=size))
    logits = draw(st.lists(st.sampled_from(palette), min_size=size, max_size=size))
    ids = st.integers(0, size - 1)
    params = SamplerParams(
        temperature=draw(st.sampled_from([0.0, 5e-5, 1e-3, 0.5, 1.0, 1.7, 1e4, 1e30])),
        top_k=draw(st.sampled_from([0, 0, 1, 3, size, size + 5])),
        top_p=draw(st.sampled_from([1.0, 1.0, 1e-9, 1e-7, 0.1, 0.5, 0.95, 1 - 1e-9])),
        min_p=draw(st.sampled_from([0.0, 0.0, 1e-10, 0.05, 0.5, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 0.5, 1.3])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.7])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, -0.2, 0.1])),
        logit_bias=tuple(draw(st.lists(st.tuples(ids, st.floats(-5, 5)), max_size=3))),
        banned=tuple(draw(st.lists(ids, max_size=2))),
        seed=draw(st.integers(0, (1 << 64) - 1)),
        sample=draw(st.integers(0, 3)),
    )
    allowed = draw(st.one_of(st.none(), st.sets(ids)))
    history = st.lists(ids, max_size=6)
    position = draw(st.integers(0, (1 << 48) - 1))
    return logits, params, position, allowed, draw(history), draw(history), draw(history)


@settings(max_examples=1_000, deadline=None, derandomize=True)
@given(rows())
def test_any_row_equals_the_oracle(row):
    assert_equal_to_oracle(*row)


@pytest.mark.parametrize("spread", [0.1, 3.0, 12.0])
@pytest.mark.parametrize("temperature", [0.7, 1.0, 3.0])
def test_rows_wide_enough_to_skip_noise_equal_the_oracle(spread, temperature):
    # Beyond 256 candidates the noise is evaluated only where it could win.
    rng = np.random.default_rng(int(spread * 10))
    for position in range(4):
        logits = (rng.standard_normal(1_500) * spread).astype(np.float32)
        params = SamplerParams(temperature=temperature, seed=position)
        assert_equal_to_oracle(logits, params, position, None, (), (), ())
