import numpy as np
import pytest
from deepinfer_kernels.cpu import attention, rope_and_store, rope_tables

from tests.kernels.invariance import assert_independent_of_threads

HEADS, KV_HEADS, DIM, BLOCK = 6, 2, 32, 16
SCALE = DIM**-0.5
LENGTH = 300
BLOCKS = 64


class Cache:
    """A paged cache with one sequence in scattered blocks; unused slots hold NaN."""

    def __init__(self, seed=0, length=LENGTH):
        rng = np.random.default_rng(seed)
        self.keys = np.full((BLOCKS, KV_HEADS, DIM, BLOCK), np.nan, np.float32)
        self.values = np.full((BLOCKS, KV_HEADS, BLOCK, DIM), np.nan, np.float32)
        self.table = rng.permutation(BLOCKS)[: -(-length // BLOCK)].astype(np.int64)
        self.k = rng.standard_normal((length, KV_HEADS, DIM)).astype(np.float32) * 2
        self.v = rng.standard_normal((length, KV_HEADS, DIM)).astype(np.float32)
        for position in range(length):
            page, place = self.table[position // BLOCK], position % BLOCK
            self.keys[page, :, :, place] = self.k[position]
            self.values[page, :, place] = self.v[position]


@pytest.fixture
def cache():
    return Cache()


@pytest.fixture
def queries():
    rng = np.random.default_rng(9)
    return rng.standard_normal((LENGTH, HEADS, DIM)).astype(np.float32) * 2


def attend(cache, queries, positions):
    count = len(positions)
    return attention(
        np.ascontiguousarray(queries),
        cache.keys,
        cache.values,
        np.asarray(positions, np.int64),
        np.zeros(count, np.int64),
        cache.table[None],
        SCALE,
    )


def exact(cache, queries, positions):
    out = np.empty((len(positions), HEADS, DIM))
    group = HEADS // KV_HEADS
    for r, position in enumerate(positions):
        for head in range(HEADS):
            k = cache.k[: position + 1, head // group].astype(np.float64)
            v = cache.v[: position + 1, head // group].astype(np.float64)
            scores = k @ queries[r, head].astype(np.float64) * SCALE
            weights = np.exp(scores - scores.max())
            out[r, head] = weights @ v / weights.sum()
    return out.reshape(len(positions), -1)


def test_attention_is_close_to_float64(cache, queries):
    positions = np.arange(LENGTH)
    result = attend(cache, queries, positions)
    np.testing.assert_allclose(result, exact(cache, queries, positions), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_of_a_prompt_give_the_bits_of_the_whole(cache, queries, chunk):
    whole = attend(cache, queries, np.arange(LENGTH))
    parts = [
        attend(cache, queries[at : at + chunk], np.arange(at, min(at + chunk, LENGTH)))
        for at in range(0, LENGTH, chunk)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("count", [1, 2, 3, 17, 64, 257])
def test_rows_do_not_depend_on_order_or_neighbours(cache, queries, count):
    whole = attend(cache, queries, np.arange(LENGTH))
    rng = np.random.default_rng(count)
    for _ in range(3):
        rows = rng.permutation(LENGTH)[:count]
        np.testing.assert_array_equal(attend(cache, queries[rows], rows), whole[rows])


def test_other_sequences_in_the_step_do_not_matter(queries):
    caches = [Cache(seed, length) for seed, length in ((1, 40), (2, 300), (3, 17))]
    keys = np.concatenate([c.keys for c in caches])
    values = np.concatenate([c.values for c in caches])
    tables = np.zeros((3, 20), np.int64)
    for i, c in enumerate(caches):
        tables[i, : len(c.table)] = c.table + i * BLOCKS
    sequences = np.array([1, 0, 2, 1, 1, 0])
    positions = np.array([299, 39, 0, 12, 250, 3])
    together = attention(queries[:6].copy(), keys, values, positions, sequences, tables, SCALE)
    for row in range(6):
        alone = attend(caches[sequences[row]], queries[row : row + 1], positions[row : row + 1])
        np.testing.assert_array_equal(together[row], alone[0])


def test_the_choice_of_blocks_does_not_matter(queries):
    first = Cache(4)
    second = Cache(4)
    moved = np.random.default_rng(5).permutation(BLOCKS)
    second.keys, second.values = first.keys[moved], first.values[moved]
    second.table = np.argsort(moved)[first.table]
    rows = np.arange(0, LENGTH, 11)
    np.testing.assert_array_equal(
        attend(first, queries[rows], rows), attend(second, queries[rows], rows)
    )


def test_the_number_of_threads_does_not_change_bits(cache, queries):
    rows = np.arange(0, LENGTH, 5)
    assert_independent_of_threads(lambda: attend(cache, queries[rows], rows))


def test_nan_in_a_query_or_a_value_reaches_the_result_of_its_row_only(cache, queries):
    queries = queries[:3].copy()
    queries[1] = np.nan
    out = attend(cache, queries, [10, 10, 10])
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[[0, 2]]).all()
    cache.values[cache.table[0], :, 7] = np.nan
    out = attend(cache, queries[[0, 2]], [6, 7])
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1]).all()


def stored(qkv, positions, tables, slots=None):
    keys = np.zeros((BLOCKS, KV_HEADS, DIM, BLOCK), np.float32)
    values = np.zeros((BLOCKS, KV_HEADS, BLOCK, DIM), np.float32)
    slots = positions if slots is None else slots
    queries = rope_and_store(qkv, HEADS, positions, slots, tables, keys, values)
    page, place = slots // BLOCK, slots % BLOCK
    return queries, keys[page, :, :, place], values[page, :, place], (keys, values)


def step(count, seed=0):
    width = (HEADS + 2 * KV_HEADS) * DIM
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def test_rotation_is_that_of_the_half_split_layout():
    tables = rope_tables(DIM, 10_000.0, 600)
    qkv, positions = step(40), np.arange(500, 540)
    queries, keys, values, _ = stored(qkv, positions, tables)
    heads = qkv.astype(np.float64).reshape(40, -1, DIM)
    angle = positions[:, None, None] * 10_000.0 ** (-np.arange(0, DIM, 2) / DIM)
    turned = (heads[..., : DIM // 2] + 1j * heads[..., DIM // 2 :]) * np.exp(1j * angle)
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(queries, expected[:, :HEADS], atol=2e-6)
    np.testing.assert_allclose(keys, expected[:, HEADS : HEADS + KV_HEADS], atol=2e-6)
    np.testing.assert_array_equal(values, qkv.reshape(40, -1, DIM)[:, HEADS + KV_HEADS :])


def test_only_the_named_slots_are_written():
    tables = rope_tables(DIM, 10_000.0, 600)
    slots = np.array([5, 700, 33], np.int64)
    *_, (keys, values) = stored(step(3), np.array([0, 1, 2]), tables, slots)
    for array in (keys.transpose(0, 3, 1, 2), values.transpose(0, 2, 1, 3)):
        touched = np.flatnonzero(array.reshape(BLOCKS * BLOCK, -1).any(axis=1))
        assert touched.tolist() == [5, 33, 700]


def test_stored_rows_do_not_depend_on_each_other():
    tables = rope_tables(DIM, 10_000.0, 600)
    qkv, positions = step(257), np.arange(257)
    whole = stored(qkv, positions, tables)[:3]
    for count in (1, 2, 3, 17, 64):
        rows = np.random.default_rng(count).permutation(257)[:count]
        for part, full in zip(stored(qkv[rows], positions[rows], tables)[:3], whole, strict=True):
            np.testing.assert_array_equal(part, full[rows])
