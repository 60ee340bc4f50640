"""What keeps the sampler's bits equal everywhere: launch options, constants, recorded results."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.kernels.gpu_sampler_support import DEVICE

import deepinfer_kernels.gpu.sampler as sampler_module  # isort: skip
import triton  # isort: skip
import triton.language as tl  # isort: skip
from benchmarks.sampler_cases import expected, make_case, make_tables  # isort: skip
from deepinfer_kernels.fixed_point import EXP2_COEFFICIENTS, exp2_fixed, gumbel_q22  # isort: skip
from deepinfer_kernels.gpu.sampler_numeric import gumbel_q22 as device_gumbel  # isort: skip
from deepinfer_kernels.gpu.sampler_numeric import weight as device_weight  # isort: skip
from deepinfer_kernels.gpu.sampler_numeric import philox as device_philox  # isort: skip
from deepinfer_kernels.gpu.sampler_rows import SamplerWorkspace  # isort: skip
from deepinfer_kernels.philox import philox4x32  # isort: skip

GPU_FOLDER = Path(sampler_module.__file__).parent
RECORDED = Path(__file__).parent / "data" / "sampler_h200.json"


def launches(source):
    """Calls of the form kernel[grid](...) in a module."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
    ]


def without_fusion(call):
    values = [k.value for k in call.keywords if k.arg == "enable_fp_fusion"]
    return len(values) == 1 and isinstance(values[0], ast.Constant) and values[0].value is False


def test_every_launch_turns_fusion_off():
    calls = [c for p in sorted(GPU_FOLDER.glob("*.py")) for c in launches(p.read_text())]
    assert len(calls) == 9  # the kernels of `sample`, `build` and `commit_row`
    assert all(without_fusion(call) for call in calls)


def test_a_launch_that_drops_the_option_would_be_found():
    dropped = (GPU_FOLDER / "sampler.py").read_text().replace("enable_fp_fusion=False", "extra=0")
    assert not any(without_fusion(call) for call in launches(dropped))


@triton.jit
def _weights(t, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, device_weight(tl.load(t + at, mask=inside, other=0.0)), mask=inside)


@triton.jit
def _noise(counter, words, noise, table, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    c0 = tl.load(counter + at).to(tl.uint32)
    w0, w1, w2, w3 = device_philox(c0, c0 + 1, c0 + 2, c0 + 3, tl.min(c0), tl.max(c0))
    tl.store(words + at, w0.to(tl.int32))
    tl.store(words + n + at, w1.to(tl.int32))
    tl.store(words + 2 * n + at, w2.to(tl.int32))
    tl.store(words + 3 * n + at, w3.to(tl.int32))
    tl.store(noise + at, device_gumbel(w0, table))


def test_weights_equal_the_fixed_point_reference():
    t = -np.abs(np.random.default_rng(0).standard_normal(4096) * 12).astype(np.float32)
    t[:6] = [0.0, -1e-9, -31.0, -30.999998, -np.inf, -1e30]
    out = torch.zeros(4096, dtype=torch.int32, device=DEVICE)
    with np.errstate(all="ignore"):
        _weights[(4,)](torch.from_numpy(t).to(DEVICE), out, 4096, 1024, enable_fp_fusion=False)
    assert out.tolist() == exp2_fixed(t).tolist()


def test_the_polynomial_stays_below_two():
    # The device takes the weight from the mantissa, which needs values in [1, 2).
    fraction = np.arange(0x3F7F0000, 0x3F800001, dtype=np.int32).view(np.float32)
    value = np.full_like(fraction, EXP2_COEFFICIENTS[-1])
    for coefficient in EXP2_COEFFICIENTS[-2::-1]:
        value = value * fraction + np.float32(coefficient)
    assert value.max() < 2


def test_noise_words_and_gumbel_noise_equal_the_reference():
    counter = np.arange(256, dtype=np.int64) * 0x01020305 % (1 << 31)
    words = torch.zeros(4 * 256, dtype=torch.int32, device=DEVICE)
    noise = torch.zeros(256, dtype=torch.int64, device=DEVICE)
    table = SamplerWorkspace(1, 1, DEVICE).log2_table
    given = torch.from_numpy(counter.astype(np.int32)).to(DEVICE)
    with np.errstate(all="ignore"):
        _noise[(1,)](given, words, noise, table, 256, 256, enable_fp_fusion=False)
    counters = np.stack([counter + i for i in range(4)]).astype(np.uint64)
    wanted = philox4x32(counters, (int(counter.min()), int(counter.max())))
    assert words.cpu().numpy().view(np.uint32).reshape(4, 256).T.tolist() == wanted.tolist()
    assert noise.tolist() == gumbel_q22(wanted[:, 0]).tolist()


@pytest.mark.skipif(DEVICE == "cpu", reason="fusion exists on a GPU only; run there with pytest")
def test_fusion_would_change_weights():
    t = -torch.rand(1 << 20, device=DEVICE) * 20
    right, fused = (torch.zeros(1 << 20, dtype=torch.int32, device=DEVICE) for _ in range(2))
    _weights[(1024,)](t, right, 1 << 20, 1024, enable_fp_fusion=False)
    _weights[(1024,)](t, fused, 1 << 20, 1024, enable_fp_fusion=True)
    assert right.cpu().tolist() == exp2_fixed(t.cpu().numpy()).tolist()
    assert (right != fused).sum().item() > 1_000


def test_results_recorded_on_a_gpu_equal_the_reference():
    rows = json.loads(RECORDED.read_text())["rows"]
    # Rows that miss on a token's way are not in the record: they give the token since.
    assert len(rows) > 290
    tables = {size: make_tables(size) for size in {row[0] for row in rows}}
    with np.errstate(all="ignore"):
        for size, index, *result in rows:
            assert tuple(result) == expected(make_case(size, index), tables[size]), (size, index)
