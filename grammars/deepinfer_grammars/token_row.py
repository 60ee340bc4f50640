"""The mask of a state, held small: ids where there are few, packed bits where there are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .trie_walk import farthest, set_bits
from .vocabulary import Vocabulary

_FEW = 4  # ids take less than a quarter of the memory of bits


class TokenRow:
    """Allowed tokens, and how far from the end of a match they lead.

    Args:
        vocabulary: Their vocabulary.
        farthest: Largest distance (bytes) of any state behind an allowed token.
        words: uint32 [words]; packed bits, not changed any more; or
        ids: int32 [n]; the same as ids, without twins.
    """

    __slots__ = ("_ids", "_vocabulary", "_words", "farthest")

    def __init__(
        self,
        vocabulary: Vocabulary,
        farthest: int,
        *,
        words: NDArray[np.uint32] | None = None,
        ids: NDArray[np.int32] | None = None,
    ) -> None:
        self.farthest = farthest
        self._vocabulary = vocabulary
        self._words = words
        self._ids = ids
        if words is not None:
            words.setflags(write=False)

    @classmethod
    def of_tokens(
        cls,
        vocabulary: Vocabulary,
        tokens: NDArray[np.int32],
        ends: NDArray[np.int32],
        fewest: NDArray[np.int32],
        *,
        end: bool,
    ) -> TokenRow:
        """The row of a walk's tokens.

        Args:
            vocabulary: Their vocabulary.
            tokens: int32 [n].
            ends: int32 [n]; the state behind each.
            fewest: int32 [states]; distances of states in bytes.
            end: Whether the text may end here.
        """
        far = farthest(ends, fewest)
        if _FEW * len(tokens) <= vocabulary.words:
            if end:
                tokens = np.concatenate((tokens, np.array(vocabulary.eos_ids, np.int32)))
            return cls(vocabulary, far, ids=tokens)
        words = np.zeros(vocabulary.words, np.uint32)
        set_bits(words, tokens, vocabulary.twins)
        if end:
            words |= vocabulary.eos_words
        return cls(vocabulary, far, words=words)

    @property
    def words(self) -> NDArray[np.uint32]:
        """uint32 [words], read-only; id i in bit i % 32 of word i // 32."""
        if self._words is not None:
            return self._words
        words = np.zeros(self._vocabulary.words, np.uint32)
        set_bits(words, self._ids, self._vocabulary.twins)
        words.setflags(write=False)
        return words

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self._ids if self._words is None else self._words
        return 0 if held is None else held.nbytes
