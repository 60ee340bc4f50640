"""The typed events of a stream; plain data."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .result import FinishReason, TokenLogprob


class TextDelta(BaseModel):
    """Newly generated text.

    Attributes:
        type: Always ``"text"``.
        sample: Which of the `n` samples.
        text: The new text; may be empty while a character is incomplete.
        ids: The tokens it came from.
        logprobs: One entry per token, if asked for.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["text"] = "text"
    sample: int
    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class Finished(BaseModel):
    """A sample has ended.

    Attributes:
        type: Always ``"finished"``.
        sample: Which of the `n` samples.
        reason: Why it ended.
        text: Its whole text.
        stop: The stop text or token id that ended it, if one did.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["finished"] = "finished"
    sample: int
    reason: FinishReason
    text: str
    stop: str | int | None = None


StreamEvent = TextDelta | Finished
