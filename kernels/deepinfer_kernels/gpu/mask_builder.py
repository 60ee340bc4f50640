# ruff: noqa: ANN001, ANN201, ANN202, RUF100, SIM102
# mypy: allow-untyped-defs, allow-untyped-calls
"""Token masks of automaton states, made on the device: many states in one launch.

Every token walks its own bytes through the transitions, 32 neighbouring ids to a mask word. Most
tokens of most states die at their first byte, so a block of ids takes few rounds; a walk of the
vocabulary trie would touch fewer bytes where nearly everything is allowed, but has to keep a state
per node, go level by level, and scatter its bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .automaton_tables import AutomatonTables

_PROGRAMS = 16384
"""Programs of a launch: enough to fill a card several times over."""


@triton.jit
def build(
    states, slots, byte_class, state_automaton, state_edges, edges, state_fewest, token_start,
    token_bytes, eos, vocab_size, steps, rows, enough, incomplete, W: tl.constexpr,
):  # fmt: skip
    """Mask words of one state, `steps` blocks of W words per program."""
    part = tl.program_id(0)
    item = tl.program_id(1)
    words = (vocab_size + 31) // 32
    first_state = tl.load(states + item)
    row = tl.load(slots + item).to(tl.int64) * words
    classes = byte_class + tl.load(state_automaton + first_state).to(tl.int64) * 256
    complete = tl.load(state_fewest + first_state) == 0
    lane = tl.arange(0, 32)
    far = tl.zeros((W, 32), tl.int32)
    unknown = tl.zeros((W, 32), tl.int32)
    for step in range(steps):
        word = (part * steps + step) * W + tl.arange(0, W)
        token = word[:, None] * 32 + lane[None, :]
        inside = token < vocab_size
        at = tl.load(token_start + token, mask=inside, other=0)
        end = tl.load(token_start + token + 1, mask=inside, other=0)
        state = tl.where(at < end, first_state, 0)
        more = tl.max(tl.max(state, axis=1), axis=0)
        while more > 0:
            going = (state > 0) & (at < end)
            byte = tl.load(token_bytes + at, mask=going, other=0).to(tl.int32)
            offset = tl.load(state_edges + state, mask=going, other=-1)
            kind = tl.load(classes + byte, mask=going, other=0).to(tl.int32)
            following = tl.load(edges + offset + kind, mask=offset >= 0, other=-1)
            state = tl.where(going, following, state)
            at = tl.where(going, at + 1, at)
            more = tl.max(tl.max(tl.where(at < end, state, 0), axis=1), axis=0)
        allowed = state > 0
        far = tl.maximum(far, tl.load(state_fewest + state, mask=allowed, other=0))
        unknown |= tl.where(state < 0, 1, 0)
        bits = tl.sum(tl.where(allowed, 1, 0) << lane[None, :], axis=1)
        used = word < words
        if complete:
            bits |= tl.load(eos + word, mask=used, other=0)
        tl.store(rows + row + word, bits, mask=used)
    tl.atomic_max(enough + item, tl.max(tl.max(far, axis=1), axis=0) + 1)
    tl.atomic_max(incomplete + item, tl.max(tl.max(unknown, axis=1), axis=0))


def build_rows(tables: AutomatonTables, states: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Make the masks of states, and publish those that are whole.

    A state is published (`state_row`, `state_enough`) unless a token that may come leads through a
    transition that the tables lack; such a state stays as it was. The budget at which a mask holds
    is one more than the most bytes that complete a text after any of its tokens. Enqueued on the
    current stream; reads nothing back.

    Args:
        tables: Where the automata are, and where the masks go.
        states: int32 [n] on the tables' device, live states, each once.
        slots: int32 [n], rows of `tables.rows` to write; row i must not be in use by another state.

    Returns:
        int32 [n], 1 where a transition was missing.
    """
    enough = torch.zeros(len(states), dtype=torch.int32, device=states.device)
    incomplete = torch.zeros_like(enough)
    if len(states) == 0:
        return incomplete
    width = 4 if states.is_cuda else 128  # the interpreter likes few large tiles
    blocks = -(-tables.rows.shape[1] // width)
    steps = min(blocks, max(1, blocks * len(states) // _PROGRAMS))
    build[(-(-blocks // steps), len(states))](
        states, slots, tables.byte_class, tables.state_automaton, tables.state_edges,
        tables.edges, tables.state_fewest, tables.token_start, tables.token_bytes, tables.eos,
        tables.vocab_size, steps, tables.rows, enough, incomplete, W=width, num_warps=1,
        enable_fp_fusion=False,
    )  # fmt: skip
    at = states.long()
    whole = incomplete == 0
    tables.state_row[at] = torch.where(whole, slots, tables.state_row[at])
    tables.state_enough[at] = torch.where(whole, enough, tables.state_enough[at])
    return incomplete
