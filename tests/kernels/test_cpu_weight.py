import gguf
import numpy as np
import pytest
from deepinfer_kernels.cpu import Weight, concat_rows, embedding

GGUF_KINDS = ["Q4_0", "Q4_1", "Q8_0"]
BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}


def gguf_blocks(kind, rows, columns, seed=0):
    """Random blocks with finite float16 scales of many sizes."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, columns // 32, BYTES[kind]), dtype=np.uint8)
    halves = 2 if kind == "Q4_1" else 1
    values = rng.standard_normal((rows, columns // 32, halves)) * 2.0 ** rng.integers(-14, 2)
    blocks[:, :, : 2 * halves] = values.astype(np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def any_weight(kind, rows, columns, seed=0):
    """An untiled weight of the kind."""
    if kind in BYTES:
        return Weight.from_gguf_blocks(kind, gguf_blocks(kind, rows, columns, seed))
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, columns)).astype(np.float32)
    if kind == "float32":
        return Weight.from_float32(matrix)
    return Weight.from_bfloat16_bits((matrix.view(np.uint32) >> 16).astype(np.uint16))


KINDS = [*GGUF_KINDS, "float32", "bfloat16"]


@pytest.mark.parametrize("kind", GGUF_KINDS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (70, 96), (64, 576)])
def test_blocks_mean_what_the_format_library_says(kind, rows, columns):
    blocks = gguf_blocks(kind, rows, columns, seed=rows)
    exact = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(Weight.from_gguf_blocks(kind, blocks).dense(), exact)


def test_bfloat16_bits_are_the_upper_half_of_float32():
    bits = np.array([[0x3F80, 0xC040, 0x0000, 0x8000]], dtype=np.uint16)
    dense = Weight.from_bfloat16_bits(bits).dense()
    assert dense.tolist() == [[1.0, -3.0, 0.0, -0.0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_embedding_of_a_tiled_weight_gives_the_dense_rows(kind, rows):
    weight = any_weight(kind, rows, 64)
    ids = np.random.default_rng(1).integers(0, rows, 50)
    np.testing.assert_array_equal(embedding(ids, weight.tile()), weight.dense()[ids])


@pytest.mark.parametrize("kind", KINDS)
def test_joined_and_selected_rows_are_the_dense_rows(kind):
    parts = [any_weight(kind, rows, 96, seed=rows) for rows in (3, 64, 10)]
    joined = concat_rows(parts)
    stacked = np.concatenate([part.dense() for part in parts])
    np.testing.assert_array_equal(joined.dense(), stacked)
    index = np.array([76, 0, 5, 5])
    np.testing.assert_array_equal(joined.select_rows(index).dense(), stacked[index])


def test_quantised_weights_stay_small():
    weight = any_weight("Q4_1", 128, 256).tile()
    assert weight.nbytes == 128 * 256 // 2 + 2 * 4 * 128 * 256 // 32


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="not whole blocks of 20"):
        Weight.from_gguf_blocks("Q4_1", np.zeros((2, 30), np.uint8))
    with pytest.raises(ValueError, match="one kind and width"):
        concat_rows([any_weight("Q4_1", 2, 32), any_weight("Q8_0", 2, 32)])
    with pytest.raises(ValueError, match="one kind and width"):
        concat_rows([any_weight("Q8_0", 2, 64), any_weight("Q8_0", 2, 32)])
    with pytest.raises(ValueError, match="tiled already"):
        any_weight("Q4_0", 2, 32).tile().dense()
