"""Helpers of the engine tests: events of a request, a hand-made constraint, mixed requests."""

import dataclasses

import numpy as np
from deepinfer_engine import FinishEvent, GenerationRequest
from deepinfer_kernels.sampling import SamplerParams


def collect(handle, samples=1):
    """All events of a request: (token events, finish events by sample)."""
    tokens, ends = [], {}
    while len(ends) < samples:
        event = handle.next_event(timeout=60)
        assert event is not None, "no event within a minute"
        if isinstance(event, FinishEvent):
            ends[event.sample] = event
        else:
            tokens.append(event)
    return tokens, [ends[sample] for sample in sorted(ends)]


def essence(event):
    """What must not depend on load: everything but timings."""
    return dataclasses.replace(event, timings=None)


class Immediate:
    """The part of an executor whose steps are over when they are launched."""

    depth = 0

    def start(self):
        pass

    def collect(self, step):
        return step

    def release(self, sequence):
        pass


class Digits:
    """A constraint over single-byte tokens: between `low` and `high` digits, then the end."""

    def __init__(self, model, low=2, high=6):
        table = model.tokenizer.token_bytes
        self.vocab_size = len(table)
        self.low, self.high = low, high
        self.start = 0
        self._digits = [i for i, data in enumerate(table) if data and data.isdigit()]
        self._eos = model.tokenizer.eos_ids

    def mask(self, state, budget):
        ids = []
        if state < self.high and max(self.low - state - 1, 0) <= budget - 1:
            ids += self._digits
        if self.accepting(state):
            ids += self._eos
        bits = np.zeros((self.vocab_size + 31) // 32 * 32, np.uint8)
        bits[ids] = 1
        return np.packbits(bits, bitorder="little").view(np.uint32)

    def advance(self, state, token):
        if token not in self._digits:
            raise ValueError(f"token {token} is not a digit")
        return state + 1

    def accepting(self, state):
        return state >= self.low

    def complete(self, state):
        return state == self.high

    def fewest_tokens(self, state):
        return max(self.low - state, 0)

    def narrowed(self, state, budget):
        return False


def mixed_requests(model, count):
    """Requests of every kind, the same for the same `count` prefix."""
    requests = []
    for index in range(count):
        prompt = model.tokenizer.encode(f"the name and age {index} " * (1 + index % 5))
        sampling = SamplerParams(
            temperature=[0.0, 0.8, 1.3][index % 3],
            top_p=[1.0, 0.9][index % 2],
            top_k=[0, 20][index % 2],
            repetition_penalty=1.2 if index % 4 == 1 else 1.0,
            presence_penalty=0.5 if index % 4 == 2 else 0.0,
            logprobs=2 if index % 3 == 1 else None,
            seed=1000 + index,
        )
        requests.append(
            GenerationRequest(
                prompt_ids=tuple(prompt),
                sampling=sampling,
                max_tokens=12 + index % 9,
                min_tokens=3 if index % 5 == 3 else 0,
                stop=("e",) if index % 6 == 2 else (),
                n=3 if index % 7 == 4 else 1,
                constraint=Digits(model) if index % 5 == 0 else None,
            )
        )
    return requests
