"""SamplingParams: how to draw tokens and when to stop, as one frozen and validated value.

Names follow the OpenAI API where the meaning is the same. Knows no engine and no model; what
depends on the model (context length, vocabulary) is checked when a call is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from .arguments import unknown_argument
from .errors import InvalidArgument

MAX_SEED = 2**64 - 1
MAX_LOGPROBS = 20
MAX_SAMPLES = 128

_RANGES = {
    "temperature": "a number from 0 (always the likeliest token) to 100",
    "top_p": "a number above 0 and at most 1 (1 = off)",
    "top_k": "a whole number from 0 (off)",
    "min_p": "a number from 0 (off) to 1",
    "max_tokens": "a whole number from 1, or None for as many as the context holds",
    "min_tokens": "a whole number from 0",
    "stop": "a text or a list of at most 16 texts, none of them empty",
    "stop_token_ids": "a list of token ids",
    "ignore_eos": "True or False",
    "seed": "a whole number from 0 to 2**64 - 1, or None for a fresh one",
    "n": f"a whole number from 1 to {MAX_SAMPLES}",
    "logprobs": f"a whole number from 0 (only the drawn token) to {MAX_LOGPROBS}, or None (off)",
    "logprobs_mode": '"raw" or "processed"',
    "presence_penalty": "a number from -2 to 2 (0 = off)",
    "frequency_penalty": "a number from -2 to 2 (0 = off)",
    "repetition_penalty": "a number above 0 and at most 10 (1 = off)",
    "logit_bias": "a dict of token id to a number from -100 to 100",
    "draw": '"gumbel" or "modulo31"',
    "so_args": 'a dict like {"schema_type": "regex", "schema": "[0-9]+"}',
}


class StructuredArgs(BaseModel):
    """A constraint in the older interface's form; `schema=` of a call says the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_type: Literal["regex", "json", "ebnf"]
    schema_: str | dict[str, Any] = Field(alias="schema")


def _as_texts(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Text = Annotated[str, Field(min_length=1)]
Bias = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False, strict=False)]
TokenId = Annotated[int, Field(ge=0)]
BiasedId = Annotated[int, Field(ge=0, strict=False)]  # JSON has texts as keys


class SamplingParams(BaseModel):
    """How to draw tokens and when to stop.

    Attributes:
        temperature: 0 takes the likeliest token every time; 1 is the model's own distribution.
        top_p: Keep the likeliest tokens that together have this share of the probability.
        top_k: Keep only this many of the likeliest tokens; 0 is off.
        min_p: Keep tokens at least this likely relative to the likeliest one; 0 is off.
        max_tokens: Most text tokens to generate; None means until the context is full.
        min_tokens: Do not end before this many tokens (unless the schema leaves nothing to say).
        stop: Texts that end the output; the output is cut exactly before them.
        stop_token_ids: Token ids that end the output.
        ignore_eos: Do not end at the model's end-of-text token.
        seed: Same seed, same bytes; None takes a fresh one, which the result then names.
        n: Independent samples to draw.
        logprobs: None is off; k gives the drawn token's log-probability and those of the top k.
        logprobs_mode: ``"raw"`` for the model's distribution, ``"processed"`` for the one drawn
            from.
        presence_penalty: Subtracted once from the logits of tokens already generated.
        frequency_penalty: Subtracted per occurrence in the generated text.
        repetition_penalty: Divides the logits of tokens seen in prompt or output; 1 is off.
        logit_bias: Added to the logits of the given token ids.
        draw: ``"gumbel"``, or ``"modulo31"`` for parity with recordings of an older sampler.
        so_args: A constraint in the older interface's form.

    Raises:
        InvalidArgument: A value is out of range; the message names the legal range.
        UnknownArgument: There is no such parameter.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    temperature: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0, lt=2**31)
    min_p: float = Field(default=0.0, ge=0, le=1)
    max_tokens: int | None = Field(default=512, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    stop: Annotated[tuple[Text, ...], BeforeValidator(_as_texts), Field(max_length=16)] = ()
    stop_token_ids: Annotated[tuple[TokenId, ...], BeforeValidator(_as_tuple)] = ()
    ignore_eos: bool = False
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    n: int = Field(default=1, ge=1, le=MAX_SAMPLES)
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    logprobs_mode: Literal["raw", "processed"] = "raw"
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: float = Field(default=1.0, gt=0, le=10)
    logit_bias: Mapping[BiasedId, Bias] = Field(default_factory=dict, strict=False)
    draw: Literal["gumbel", "modulo31"] = "gumbel"
    so_args: StructuredArgs | None = Field(default=None, strict=False)

    @model_validator(mode="wrap")
    @classmethod
    def _explain(
        cls, data: object, handler: ModelWrapValidatorHandler[SamplingParams]
    ) -> SamplingParams:
        """Accept older names, and turn what Pydantic reports into our errors."""
        if isinstance(data, dict) and "seq_seed" in data:
            data = dict(data)
            older = data.pop("seq_seed")
            if data.setdefault("seed", older) != older:
                raise InvalidArgument(
                    f"seed={data['seed']!r} and seq_seed={older!r} disagree; they are one value",
                    hint="Give only seed=",
                )
        try:
            params = handler(data)
        except ValidationError as error:
            raise _explained(error) from None
        if params.max_tokens is not None and params.min_tokens > params.max_tokens:
            raise InvalidArgument(
                f"min_tokens={params.min_tokens} is more than max_tokens={params.max_tokens}",
                hint="Lower min_tokens or raise max_tokens",
            )
        return params

    def with_(self, **changes: Any) -> SamplingParams:
        """A copy with some values changed, checked like a new one."""
        return SamplingParams(**{**dict(self), **changes})


def _explained(error: ValidationError) -> InvalidArgument:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return unknown_argument("SamplingParams", name, SamplingParams.model_fields)
    if name not in _RANGES:
        return InvalidArgument(f"SamplingParams: {first['msg']}")
    return InvalidArgument(
        f"{name}={first['input']!r} is not allowed: {_lower(first['msg'])}",
        hint=f"{name} is {_RANGES[name]}",
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
