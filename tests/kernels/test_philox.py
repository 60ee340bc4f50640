import numpy as np
import pytest
from deepinfer_kernels.philox import noise_blocks, philox4x32, token_words

from tests.kernels import sampler_oracle as oracle

# Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, output.
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_published_vectors(counter, key, expected):
    counters = np.array(counter, dtype=np.uint64).reshape(4, 1)
    assert tuple(philox4x32(counters, key)[0].tolist()) == expected


def test_many_counters_at_once_equal_one_at_a_time():
    rng = np.random.default_rng(1)
    counters = rng.integers(0, 1 << 32, (4, 300), dtype=np.uint64)
    key = (0x12345678, 0xFEDCBA98)
    together = philox4x32(counters, key)
    for n in range(0, 300, 7):
        assert together[n].tolist() == oracle.philox(counters[:, n].tolist(), key)


@pytest.mark.parametrize("position", [0, 1, 0xFFFFFFFF, 1 << 32, (0xABCD << 32) | 17])
@pytest.mark.parametrize("stream", [0, 1])
@pytest.mark.parametrize("seed", [0, 0x0123456789ABCDEF, (1 << 64) - 1])
def test_blocks_are_addressed_by_position_stream_block_and_sample(position, stream, seed):
    blocks = np.array([0, 1, 77, (1 << 30) - 1], dtype=np.int64)
    words = noise_blocks(blocks, seed=seed, position=position, stream=stream, sample=5)
    for row, block in zip(words.tolist(), blocks.tolist(), strict=True):
        expected = [oracle.word(seed, position, stream, 4 * block + i, 5) for i in range(4)]
        assert row == expected


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 9000])
def test_long_runs_equal_short_ones(count):
    blocks = np.arange(count, dtype=np.int64)
    address = {"seed": 9, "position": 3, "stream": 0, "sample": 0}
    together = noise_blocks(blocks, **address)
    for at in {0, count // 2, count - 1}:
        alone = noise_blocks(blocks[at : at + 1], **address)
        np.testing.assert_array_equal(together[at : at + 1], alone)


@pytest.mark.parametrize(
    "ids",
    [[0], [3], [2, 3, 4, 5, 6, 7, 8], [5, 900, 129_279], list(range(1, 40, 2))],
    ids=["first", "within a block", "run", "scattered", "every other"],
)
def test_a_token_word_depends_on_its_id_only(ids):
    words = token_words(np.array(ids, dtype=np.int64), seed=11, position=6, sample=2)
    assert words.tolist() == [oracle.word(11, 6, 0, i, 2) for i in ids]
