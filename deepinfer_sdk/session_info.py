"""What a session tells about its model and its engine; plain data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ModelInfo(BaseModel):
    """The open model.

    Attributes:
        name: Its name.
        digest: Hash of its configuration and weights.
        architecture: Its family.
        device: Kind of device it runs on.
        vocabulary_size: Number of tokens.
        context: Most tokens of prompt and output together.
        has_chat_template: Whether prompts are wrapped as messages.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    digest: str
    architecture: str
    device: str
    vocabulary_size: int
    context: int
    has_chat_template: bool


class SessionStats(BaseModel):
    """Counters since the engine started, and what is going on now.

    Attributes:
        sessions: Sessions that share the engine.
        requests: Requests taken in.
        finished: Samples that have ended.
        steps: Steps of the model.
        prompt_tokens: Tokens read.
        output_tokens: Tokens drawn.
        preemptions: Times a sample had to give way and start over.
        running: Samples in the batch.
        waiting: Samples waiting for a place.
        blocks_used: Cache blocks in use.
        blocks_total: Cache blocks in all.
        automata: Compiled constraints that are kept.
    """

    model_config = ConfigDict(frozen=True)

    sessions: int
    requests: int
    finished: int
    steps: int
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    running: int
    waiting: int
    blocks_used: int
    blocks_total: int
    automata: int
