"""What masks of one vocabulary are made of, and comes back in other grammars.

String bodies, numbers and white space occur in every schema. Keyed by digests of expressions, so
that a hit is exact. Bounded and thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from .repeat_index import RepeatIndex
from .token_row import TokenRow
from .vocabulary import Vocabulary
from .vocabulary_walk import Part

_MOST_CACHES = 4


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_Value = TypeVar("_Value", bound=_Sized)


class Kept(Generic[_Value]):
    """Values by digest; None is kept too, where there is known to be no value.

    Args:
        most_bytes: Bytes of values to keep; the longest unused go first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, _Value | None] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._held

    def get(self, digest: bytes) -> tuple[bool, _Value | None]:
        """Whether the digest is known, and its value."""
        with self._lock:
            if digest not in self._values:
                return False, None
            self._values.move_to_end(digest)
            return True, self._values[digest]

    def items(self) -> list[tuple[bytes, _Value | None]]:
        """All that is kept, the longest unused first."""
        with self._lock:
            return list(self._values.items())

    def keep(self, digest: bytes, value: _Value | None) -> None:
        """Keep a value, or that there is none."""
        with self._lock:
            if digest in self._values:
                return
            self._values[digest] = value
            self._held += _size(value)
            while self._held > self._most_bytes:
                self._held -= _size(self._values.popitem(last=False)[1])


def _size(value: _Sized | None) -> int:
    return 200 + (0 if value is None else value.nbytes)  # with the entry itself


class RowCache:
    """Everything that is kept of one vocabulary.

    Attributes:
        rows: Masks of expressions.
        indexes: Repeat indexes of items.
        parts: What beginnings of expressions cover.
    """

    def __init__(self) -> None:
        self.rows: Kept[TokenRow] = Kept(48 << 20)
        self.indexes: Kept[RepeatIndex] = Kept(48 << 20)
        self.parts: Kept[Part] = Kept(16 << 20)


_CACHES: OrderedDict[str, RowCache] = OrderedDict()
_CACHES_LOCK = threading.Lock()


def cache_of(vocabulary: Vocabulary) -> RowCache:
    """The cache that all grammars of a vocabulary share."""
    with _CACHES_LOCK:
        cache = _CACHES.get(vocabulary.digest)
        if cache is None:
            cache = _CACHES[vocabulary.digest] = RowCache()
            while len(_CACHES) > _MOST_CACHES:
                _CACHES.popitem(last=False)
        else:
            _CACHES.move_to_end(vocabulary.digest)
        return cache


def clear() -> None:
    """Forget the caches of all vocabularies."""
    with _CACHES_LOCK:
        _CACHES.clear()
