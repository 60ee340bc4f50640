"""Reading a dictionary while it grows: work lists that hold everything once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice


def growing(found: dict[int, int]) -> Iterator[int]:
    """The keys of a dictionary in their order, those added meanwhile too."""
    done = 0
    while done < len(found):
        for key in list(islice(found, done, None)):
            done += 1
            yield key
