"""The torch executor on CPU tensors, kernels in Triton's interpreter, against the CPU executor."""

from tests.kernels.gpu_sampler_support import DEVICE  # isort: skip - chooses the interpreter

import pytest
import torch
from deepinfer_engine import EngineConfig, EngineError, GenerationRequest
from deepinfer_engine.torch_executor import open_torch_engine
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import Digits, collect

# The interpreter's NumPy warns of what the sampler's contract defines.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def torch_engine(tiny):
    engine = open_torch_engine(
        tiny, EngineConfig(max_slots=8, block_tokens=16), num_blocks=32, device=DEVICE
    )
    yield engine
    engine.close()


def ends(engine, requests):
    handles = [engine.submit(request) for request in requests]
    return [
        [(e.ids, e.text, e.reason, str(e.error)) for e in collect(handle, request.n)[1]]
        for handle, request in zip(handles, requests, strict=True)
    ]


def requests(model):
    prompt = tuple(model.tokenizer.encode("the name and age"))
    greedy = SamplerParams(temperature=0)
    return [
        GenerationRequest(prompt_ids=prompt, sampling=greedy, max_tokens=5),
        GenerationRequest(
            prompt_ids=prompt[:3],
            sampling=SamplerParams(temperature=0, repetition_penalty=1.3),
            max_tokens=5,
            min_tokens=3,
        ),
        GenerationRequest(
            prompt_ids=prompt,
            sampling=SamplerParams(seed=4, top_k=20),
            max_tokens=4,
            n=2,
            constraint=Digits(model, 2, 4),
        ),
    ]


@pytest.mark.skipif(DEVICE != "cpu", reason="bfloat16 weights differ from the float32 of the CPU")
def test_tokens_and_text_equal_the_cpu_executor(tiny, start, torch_engine):
    got = ends(torch_engine, requests(tiny))
    assert got == ends(start(), requests(tiny))
    assert all(text.isdigit() and 2 <= len(text) <= 4 for _, text, *_ in got[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_device_is_refused(tiny):
    with pytest.raises(EngineError, match="no device 'cuda'"):
        open_torch_engine(tiny, EngineConfig(), num_blocks=4)
