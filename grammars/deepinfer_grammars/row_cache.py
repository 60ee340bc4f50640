"""Masks of one vocabulary that come back in other grammars: string bodies, numbers, white space.

Keyed by digests of expressions, so that a hit is exact. Bounded and thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from .repeat_index import RepeatIndex
from .token_row import TokenRow
from .vocabulary import Vocabulary

_MOST_BYTES = 64 << 20
_MOST_INDEXES = 64


class RowCache:
    """Rows and repeat indexes by digest.

    Args:
        most_bytes: Bytes of rows to keep; the longest unused go first.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._rows: OrderedDict[bytes, TokenRow] = OrderedDict()
        self._indexes: OrderedDict[bytes, RepeatIndex | None] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes held by rows."""
        return self._held

    def row(self, digest: bytes) -> TokenRow | None:
        """The row of an expression."""
        with self._lock:
            row = self._rows.get(digest)
            if row is not None:
                self._rows.move_to_end(digest)
            return row

    def keep(self, digest: bytes, row: TokenRow) -> None:
        """Keep a row."""
        with self._lock:
            if digest in self._rows:
                return
            self._rows[digest] = row
            self._held += row.nbytes
            while self._held > self._most_bytes:
                self._held -= self._rows.popitem(last=False)[1].nbytes

    def index(self, digest: bytes) -> tuple[bool, RepeatIndex | None]:
        """Whether the items of a digest are known, and their index, if they have one."""
        with self._lock:
            return digest in self._indexes, self._indexes.get(digest)

    def keep_index(self, digest: bytes, index: RepeatIndex | None) -> None:
        """Keep an index, or that there is none."""
        with self._lock:
            self._indexes[digest] = index
            while len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows.clear()
            self._indexes.clear()
            self._held = 0


_CACHES: OrderedDict[str, RowCache] = OrderedDict()
_CACHES_LOCK = threading.Lock()
_MOST_CACHES = 4


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
