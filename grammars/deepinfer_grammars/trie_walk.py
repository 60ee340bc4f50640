"""Walks of a vocabulary trie in preorder, compiled: which tokens fit after a state.

Knows tries, transition tables and packed bits; nothing about expressions. A transition table is
int32 [states, classes] with 0 for dead and a row of -1 for a state that is not expanded yet; a
walk sets such places aside, and goes on there in the next round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .native import compiled

Int32 = NDArray[np.int32]
Words = NDArray[np.uint32]


class Preorder(NamedTuple):
    """A trie with the nodes in preorder: a subtree is a range.

    Attributes:
        byte: uint8 [nodes]; the byte on the edge into the node; node 0 is the root.
        depth: int32 [nodes].
        end: int32 [nodes]; one past the last node of the subtree.
        parent_end: int32 [nodes]; the same of the parent's subtree.
        token: int32 [nodes]; the token that ends here, or -1.
    """

    byte: NDArray[np.uint8]
    depth: Int32
    end: Int32
    parent_end: Int32
    token: Int32


@compiled(__file__)
def preorder(
    byte: NDArray[np.uint8], child_start: Int32, child_count: Int32, token: Int32
) -> tuple[NDArray[np.uint8], Int32, Int32, Int32, Int32]:
    """The fields of a `Preorder` from a breadth-first trie; children come after their parents."""
    nodes = len(byte)
    size = np.ones(nodes, np.int32)
    for node in range(nodes - 1, -1, -1):
        for child in range(child_start[node], child_start[node] + child_count[node]):
            size[node] += size[child]
    at = np.zeros(nodes, np.int32)
    bytes_ = np.zeros(nodes, np.uint8)
    depth = np.zeros(nodes, np.int32)
    end = np.zeros(nodes, np.int32)
    parent_end = np.zeros(nodes, np.int32)
    tokens = np.zeros(nodes, np.int32)
    parent_end[0] = nodes
    for node in range(nodes):
        place = at[node]
        bytes_[place] = byte[node]
        end[place] = place + size[node]
        tokens[place] = token[node]
        following = place + 1
        for child in range(child_start[node], child_start[node] + child_count[node]):
            at[child] = following
            depth[following] = depth[place] + 1
            parent_end[following] = end[place]
            following += size[child]
    return bytes_, depth, end, parent_end, tokens


@compiled(__file__)
def walk(
    trie: tuple[NDArray[np.uint8], Int32, Int32, Int32, Int32],
    table: Int32,
    class_of: NDArray[np.uint8],
    work: Int32,
    pending: Int32,
    stack: Int32,
    tokens: Int32,
    ends: Int32,
    found: int,
    accepting: NDArray[np.uint8],
    exits: Int32,
    left: int,
) -> tuple[int, int, int]:
    """Collect the tokens that fit, and the places where a match is complete.

    Args:
        trie: The fields of a `Preorder`.
        table: int32 [states, classes].
        class_of: uint8 [256].
        work: int32 [n, 3]; (first node, one past the last, state before the first).
        pending: int32 [m, 3]; output in the same form: places where the state is not expanded.
        stack: int32 [longest token + 1]; scratch.
        tokens: int32 [tokens]; output.
        ends: int32 [tokens]; output, the state behind each token.
        found: Tokens already in `tokens`.
        accepting: uint8 [states]; 1 where a match is complete.
        exits: int32 [k]; output: nodes in such states; of length 0 if they are not asked for.
        left: Nodes already in `exits`.

    Returns:
        The numbers of tokens, of exits (-1 if they did not fit), and of pending places (-1 if they
        did not fit).
    """
    byte, depth, end, parent_end, token = trie
    waiting = 0
    asked = len(exits) > 0
    for item in range(len(work)):
        node = work[item, 0]
        stop = work[item, 1]
        if node >= stop:
            continue
        stack[depth[node] - 1] = work[item, 2]
        while node < stop:
            level = depth[node]
            state = table[stack[level - 1], class_of[byte[node]]]
            if state > 0:
                stack[level] = state
                if token[node] >= 0:
                    tokens[found] = token[node]
                    ends[found] = state
                    found += 1
                if asked and accepting[state]:
                    if left == len(exits):
                        return found, -1, 0
                    exits[left] = node
                    left += 1
                node += 1
            elif state == 0:
                node = end[node]
            else:
                if waiting == len(pending):
                    return found, left, -1
                after = min(parent_end[node], stop)
                pending[waiting, 0] = node
                pending[waiting, 1] = after
                pending[waiting, 2] = stack[level - 1]
                waiting += 1
                node = after
    return found, left, waiting


@compiled(__file__)
def walk_beside(
    trie: tuple[NDArray[np.uint8], Int32, Int32, Int32, Int32],
    table: Int32,
    class_of: NDArray[np.uint8],
    work: Int32,
    pending: Int32,
    stacks: Int32,
    fewest: Int32,
    plus: Int32,
    minus: Int32,
    found: int,
    lost: int,
    far: int,
) -> tuple[int, int, int, int]:
    """Where the tokens of one state differ from those of another; equal parts are not entered.

    Args:
        trie: The fields of a `Preorder`.
        table: int32 [states, classes].
        class_of: uint8 [256].
        work: int32 [n, 4]; (first node, one past the last, the state before the first, the other).
        pending: int32 [m, 4]; output in the same form: places where a state is not expanded.
        stacks: int32 [2, longest token + 1]; scratch.
        fewest: int32 [states]; distances of states in bytes.
        plus: int32 [tokens]; output: tokens that fit after the first state only.
        minus: int32 [tokens]; output: tokens that fit after the other state only.
        found: Tokens already in `plus`.
        lost: Tokens already in `minus`.
        far: The largest distance so far behind a token of the first state.

    Returns:
        The numbers of tokens in `plus` and `minus`, the largest distance, and the number of pending
        places; -1 if those did not fit.
    """
    byte, depth, end, parent_end, token = trie
    waiting = 0
    for item in range(len(work)):
        node = work[item, 0]
        stop = work[item, 1]
        if node >= stop:
            continue
        stacks[0, depth[node] - 1] = work[item, 2]
        stacks[1, depth[node] - 1] = work[item, 3]
        while node < stop:
            level = depth[node]
            class_ = class_of[byte[node]]
            state = table[stacks[0, level - 1], class_]
            other = table[stacks[1, level - 1], class_]
            if state < 0 or other < 0:
                if waiting == len(pending):
                    return found, lost, far, -1
                after = min(parent_end[node], stop)
                pending[waiting, 0] = node
                pending[waiting, 1] = after
                pending[waiting, 2] = stacks[0, level - 1]
                pending[waiting, 3] = stacks[1, level - 1]
                waiting += 1
                node = after
            elif state == other:
                node = end[node]
            else:
                stacks[0, level] = state
                stacks[1, level] = other
                if token[node] >= 0:
                    if state > 0:
                        far = max(far, int(fewest[state]))
                    if other == 0:
                        plus[found] = token[node]
                        found += 1
                    elif state == 0:
                        minus[lost] = token[node]
                        lost += 1
                node += 1
    return found, lost, far, waiting


@compiled(__file__)
def correct_bits(words: Words, plus: Int32, minus: Int32, twins: Int32) -> None:
    """Set the bits of `plus`, clear those of `minus`, and let twins follow."""
    for index in range(len(plus)):
        one = plus[index]
        words[one >> 5] |= np.uint32(1) << np.uint32(one & 31)
    for index in range(len(minus)):
        one = minus[index]
        words[one >> 5] &= ~(np.uint32(1) << np.uint32(one & 31))
    for pair in range(len(twins)):
        one = twins[pair, 0]
        other = twins[pair, 1]
        bit = np.uint32(1) << np.uint32(other & 31)
        if words[one >> 5] >> np.uint32(one & 31) & np.uint32(1):
            words[other >> 5] |= bit
        else:
            words[other >> 5] &= ~bit


@compiled(__file__)
def follow(
    trie: tuple[NDArray[np.uint8], Int32, Int32, Int32, Int32],
    node: int,
    text: NDArray[np.uint8],
    tokens: Int32,
) -> tuple[int, int]:
    """Go down a trie along a text.

    Args:
        trie: The fields of a `Preorder`.
        node: Where to start.
        text: uint8 [n].
        tokens: int32 [n]; output: the tokens that end on the way.

    Returns:
        The number of tokens, and the node behind the text; -1 if no token goes on as far.
    """
    byte, _, end, _, token = trie
    found = 0
    for index in range(len(text)):
        child, stop = node + 1, end[node]
        while child < stop and byte[child] != text[index]:
            child = end[child]
        if child >= stop:
            return found, -1
        node = child
        if token[node] >= 0:
            tokens[found] = token[node]
            found += 1
    return found, node


@compiled(__file__)
def set_bits(words: Words, ids: Int32, twins: Int32) -> None:
    """Set the bits of `ids`, and of their twins (int32 [pairs, 2], of ids with equal bytes)."""
    for index in range(len(ids)):
        one = ids[index]
        words[one >> 5] |= np.uint32(1) << np.uint32(one & 31)
    for pair in range(len(twins)):
        one = twins[pair, 0]
        if words[one >> 5] >> np.uint32(one & 31) & np.uint32(1):
            other = twins[pair, 1]
            words[other >> 5] |= np.uint32(1) << np.uint32(other & 31)


@compiled(__file__)
def farthest(ends: Int32, fewest: Int32) -> int:
    """The largest distance of some states; 0 if there are none."""
    most = 0
    for index in range(len(ends)):
        most = max(most, int(fewest[ends[index]]))
    return most


@compiled(__file__)
def walk_items(
    trie: tuple[NDArray[np.uint8], Int32, Int32, Int32, Int32],
    table: Int32,
    class_of: NDArray[np.uint8],
    again: int,
    inside: Int32,
    outside: Int32,
) -> tuple[int, int]:
    """Tokens made of items, by how many, and the nodes just past complete items.

    Args:
        trie: The fields of a `Preorder`.
        table: int32 [states, classes].
        class_of: uint8 [256].
        again: The state before an item of an unbounded repeat; all states from there on must be
            expanded.
        inside: int32 [nodes, 2]; output: (token, items that it needs room for).
        outside: int32 [nodes, 2]; output: (node, complete items before it).

    Returns:
        The number of rows of `inside` and of `outside`.
    """
    byte, depth, end, _, token = trie
    deepest = 0
    for node in range(len(depth)):
        deepest = max(deepest, depth[node])
    states = np.zeros(deepest + 1, np.int32)
    counts = np.zeros(deepest + 1, np.int32)
    states[0] = again
    inner = outer = 0
    node = 1
    while node < len(byte):
        level = depth[node]
        before = states[level - 1]
        state = table[before, class_of[byte[node]]]
        if state == 0:
            if before == again:
                outside[outer, 0] = node
                outside[outer, 1] = counts[level - 1]
                outer += 1
            node = end[node]
            continue
        states[level] = state
        complete = state == again
        counts[level] = counts[level - 1] + (1 if complete else 0)
        if token[node] >= 0:
            inside[inner, 0] = token[node]
            inside[inner, 1] = counts[level] + (0 if complete else 1)
            inner += 1
        node += 1
    return inner, outer


def prepare(trie: Preorder, twins: Int32) -> None:
    """Compile everything, or load it, so that the first mask does not wait for it."""
    table, class_of = np.zeros((1, 1), np.int32), np.zeros(256, np.uint8)
    ids, words, stacks = np.zeros(0, np.int32), np.zeros(1, np.uint32), np.zeros((2, 2), np.int32)
    pair, nothing = np.zeros((1, 2), np.int32), np.zeros(0, np.uint8)
    walk(
        trie, table, class_of, np.zeros((1, 3), np.int32), np.zeros((1, 3), np.int32), stacks[0],
        ids, ids, 0, nothing, ids, 0,
    )  # fmt: skip
    walk_beside(
        trie, table, class_of, np.zeros((1, 4), np.int32), np.zeros((1, 4), np.int32), stacks,
        ids, ids, ids, 0, 0, 0,
    )  # fmt: skip
    follow(trie, 0, nothing, ids)
    follow(trie, 0, np.frombuffer(b"", np.uint8), ids)  # what cannot be written has its own type
    set_bits(words, ids, twins[:0])
    correct_bits(words, ids, ids, twins[:0])
    farthest(ids, ids)
    root = Preorder(
        trie.byte[:1], trie.depth[:1], trie.end[:1], trie.parent_end[:1], trie.token[:1]
    )
    walk_items(root, table, class_of, 0, pair, pair)
