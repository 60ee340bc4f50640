"""The torch executor on CPU tensors, kernels in Triton's interpreter, against the CPU executor."""

from tests.kernels.gpu_sampler_support import DEVICE  # isort: skip - chooses the interpreter

from dataclasses import replace

import pytest
import torch
from deepinfer_engine import EngineConfig, EngineError, GenerationRequest
from deepinfer_engine.torch_engine import open_torch_engine
from deepinfer_engine.torch_llama import TorchLlama
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


def test_a_device_without_room_is_a_lack_of_memory(torch_engine, tiny, monkeypatch):
    def full(self, rows, drawn=None):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(TorchLlama, "forward", full)
    assert [end[3] for end in ends(torch_engine, requests(tiny)[:1])[0]] != ["None"]
    handle = torch_engine.submit(requests(tiny)[0])
    assert collect(handle, 1)[1][0].error.kind == "memory"


def test_a_constraint_that_fails_at_the_end_stays_with_its_request(torch_engine, tiny):
    class Broken(Digits):
        def accepting(self, state):
            raise ZeroDivisionError("broken")

    one, broken = requests(tiny)[0], requests(tiny)[2]
    # Nothing may be drawn, so the constraint is asked whether its text is complete.
    banned = tuple(range(tiny.tokenizer.vocab_size))
    broken = replace(
        broken, sampling=SamplerParams(banned=banned), constraint=Broken(tiny, 2, 4), n=1
    )
    (good,), (bad,) = ends(torch_engine, [one, broken])
    assert good[3] == "None"
    assert "broken" in bad[3]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_device_is_refused(tiny):
    with pytest.raises(EngineError, match="no device 'cuda'"):
        open_torch_engine(tiny, EngineConfig(), num_blocks=4)


@pytest.mark.skipif(DEVICE != "cpu", reason="bfloat16 weights differ from the float32 of the CPU")
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_preempted_sequences_give_up_their_rows(tiny, start, slots):
    config = EngineConfig(max_slots=slots, block_tokens=4, watermark=0, preempt_boost=9)
    prompt = tuple(tiny.tokenizer.encode("the name and age"))[:5]
    waiting = [
        GenerationRequest(
            prompt_ids=prompt,
            sampling=SamplerParams(seed=i, repetition_penalty=1.1 if i == 2 else 1.0),
            max_tokens=9,
            priority=i % 2,
            constraint=Digits(tiny, 2, 9) if i == 1 else None,
        )
        for i in range(5)
    ]
    engine = open_torch_engine(tiny, config, num_blocks=5, device=DEVICE)
    got = ends(engine, waiting)
    assert slots == 1 or engine.stats().preemptions
    engine.close()
    assert got == ends(start(), waiting)
