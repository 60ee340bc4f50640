"""Masks as bytes, so that those of a vocabulary survive the process."""

from __future__ import annotations

import marshal

import numpy as np
from numpy.typing import NDArray

from .disk_cache import DiskCache
from .repeat_index import RepeatIndex
from .row_cache import cache_of
from .token_row import TokenRow
from .vocabulary import Vocabulary
from .vocabulary_walk import Part


def write_row(row: TokenRow) -> bytes:
    """A mask."""
    return marshal.dumps(row.fields())


def read_row(vocabulary: Vocabulary, data: bytes) -> TokenRow:
    """The mask that was written, of the same vocabulary."""
    return TokenRow.of_fields(vocabulary, *marshal.loads(data))


def save_rows(vocabulary: Vocabulary, cache: DiskCache) -> None:
    """Write what all grammars of a vocabulary share."""
    kept = cache_of(vocabulary)
    rows = [(name, row.fields()) for name, row in kept.rows.items() if row is not None]
    parts = [
        (name, None if part is None else (_bytes(part.tokens), _bytes(part.exits), part.farthest))
        for name, part in kept.parts.items()
    ]
    indexes = [
        (name, None if index is None else index.fields()) for name, index in kept.indexes.items()
    ]
    cache.write(_name(vocabulary), marshal.dumps((rows, parts, indexes)))


def load_rows(vocabulary: Vocabulary, cache: DiskCache) -> None:
    """Read what was saved, in addition to what is known."""
    data = cache.read(_name(vocabulary))
    if data is None:
        return
    kept = cache_of(vocabulary)
    rows, parts, indexes = marshal.loads(data)
    for name, fields in rows:
        kept.rows.keep(name, TokenRow.of_fields(vocabulary, *fields))
    for name, part in parts:
        value = None if part is None else Part(_ids(part[0]), _ids(part[1]), part[2])
        kept.parts.keep(name, value)
    for name, fields in indexes:
        index = None if fields is None else RepeatIndex.of_fields(vocabulary, *fields)
        kept.indexes.keep(name, index)


def _name(vocabulary: Vocabulary) -> bytes:
    return b"rows " + vocabulary.digest.encode()


def _bytes(ids: NDArray[np.int32]) -> bytes:
    return ids.astype("<i4").tobytes()


def _ids(data: bytes) -> NDArray[np.int32]:
    return np.frombuffer(data, "<i4").astype(np.int32)  # a copy, which can be written
