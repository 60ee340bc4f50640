"""What a call returns, as plain immutable data: it pickles, and round-trips through JSON.

Holds no reference to a session, an engine or a tensor, so that an old notebook output pins nothing.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from .params import SamplingParams

T = TypeVar("T")

FinishReason = Literal["stop", "length", "cancelled", "timeout", "error"]
SchemaKind = Literal[
    "json", "regex", "ebnf", "choice", "any_of", "text", "literal", "sequence", "repeat", "tagged"
]
ConstraintEngine = Literal["native", "outlines"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TokenLogprob(_Record):
    """Log-probability of one generated token.

    Attributes:
        id: The token.
        logprob: Its natural log-probability.
        rank: Its place among all tokens, the likeliest first (1).
        top: (token id, log-probability) of the likeliest tokens, best first.
    """

    id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


class Usage(_Record):
    """Token counts of a call; the prompt counts once, completions of all samples are added up."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


class Timings(_Record):
    """Seconds a sample spent waiting, reading the prompt, and writing."""

    queue_s: float
    prefill_s: float
    decode_s: float


PropertyOrder = Literal["schema", "any"]
Formats = Literal["strict", "assert", "annotate"]
Whitespace = Literal["compact", "spaced", "pretty", "flexible"]
OnUnsupported = Literal["refuse", "validate"]


class JsonOptions(_Record):
    """How a JSON Schema is read and written.

    Attributes:
        extra_properties: What an object schema without `additionalProperties` allows.
        property_order: Whether properties keep the schema's order or may come in any.
        formats: How `format` is read.
        whitespace: The white space between the parts.
        on_unsupported: What happens with keywords that cannot be enforced.
    """

    extra_properties: bool = True
    property_order: PropertyOrder = "schema"
    formats: Formats = "strict"
    whitespace: Whitespace = "spaced"
    on_unsupported: OnUnsupported = "refuse"


class SchemaSpec(_Record):
    """A constraint as plain data, enough to build it again.

    Attributes:
        kind: Which front end reads it.
        source: The JSON Schema, pattern, grammar text or list of texts; the settings of free text,
            repeats and tags.
        parts: What a composed constraint is made of.
        json_options: How a JSON Schema is read and written.
        start: Start rule of a grammar text.
        engine: What makes its token masks.
    """

    kind: SchemaKind
    source: JsonValue = None
    parts: tuple[SchemaSpec, ...] = ()
    json_options: JsonOptions | None = None
    start: str | None = None
    engine: ConstraintEngine = "native"


class Recipe(_Record):
    """Everything that determines the output, and the versions it was made with.

    Attributes:
        model: Name of the model.
        model_digest: Hash of its configuration and weights.
        device: Kind of device; equal bytes are promised on the same kind.
        versions: Package name to version.
        prompt_ids: The prompt as the model saw it.
        params: The parameters, with the seed filled in.
        max_tokens: The token budget after the context length was taken into account.
        schema_spec: The constraint, if any.
    """

    model: str
    model_digest: str
    device: str
    versions: dict[str, str]
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    max_tokens: int
    schema_spec: SchemaSpec | None = None


class Sample(BaseModel, Generic[T]):
    """One generated output.

    Attributes:
        value: The output as the requested type; the text itself without a schema.
        text: The output as text.
        ids: The generated tokens.
        logprobs: One entry per generated token, if asked for.
        finish_reason: ``"stop"`` or ``"length"``.
        stop: The stop text or token id that ended it, if one did.
        limited: Whether `max_tokens` kept the model from tokens that the schema would have allowed.
        timings: Seconds spent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: T
    text: str
    ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason
    stop: str | int | None = None
    limited: bool = False
    timings: Timings

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second after the prompt was read; 0 if too short to tell."""
        steps = len(self.ids) - 1
        if steps < 1 or self.timings.decode_s <= 0:
            return 0.0
        return steps / self.timings.decode_s


class Result(Sample[T], Generic[T]):
    """The answer to one call: its first sample, and what the whole call shares.

    `Result[Person].model_validate_json(result.model_dump_json())` gives an equal result back.

    Attributes:
        usage: Token counts.
        seed: The seed that was used; pass it again for the same bytes.
        recipe: Everything needed to make this output again, see `Session.replay`.
        more_samples: The other samples of a call with `n > 1`.
    """

    usage: Usage
    seed: int
    recipe: Recipe
    more_samples: tuple[Sample[T], ...] = ()

    @property
    def samples(self) -> tuple[Sample[T], ...]:
        """All samples, this one first."""
        return (self, *self.more_samples)

    def __repr__(self) -> str:
        lines = [f"Result({_short(repr(self.value))}"]
        if self.text != self.value:
            lines.append(f"  text={_short(repr(self.text))}")
        if self.more_samples:
            lines.append(f"  samples={len(self.samples)}")
        speed = f", {self.tokens_per_second:.1f} tokens/s" if self.tokens_per_second else ""
        limited = ", limited by max_tokens" if self.limited else ""
        count = f"{self.finish_reason} after {len(self.ids)} tokens"
        lines.append(f"  {count}{speed}{limited}, seed={self.seed})")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


class ReplayReport(_Record):
    """How a repeated run compares with the recorded one.

    Attributes:
        same: Whether every sample has the same tokens and the same text.
        sample: The first sample that differs.
        position: Index of the first token that differs, within the generated tokens.
        expected: The recorded token there; None if the recorded output had ended.
        got: The token now; None if the new output had ended.
        text: The new text of that sample (of the first one if all are the same).
        changed_versions: Package name to (recorded, present) version, where they differ.
    """

    same: bool
    sample: int | None = None
    position: int | None = None
    expected: int | None = None
    got: int | None = None
    text: str
    changed_versions: dict[str, tuple[str, str]]

    def __str__(self) -> str:
        notes = "".join(
            f"; {name} was {old}, is {new}" for name, (old, new) in self.changed_versions.items()
        )
        if self.same:
            return f"same bytes{notes}"
        return (
            f"sample {self.sample} differs at token {self.position}: "
            f"was {self.expected}, is {self.got}{notes}"
        )


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
