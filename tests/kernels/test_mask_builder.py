"""The mask builder against a walk of every token in plain Python."""

import itertools

import numpy as np
import pytest
import torch

from tests.kernels.gpu_sampler_support import DEVICE

from benchmarks.sampler_cases import make_tables, words  # isort: skip
from deepinfer_kernels.gpu.mask_builder import build_rows  # isort: skip

SIZES = (1, 31, 33, 1_000, 9_000)


def tables_of(size, *, gaps):
    """Tables of three automata with classes of their own; with or without unknown transitions."""
    tables = make_tables(size)
    count = len(tables.state_row)
    tables.state_automaton = torch.arange(count, dtype=torch.int32) % 3
    byte_class = (words(5, 3 * 256) % np.uint64(8)).astype(np.uint8).reshape(3, 256)
    tables.byte_class = torch.from_numpy(byte_class)
    # Enough dead ends that masks differ, enough ways on that long tokens live.
    edges = (words(6, count * 8) % np.uint64(count * 3 // 2)).astype(np.int64)
    edges[edges >= count] = 0
    if gaps:
        edges[words(7, count * 8) % np.uint64(40) == 0] = -1
    else:
        tables.state_edges = torch.arange(count, dtype=torch.int32) * 8
    tables.edges = torch.from_numpy(edges.astype(np.int32))
    tables.state_row = torch.full((count,), -1, dtype=torch.int32)
    tables.rows = torch.zeros_like(tables.rows)
    return tables


def walked(tables, state):
    """Allowed ids, the least budget, and whether a transition was missing."""
    allowed, far, missing = set(), 0, False
    classes = tables.byte_class[tables.state_automaton[state]].tolist()
    starts, data = tables.token_start.tolist(), tables.token_bytes.tolist()
    state_edges, edges = tables.state_edges.tolist(), tables.edges.tolist()
    for token, (start, end) in enumerate(itertools.pairwise(starts)):
        at = state if start < end else 0
        for byte in data[start:end]:
            at = edges[state_edges[at] + classes[byte]] if state_edges[at] >= 0 else -1
            if at <= 0:
                break
        missing |= at < 0
        if at > 0:
            allowed.add(token)
            far = max(far, int(tables.state_fewest[at]))
    if tables.state_fewest[state] == 0:
        bits = np.unpackbits(tables.eos.numpy().view(np.uint8), bitorder="little")
        allowed |= set(np.flatnonzero(bits).tolist())
    return allowed, far + 1, missing


def unpacked(row):
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gaps", [False, True])
def test_masks_equal_a_walk_of_every_token(size, gaps):
    tables = tables_of(size, gaps=gaps)
    states = list(range(1, len(tables.state_row)))[:: 1 if size < 5_000 else 5]
    slots = [(7 * i + 3) % len(tables.rows) for i in states]
    device = tables.to(DEVICE)
    incomplete = build_rows(
        device,
        torch.tensor(states, dtype=torch.int32, device=DEVICE),
        torch.tensor(slots, dtype=torch.int32, device=DEVICE),
    ).tolist()
    rows = device.rows.cpu().numpy()
    published = dict(enumerate(device.state_row.tolist()))
    for state, slot, flag in zip(states, slots, incomplete, strict=True):
        allowed, enough, missing = walked(tables, state)
        assert flag == missing
        if missing:
            assert published[state] == -1
        else:
            assert unpacked(rows[slot]) == allowed
            assert (published[state], int(device.state_enough[state])) == (slot, enough)
    assert gaps or not any(incomplete)
    assert not gaps or size < 1_000 or any(incomplete)


def test_other_rows_and_states_stay_as_they_are():
    tables = tables_of(1_000, gaps=False)
    tables.rows[:] = torch.arange(tables.rows.numel()).reshape(tables.rows.shape)
    device = tables.to(DEVICE)
    build_rows(device, *torch.tensor([[4], [9]], dtype=torch.int32, device=DEVICE))
    others = [i for i in range(len(tables.rows)) if i != 9]
    assert torch.equal(device.rows.cpu()[others], tables.rows[others])
    assert [i for i, row in enumerate(device.state_row.tolist()) if row >= 0] == [4]


def test_nothing_to_build_launches_nothing():
    tables = tables_of(33, gaps=False)
    empty = torch.zeros(0, dtype=torch.int32, device=DEVICE)
    assert build_rows(tables.to(DEVICE), empty, empty).tolist() == []
