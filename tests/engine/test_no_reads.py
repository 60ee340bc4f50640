"""Between two launches of the torch executor nothing waits for the device or reads from it."""

from tests.kernels.gpu_sampler_support import DEVICE  # isort: skip - chooses the interpreter

from dataclasses import replace

import pytest
import torch
from deepinfer_engine import EngineConfig, GenerationRequest
from deepinfer_engine.torch_engine import open_torch_engine
from deepinfer_grammars import TokenAutomaton, Vocabulary, compile_regex
from deepinfer_kernels.sampling import SamplerParams
from engine_helpers import Digits, collect

pytestmark = pytest.mark.skipif(
    DEVICE != "cuda", reason="torch traps reads and waits on a CUDA device only, and sees none"
)


def requests(model):
    vocabulary = Vocabulary(model.tokenizer.token_bytes, model.tokenizer.eos_ids)
    prompt = tuple(model.tokenizer.encode("the name and age"))
    plain = GenerationRequest(
        prompt_ids=prompt, sampling=SamplerParams(seed=1, top_p=0.9), max_tokens=24
    )
    regex = TokenAutomaton(compile_regex("([a-z]{1,9} )*[0-9]+"), vocabulary)
    penalised = SamplerParams(seed=3, repetition_penalty=1.2, logit_bias=((5, 1.0),))
    return [
        plain,
        replace(plain, constraint=regex, n=3),
        replace(plain, sampling=penalised, min_tokens=9, prompt_ids=prompt[:2]),
        replace(plain, constraint=Digits(model, 4, 9)),  # says nothing about bytes
        replace(plain, sampling=SamplerParams(seed=4, top_k=5, logprobs=3)),
    ]


def test_launches_neither_read_nor_wait(tiny, monkeypatch):
    engine = open_torch_engine(
        tiny, EngineConfig(max_slots=16, block_tokens=16), num_blocks=64, device=DEVICE
    )
    executor, trapped = engine._loop._executor, []
    launch = executor.launch

    def watched(entries):
        torch.cuda.set_sync_debug_mode("error")
        try:
            trapped.append(len(entries))
            return launch(entries)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def run():
        handles = [engine.submit(request) for request in requests(tiny)]
        parts = zip(handles, requests(tiny), strict=True)
        return [collect(handle, request.n)[1] for handle, request in parts]

    try:
        run()  # compiles and fills the caches of memory
        monkeypatch.setattr(executor, "launch", watched)
        ends = [end for request in run() for end in request]
    finally:
        engine.close()
    assert [str(end.error) for end in ends] == ["None"] * len(ends)
    assert all(end.ids for end in ends)
    assert len(trapped) >= 24


def test_the_trap_works():
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError):
            torch.ones(1, device=DEVICE).item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
