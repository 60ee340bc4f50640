"""A tokenizer's vocabulary as a byte trie, laid out breadth-first in flat arrays.

Knows token bytes and end-of-text ids, nothing about grammars or tokenizer libraries.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .trie_walk import Preorder, preorder, prepare

_LONGEST_TOKEN = 4096
_PENDING = 4096  # places that one round of a walk may set aside


class Scratch:
    """Memory that a walk of a vocabulary writes into.

    Args:
        tokens: Number of trie nodes that end a token.

    Attributes:
        tokens: int32 [tokens].
        ends: int32 [tokens].
        minus: int32 [tokens].
        pending: int32 [4096, 3].
        exits: int32 [4096]; nodes where a match is complete.
        pairs: int32 [4096, 4]; pending places of a walk of two states.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens: NDArray[np.int32] = np.empty(tokens, np.int32)
        self.ends: NDArray[np.int32] = np.empty(tokens, np.int32)
        self.minus: NDArray[np.int32] = np.empty(tokens, np.int32)
        self.pending: NDArray[np.int32] = np.empty((_PENDING, 3), np.int32)
        self.exits: NDArray[np.int32] = np.empty(_PENDING, np.int32)
        self.pairs: NDArray[np.int32] = np.empty((_PENDING, 4), np.int32)


class Vocabulary:
    """Token bytes of one tokenizer.

    Trie nodes are numbered breadth-first; node 0 is the root and the children of a node are
    contiguous and sorted by byte.

    Args:
        tokens: Token id to bytes. None (or empty bytes) marks an id that text never uses: special,
            added or unused tokens.
        eos_ids: Ids that end the text, and are never part of it.

    Attributes:
        size: Number of token ids.
        words: Length of a packed mask in 32-bit words.
        longest: Bytes of the longest text token.
        lengths: int32 [size]; bytes of each text token, else 0.
        alphabet: 256-bit mask of the bytes that are a token by themselves. A constraint is written
            with these bytes only, so that whatever was begun can always be finished.
        node_byte: uint8 [nodes]; the byte on the edge into the node.
        child_start: int32 [nodes]; first child.
        child_count: int32 [nodes].
        token_at: int32 [nodes]; a token that ends here, or -1.
        twins: int32 [pairs, 2]; (token in `token_at`, another id with the same bytes).
        tokens_by_byte: int64 [256]; number of text tokens that begin with each byte.
        preorder: The same trie with its nodes in preorder, for walks.
        tokens_before: int64 [nodes + 1]; tokens at the nodes before each, in preorder.
        digest: Hash of all of the above, to key caches.

    Raises:
        ValueError: An end-of-text id is out of range, or no token has bytes.
    """

    def __init__(self, tokens: Sequence[bytes | None], eos_ids: Sequence[int]) -> None:
        self.eos_ids = tuple(dict.fromkeys(int(i) for i in eos_ids))
        self.tokens: tuple[bytes | None, ...] = tuple(
            None if i in self.eos_ids else token or None for i, token in enumerate(tokens)
        )
        self.size = len(self.tokens)
        self.words = (self.size + 31) // 32
        if any(not 0 <= i < self.size for i in self.eos_ids):
            raise ValueError(f"eos ids {self.eos_ids} are not all within 0..{self.size - 1}")
        by_bytes = sorted((token, i) for i, token in enumerate(self.tokens) if token)
        if not by_bytes:
            raise ValueError("no token of the vocabulary has bytes")
        self.longest = max(len(token) for token, _ in by_bytes)
        if self.longest > _LONGEST_TOKEN:
            raise ValueError(f"a token has {self.longest} bytes; at most {_LONGEST_TOKEN} work")
        self.tokens_by_byte = np.bincount([token[0] for token, _ in by_bytes], minlength=256)
        self.lengths = np.array([len(token or b"") for token in self.tokens], np.int32)
        self.alphabet = sum({1 << token[0] for token, _ in by_bytes if len(token) == 1})
        self._build_trie(by_bytes)
        self.preorder = Preorder(
            *preorder(self.node_byte, self.child_start, self.child_count, self.token_at)
        )
        self.tokens_before: NDArray[np.int64] = np.concatenate(
            (np.zeros(1, np.int64), np.cumsum(self.preorder.token >= 0, dtype=np.int64))
        )
        prepare(self.preorder, self.twins)
        self.eos_words = np.zeros(self.words, np.uint32)
        for i in self.eos_ids:
            self.eos_words[i // 32] |= np.uint32(1 << (i % 32))
        self.digest = self._hash()
        self._scratch = threading.local()

    def scratch(self) -> Scratch:
        """The calling thread's memory for walks."""
        found: Scratch | None = getattr(self._scratch, "of_thread", None)
        if found is None:
            found = self._scratch.of_thread = Scratch(int((self.token_at >= 0).sum()))
        return found

    def _build_trie(self, by_bytes: list[tuple[bytes, int]]) -> None:
        ids = np.array([i for _, i in by_bytes], np.int32)
        lengths = np.array([len(token) for token, _ in by_bytes], np.int32)
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        flat = np.frombuffer(b"".join(token for token, _ in by_bytes), np.uint8)
        at = np.zeros(len(ids), np.int32)  # node reached by each token so far
        bytes_by_level = [np.zeros(1, np.uint8)]
        parents_by_level = [np.zeros(1, np.int32)]
        count = 1
        alive = np.arange(len(ids))
        for depth in range(self.longest):
            alive = alive[lengths[alive] > depth]
            parent = at[alive]
            byte = flat[starts[alive] + depth]
            fresh = np.ones(len(alive), bool)
            fresh[1:] = (parent[1:] != parent[:-1]) | (byte[1:] != byte[:-1])
            at[alive] = count + np.cumsum(fresh, dtype=np.int32) - 1
            bytes_by_level.append(byte[fresh])
            parents_by_level.append(parent[fresh])
            count += int(fresh.sum())
        self.node_byte: NDArray[np.uint8] = np.concatenate(bytes_by_level)
        parents = np.concatenate(parents_by_level)
        self.child_count: NDArray[np.int32] = np.bincount(parents[1:], minlength=count).astype(
            np.int32
        )
        ends = np.cumsum(self.child_count, dtype=np.int32)
        self.child_start: NDArray[np.int32] = (1 + ends - self.child_count).astype(np.int32)
        self.token_at: NDArray[np.int32] = np.full(count, -1, np.int32)
        self.token_at[at[::-1]] = ids[::-1]  # of equal tokens the lowest id wins
        main = self.token_at[at]
        twin = main != ids
        self.twins: NDArray[np.int32] = np.stack([main[twin], ids[twin]], axis=1)

    def _hash(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.array(self.eos_ids, np.int64).tobytes())
        for token in self.tokens:
            digest.update(b"\xff" if token is None else len(token).to_bytes(4, "little") + token)
        return digest.hexdigest()

    def with_eos(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """`ids` and the end-of-text ids."""
        return np.concatenate((ids, np.array(self.eos_ids, np.int32)))

    def child(self, node: int, byte: int) -> int:
        """The child of a trie node along `byte`, or -1."""
        start = int(self.child_start[node])
        children = self.node_byte[start : start + int(self.child_count[node])]
        index = int(np.searchsorted(children, byte))
        return start + index if index < len(children) and children[index] == byte else -1

    def unpack(self, mask: NDArray[np.uint32]) -> list[int]:
        """The ids whose bits are set in a packed mask, ascending."""
        bits = np.unpackbits(mask.astype("<u4").view(np.uint8), bitorder="little")
        return [int(i) for i in np.flatnonzero(bits)]
