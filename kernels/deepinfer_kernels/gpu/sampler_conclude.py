# ruff: noqa: ANN001, ANN201, ANN202, RUF100
# mypy: allow-untyped-defs, allow-untyped-calls
"""Device functions: the automaton's step through a token's bytes, and the results of a row."""

from __future__ import annotations

import triton
import triton.language as tl

from deepinfer_kernels.sampler_types import Status

from .sampler_tile import AUTOMATA, STATE

OK = tl.constexpr(int(Status.OK))
MISS = tl.constexpr(int(Status.MISS))


@triton.jit
def _class_at(at, end, classes, token_bytes):
    """Class of the byte at a place, 0 beyond the token."""
    byte = tl.load(token_bytes + at, mask=at < end, other=0).to(tl.int32)
    return tl.load(classes + byte).to(tl.int32)


@triton.jit
def advance(
    state, token, byte_class, state_automaton, state_edges, edges, token_start, token_bytes
):
    """State after the bytes of a token, or -1 where a transition is not on the device."""
    at = tl.load(token_start + token)
    end = tl.load(token_start + token + 1)
    # Transitions stay in one automaton, so classes are read ahead of the chain of states.
    classes = byte_class + tl.load(state_automaton + state).to(tl.int64) * 256
    kind = _class_at(at, end, classes, token_bytes)
    while at < end:
        following = _class_at(at + 1, end, classes, token_bytes)
        offset = tl.load(state_edges + state)
        known = offset >= 0
        state = tl.load(edges + tl.where(known, offset + kind, 0))
        state = tl.where(known, state, -1)
        kind = following
        # Dead and unknown states end the walk.
        at = tl.where(state > 0, at + 1, end)
    return state


@triton.jit
def conclude(
    index, row, status, token, byte_class, state_automaton, state_edges, edges, token_start,
    token_bytes, out_token, out_state, out_status, FEATURES: tl.constexpr,
):  # fmt: skip
    """Advance the automaton of a row whose token is settled, and write the results."""
    state = tl.full((), -1, tl.int32)
    token = tl.where(status == OK, token, -1)
    if AUTOMATA & FEATURES:
        state = tl.load(row + STATE)
        if (status == OK) & (state > 0):
            following = advance(
                state, token, byte_class, state_automaton, state_edges, edges,
                token_start, token_bytes,
            )  # fmt: skip
            status = tl.where(following < 0, MISS, status)
            state = tl.where(following < 0, state, following)
    tl.store(out_token + index, token)
    tl.store(out_state + index, state)
    tl.store(out_status + index, status)
