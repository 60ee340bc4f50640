"""From token bytes to text, as it grows: only stable text leaves, and stop texts cut exactly."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextAssembler:
    """The text of one sample.

    The whole text equals decoding all bytes at once, cut before the first stop text: the one whose
    last character comes first (of two that end together, the longer). So the text depends on the
    characters alone, not on how tokens divide them. At most one character less than the longest
    stop text is withheld.

    Args:
        stops: Texts that end the output.

    Attributes:
        text: Everything released so far.
        stop: The stop text that was met, or None.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stops)
        self._hold = max((len(stop) for stop in stops), default=1) - 1
        self._held = ""
        self._released: list[str] = []
        self.stop: str | None = None

    @property
    def text(self) -> str:
        """Everything released so far."""
        return "".join(self._released)

    def push(self, data: bytes) -> str:
        """Add bytes; returns the text that has become final."""
        return self._take(self._decoder.decode(data), last=False)

    def finish(self) -> str:
        """Release what was held back; incomplete characters become U+FFFD."""
        return self._take(self._decoder.decode(b"", final=True), last=True)

    def _take(self, fresh: str, *, last: bool) -> str:
        if self.stop is not None:
            return ""
        held = self._held + fresh
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            _, at, self.stop = min(found)
            held, self._held = held[:at], ""
        elif last or not self._hold:
            self._held = ""
        else:
            keep = self._longest_start(held)
            held, self._held = held[: len(held) - keep], held[len(held) - keep :]
        self._released.append(held)
        return held

    def _longest_start(self, text: str) -> int:
        """Length of the longest end of `text` that a stop text could begin with."""
        for length in range(min(self._hold, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
