"""The mask of a state, held small.

A few allowed tokens are kept as ids, many as packed bits, and a mask that is nearly another one
as the difference from it. Not changed once made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .trie_walk import correct_bits, farthest, set_bits
from .vocabulary import Vocabulary

Ids = NDArray[np.int32]

_FEW = 4  # ids are kept where they take less than a quarter of the memory of bits


class TokenRow:
    """Allowed tokens, and how far from the end of a match they lead.

    Args:
        vocabulary: Their vocabulary.
        farthest: At least the distance (bytes) of every state behind an allowed token.
        words: uint32 [words]; packed bits; or
        base: A row with its own bits, from which this one differs; or neither, for no tokens,
        plus: int32 [n]; ids to add, without twins.
        minus: int32 [n]; ids to take away, without twins.
    """

    __slots__ = ("_base", "_longest", "_minus", "_plus", "_vocabulary", "_words", "farthest")

    def __init__(
        self,
        vocabulary: Vocabulary,
        farthest: int,
        *,
        words: NDArray[np.uint32] | None = None,
        base: TokenRow | None = None,
        plus: Ids | None = None,
        minus: Ids | None = None,
    ) -> None:
        self.farthest = farthest
        self._vocabulary = vocabulary
        self._words = words
        self._base = base
        self._plus = plus
        self._minus = minus
        self._longest = -1
        if words is not None:
            words.setflags(write=False)

    @classmethod
    def of_tokens(
        cls, vocabulary: Vocabulary, tokens: Ids, ends: Ids, fewest: Ids, *, end: bool
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
            return cls(vocabulary, far, plus=vocabulary.with_eos(tokens) if end else tokens)
        words = np.zeros(vocabulary.words, np.uint32)
        set_bits(words, tokens, vocabulary.twins)
        if end:
            words |= vocabulary.eos_words
        return cls(vocabulary, far, words=words)

    @classmethod
    def union(
        cls,
        vocabulary: Vocabulary,
        rows: Sequence[TokenRow],
        tokens: Ids,
        farthest: int,
        *,
        end: bool,
    ) -> TokenRow:
        """The tokens of any of some rows, and some more.

        Args:
            vocabulary: Their vocabulary.
            rows: Rows.
            tokens: int32 [n]; tokens, maybe several times.
            farthest: As of the row.
            end: Whether the text may end here.
        """
        if end:
            tokens = vocabulary.with_eos(tokens)
        if not rows:
            if _FEW * len(tokens) <= vocabulary.words:
                return cls(vocabulary, farthest, plus=tokens)
            words = np.zeros(vocabulary.words, np.uint32)
        elif len(rows) == 1:
            return rows[0].beside(farthest, tokens, np.zeros(0, np.int32))
        else:
            words = np.bitwise_or.reduce([row.words for row in rows])
        set_bits(words, tokens, vocabulary.twins)
        return cls(vocabulary, farthest, words=words)

    def beside(self, farthest: int, plus: Ids, minus: Ids) -> TokenRow:
        """The row that has the tokens `plus` more and `minus` less than this one."""
        row = TokenRow(self._vocabulary, farthest, base=self, plus=plus, minus=minus)
        if self._words is None or _FEW * (len(plus) + len(minus)) > self._vocabulary.words:
            return TokenRow(self._vocabulary, farthest, words=row.words)
        return row

    def fields(self) -> tuple[int, bytes | None, bytes | None]:
        """Distance, packed bits or else ids as bytes: what `of_fields` makes the same row of."""
        if self._words is None and self._base is None and self._plus is not None:
            return self.farthest, None, self._plus.astype("<i4").tobytes()
        return self.farthest, self.words.astype("<u4").tobytes(), None

    @classmethod
    def of_fields(
        cls, vocabulary: Vocabulary, farthest: int, words: bytes | None, ids: bytes | None
    ) -> TokenRow:
        """The row whose fields these are."""
        if words is not None:
            bits = np.frombuffer(words, "<u4").astype(np.uint32)
            return cls(vocabulary, farthest, words=bits)
        return cls(vocabulary, farthest, plus=np.frombuffer(ids or b"", "<i4").astype(np.int32))

    @property
    def words(self) -> NDArray[np.uint32]:
        """uint32 [words], read-only; id i in bit i % 32 of word i // 32."""
        if self._words is not None:
            return self._words
        twins = self._vocabulary.twins
        if self._base is None:
            words = np.zeros(self._vocabulary.words, np.uint32)
            set_bits(words, self._plus, twins)
        else:
            words = self._base.words.copy()
            correct_bits(words, self._plus, self._minus, twins)
        words.setflags(write=False)
        return words

    @property
    def longest(self) -> int:
        """Bytes of the longest allowed text token."""
        if self._longest < 0:
            bits = np.unpackbits(self.words.astype("<u4").view(np.uint8), bitorder="little")
            lengths = self._vocabulary.lengths
            self._longest = int((lengths * bits[: len(lengths)]).max(initial=0))
        return self._longest

    @property
    def nbytes(self) -> int:
        """Bytes held, without the row this one differs from."""
        parts = (self._words, self._plus, self._minus)
        return sum(part.nbytes for part in parts if part is not None)
