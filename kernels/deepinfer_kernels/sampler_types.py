"""Values that go into and come out of one sampling step; no arithmetic here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

MAX_LOGPROBS = 20
GREEDY_BELOW = 1e-4
"""A temperature under this value means greedy: the argmax, ties to the lowest id."""


class Status(IntEnum):
    """What happened to a row; anything but `OK` means that no token was drawn."""

    OK = 0
    NUMERIC = 1
    """The row holds NaN or +inf (in the logits, or after penalties and bias)."""
    EMPTY = 2
    """No token is allowed: everything is masked, banned or -inf."""
    MISS = 3
    """A mask row or a transition is not on the device yet; the step has to be repeated."""


@dataclass(frozen=True, slots=True)
class SamplerParams:
    """How the tokens of one sequence are chosen.

    Attributes:
        temperature: 0 (or anything below 1e-4) is greedy.
        top_k: number of highest-ranked tokens kept; 0 keeps all.
        top_p: in (0, 1]; the shortest prefix of the ranking with this mass is kept; 1 keeps all.
        min_p: in [0, 1]; tokens below this fraction of the best weight are cut; 0 keeps all.
        repetition_penalty: > 0; divides positive and multiplies negative logits of seen tokens.
        presence_penalty: subtracted once from tokens that occur in the output.
        frequency_penalty: subtracted per occurrence in the output.
        logit_bias: pairs (token id, addend); -inf bans, later pairs of one id add up.
        banned: token ids that are never drawn.
        seed: unsigned 64-bit key of the noise.
        sample: index among the n samples of a request; part of the noise address.
        draw: `gumbel` (default) or `modulo31` (parity with recorded outputs).
        logprobs: None for none, k >= 0 for the drawn token and the top k (at most 20).
        logprobs_mode: `raw` (default) is the distribution of the unmodified, unmasked logits;
            `processed` is the distribution drawn from, after penalties, masks, temperature and
            cuts (a greedy row has no temperature and no cuts, so it reports them at 1).

    Raises:
        ValueError: a value is outside its range; the message names it and the range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()
    seed: int = 0
    sample: int = 0
    draw: Literal["gumbel", "modulo31"] = "gumbel"
    logprobs: int | None = None
    logprobs_mode: Literal["raw", "processed"] = "raw"

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        _require(
            self.temperature >= 0 and math.isfinite(self.temperature),
            "temperature",
            self.temperature,
            "a finite number >= 0",
        )
        _require(self.top_k >= 0, "top_k", self.top_k, "an integer >= 0 (0 keeps all tokens)")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "in (0, 1]")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "in [0, 1]")
        rho = self.repetition_penalty
        _require(rho > 0 and math.isfinite(rho), "repetition_penalty", rho, "a finite number > 0")
        for name in ("presence_penalty", "frequency_penalty"):
            value: float = getattr(self, name)
            _require(math.isfinite(value), name, value, "a finite number")
        for token, bias in self.logit_bias:
            _require(token >= 0, "logit_bias token id", token, ">= 0")
            _require(bias < math.inf, "logit_bias", bias, "a finite number or -inf")
        _require(all(token >= 0 for token in self.banned), "banned", self.banned, "ids >= 0")
        _require(0 <= self.seed < 1 << 64, "seed", self.seed, "in [0, 2**64)")
        _require(0 <= self.sample < 1 << 32, "sample", self.sample, "in [0, 2**32)")
        _require(self.draw in ("gumbel", "modulo31"), "draw", self.draw, "'gumbel' or 'modulo31'")
        if self.logprobs is not None:
            _require(
                0 <= self.logprobs <= MAX_LOGPROBS,
                "logprobs",
                self.logprobs,
                f"None or in [0, {MAX_LOGPROBS}]",
            )
        _require(
            self.logprobs_mode in ("raw", "processed"),
            "logprobs_mode",
            self.logprobs_mode,
            "'raw' or 'processed'",
        )

    @property
    def greedy(self) -> bool:
        """Whether the token is the argmax, with no noise involved."""
        return self.temperature < GREEDY_BELOW


@dataclass(frozen=True, slots=True)
class Drawn:
    """Result of one row.

    Attributes:
        token: the drawn id, or -1 when `status` is not `OK`.
        status: whether a token could be drawn.
        logprob: natural log-probability of the token; None unless requested.
        rank: 1 for the most likely token of the reported distribution; None unless requested.
        top: (id, log-probability) of the most likely tokens, best first.
    """

    token: int
    status: Status
    logprob: float | None = None
    rank: int | None = None
    top: tuple[tuple[int, float], ...] = ()


def _require(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name} is {value!r}; it must be {expected}")
