"""One step of the sampler: a row of logits becomes a token. NumPy only, and pure.

The token is a function of the arguments alone. Every float operation is one correctly rounded
float32 operation per element; all decisions that involve sums are integer decisions. Order of
operations: finite check, penalties, bias, masks, temperature, top-k, top-p, min-p, draw,
log-probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .cuts import keep_top_k, keep_top_p, min_p_weight, order_keys, top_p_q24
from .draw import draw_gumbel, draw_modulo31
from .fixed_point import exp2_fixed
from .logprobs import report
from .penalties import TokenCounts, penalise
from .sampler_types import Drawn, SamplerParams, Status
from .token_mask import allowed_ids

__all__ = ["Drawn", "SamplerParams", "Status", "TokenCounts", "sample_row"]

_NEGATIVE_INFINITY = np.float32(-np.inf)


def sample_row(
    logits: NDArray[np.float32],
    params: SamplerParams,
    *,
    position: int,
    mask: NDArray[np.uint32] | None = None,
    counts: TokenCounts | None = None,
    banned_now: Sequence[int] = (),
) -> Drawn:
    """Choose the next token of one sequence.

    Args:
        logits: float32 [V], the model's output; not modified. -inf is never drawn.
        params: how to choose.
        position: absolute index in the sequence of the token being produced, prompt included.
        mask: packed uint32 [ceil(V/32)] of the tokens a constraint allows; None allows all.
        counts: what the sequence has seen; needed only for penalties.
        banned_now: ids that may not come at this step, such as end-of-text before a minimum.

    Returns:
        The token, or `Status.NUMERIC` for NaN or +inf, or `Status.EMPTY` if nothing is allowed.

    Raises:
        ValueError: wrong dtype or shape, or a token id outside the vocabulary.
    """
    if logits.dtype != np.float32 or logits.ndim != 1 or len(logits) == 0:
        raise ValueError(f"logits are {logits.dtype}{list(logits.shape)}; expected float32[V]")
    if not logits.max() < np.inf:
        return Drawn(token=-1, status=Status.NUMERIC)
    x, ids = _process(logits, params, mask, counts, (*params.banned, *banned_now))
    if len(x) == 0:
        return Drawn(token=-1, status=Status.EMPTY)
    largest = x.max()
    if not largest < np.inf:
        return Drawn(token=-1, status=Status.NUMERIC)
    if largest == _NEGATIVE_INFINITY:
        return Drawn(token=-1, status=Status.EMPTY)
    if params.greedy:
        index = int(x.argmax())
        inverse_temperature = np.float32(1)
    else:
        if x.min() == _NEGATIVE_INFINITY:
            x, ids = _select(x, ids, np.flatnonzero(x > _NEGATIVE_INFINITY))
        scale = np.float32(math.log2(math.e) / params.temperature)
        inverse_temperature = np.float32(1 / params.temperature)
        x, ids = _cut(x, ids, params, scale)
        address = {"seed": params.seed, "position": position, "sample": params.sample}
        if params.draw == "gumbel":
            index = draw_gumbel(x, ids, scale, **address)
        else:
            index = draw_modulo31(x, inverse_temperature, **address)
    token = index if ids is None else int(ids[index])
    if params.logprobs is None:
        return Drawn(token=token, status=Status.OK)
    if params.logprobs_mode == "raw":
        reported = report(logits, None, len(logits), np.float32(1), token, params.logprobs)
    else:
        reported = report(x, ids, len(logits), inverse_temperature, index, params.logprobs)
    logprob, rank, top = reported
    return Drawn(token=token, status=Status.OK, logprob=logprob, rank=rank, top=top)


def _select(
    x: NDArray[np.float32], ids: NDArray[np.int64] | None, kept: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return x[kept], kept if ids is None else ids[kept]


def _process(
    logits: NDArray[np.float32],
    params: SamplerParams,
    mask: NDArray[np.uint32] | None,
    counts: TokenCounts | None,
    banned: tuple[int, ...],
) -> tuple[NDArray[np.float32], NDArray[np.int64] | None]:
    """Penalties, bias and masks: logits of the candidates and their ids (None is all)."""
    vocab_size = len(logits)
    ids: NDArray[np.int64] | None = None
    x = logits
    if mask is not None:
        ids = allowed_ids(mask, vocab_size)
        x = logits[ids]
    penalties = counts is not None and (
        params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
    )
    if not (penalties or params.logit_bias or banned):
        return x, ids
    if mask is None:
        x = logits.copy()
    with np.errstate(over="ignore", under="ignore"):
        if penalties and counts is not None:
            seen, output = counts.arrays()
            _check_ids(seen, vocab_size)
            slots, present = _slots(ids, seen)
            x[slots] = penalise(x[slots], output[present], params)
        for token, bias in params.logit_bias:
            slots, _ = _slots(ids, _check_ids(np.array([token]), vocab_size))
            x[slots] += np.float32(bias)
    if banned:
        slots, _ = _slots(ids, _check_ids(np.array(banned, dtype=np.int64), vocab_size))
        x[slots] = _NEGATIVE_INFINITY
    return x, ids


def _slots(
    ids: NDArray[np.int64] | None, tokens: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where tokens lie among the candidates: candidate slots, and which tokens were found."""
    if ids is None:
        return tokens, np.arange(len(tokens))
    if len(ids) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    slots = np.minimum(np.searchsorted(ids, tokens), len(ids) - 1)
    present = np.flatnonzero(ids[slots] == tokens)
    return slots[present], present


def _check_ids(tokens: NDArray[np.int64], vocab_size: int) -> NDArray[np.int64]:
    if len(tokens) and (tokens.max() >= vocab_size or tokens.min() < 0):
        raise ValueError(f"token id {tokens.max()} is outside the vocabulary of {vocab_size}")
    return tokens


def _cut(
    x: NDArray[np.float32],
    ids: NDArray[np.int64] | None,
    params: SamplerParams,
    scale: np.float32,
) -> tuple[NDArray[np.float32], NDArray[np.int64] | None]:
    """Top-k, then top-p of what is left, then min-p; the first-ranked token always survives."""
    if 0 < params.top_k < len(x):
        x, ids = _select(x, ids, keep_top_k(order_keys(x), params.top_k))
    if params.top_p < 1.0:
        weights = _weights(x, scale)
        kept = keep_top_p(order_keys(x), weights, top_p_q24(params.top_p))
        x, ids = _select(x, ids, kept)
    if params.min_p > 0.0:
        kept = np.flatnonzero(_weights(x, scale) >= min_p_weight(params.min_p))
        x, ids = _select(x, ids, kept)
    return x, ids


def _weights(x: NDArray[np.float32], scale: np.float32) -> NDArray[np.int64]:
    with np.errstate(over="ignore", under="ignore"):
        return exp2_fixed((x - x.max()) * scale)
