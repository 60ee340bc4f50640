"""The draw: which of the kept tokens comes next.

`gumbel` is an argmax over integer scores with one addressed noise word per token, so it has no
normaliser and no running sum. `modulo31` follows a published scalar draw, for parity with
outputs recorded there; near its rejection limit a rounding difference changes the token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .cuts import keep_top_k, order_keys, ranked
from .fixed_point import GUMBEL_ABOVE, GUMBEL_BELOW, GUMBEL_BITS, gumbel_q22
from .logprobs import tiled_sum
from .philox import SCALAR_STREAM, noise_blocks, token_words

MODULO31_WIDTH = 4096
"""`modulo31` first cuts to this many top tokens."""

# A token whose scaled logit is this far below another's cannot win, whatever the two noises are.
_HOPELESS = np.float32(np.ceil((GUMBEL_BELOW - GUMBEL_ABOVE) * 2) / 2)
_NEAR = 3 << GUMBEL_BITS
_FEW = 256
_SCORE_SCALE = np.float32(1 << GUMBEL_BITS)
_FAR = np.float32(2.0**39)
_FAR_BITS = int(_FAR.view(np.int32))
# Noise of at least n units needs a word below 2**(32-n).
_WORD_BOUND: NDArray[np.int64] = np.array([1 << (32 - n) for n in range(33)], dtype=np.int64)


def scaled_scores(t: NDArray[np.float32]) -> NDArray[np.int64]:
    """round(t * 2**22) without noise; order is kept beyond the range of the fixed point.

    Where |t| >= 2**39 the float32 grid is far coarser than any noise; the score then counts
    float32 steps, each wider than the noise range, so ranking stays exact without overflow.
    Infinite products count as equal.

    Args:
        t: float32 [n], logits times log2(e)/temperature.

    Returns:
        int64 [n].
    """
    near = np.clip(t, -_FAR, _FAR)
    scores: NDArray[np.int64] = np.rint(near * _SCORE_SCALE).astype(np.int64)
    far = np.flatnonzero((t >= _FAR) | (t <= -_FAR))
    if len(far):
        steps = np.abs(t[far]).view(np.int32).astype(np.int64) - _FAR_BITS
        scores[far] = np.where(t[far] > 0, 1, -1) * ((1 << 61) + (steps << 30))
    return scores


def draw_gumbel(
    x: NDArray[np.float32],
    ids: NDArray[np.int64] | None,
    scale: np.float32,
    *,
    seed: int,
    position: int,
    sample: int,
) -> int:
    """Position of argmax(round(x * scale * 2**22) + noise), ties to the lowest id.

    Noise is evaluated only where it could win: not for tokens too far below the best logit, and
    not where the random word is too large for the noise that the token would need.

    Args:
        x: float32 [n], finite logits of the kept tokens, n >= 1.
        ids: int64 [n], their ids, ascending; None stands for 0..n-1.
        scale: log2(e) / temperature.
        seed: unsigned 64-bit.
        position: absolute index in the sequence of the token being produced.
        sample: index among the samples of a request.

    Returns:
        Index into `x`.
    """
    with np.errstate(over="ignore", under="ignore"):
        t = x * scale
    hopeful = np.flatnonzero(t >= t.max() - _HOPELESS)
    scores = scaled_scores(t[hopeful])
    if len(hopeful) == 1:
        return int(hopeful[0])
    words = token_words(
        hopeful if ids is None else ids[hopeful], seed=seed, position=position, sample=sample
    )
    if len(scores) <= _FEW:
        return int(hopeful[int((scores + gumbel_q22(words)).argmax())])
    top = int(scores.max())
    probes = np.flatnonzero(scores >= top - _NEAR)[:_FEW]
    best = int((scores[probes] + gumbel_q22(words[probes])).max())
    units = min(max((best - top) >> GUMBEL_BITS, 0), 32)
    able = np.flatnonzero(words < _WORD_BOUND[units])
    needed = np.clip((best - scores[able]) >> GUMBEL_BITS, 0, 32)
    able = able[words[able] < _WORD_BOUND[needed]]
    finals = scores[able] + gumbel_q22(words[able])
    return int(hopeful[able[int(finals.argmax())]])


def rejection_limit(total: int) -> int:
    """Largest multiple of `total` that 32-bit words are compared with in `modulo31`."""
    return 0xFFFFFFFF // total * total


def draw_modulo31(
    x: NDArray[np.float32],
    inverse_temperature: np.float32,
    *,
    seed: int,
    position: int,
    sample: int,
) -> int:
    """Scalar draw: `d % total` over weights floor(p * 2**31) in rank order.

    Words come from the scalar stream, word `i & 3` of block `i >> 2` for attempt `i`; a word at or
    above `rejection_limit(total)` is rejected.

    Args:
        x: float32 [n], finite logits of the kept tokens in id order, n >= 1.
        inverse_temperature: 1 / temperature.
        seed: unsigned 64-bit.
        position: absolute index in the sequence of the token being produced.
        sample: index among the samples of a request.

    Returns:
        Index into `x`.
    """
    keys = order_keys(x)
    kept = keep_top_k(keys, MODULO31_WIDTH)
    order = kept[ranked(keys[kept])]
    with np.errstate(over="ignore", under="ignore"):
        exponentials = np.exp((x[order] - x[order[0]]) * inverse_temperature)
        probabilities = exponentials / tiled_sum(exponentials)
    reached = np.cumsum(np.floor(probabilities * np.float32(2**31)).astype(np.int64))
    total = int(reached[-1])
    limit = rejection_limit(total)
    block = 0
    while True:
        words = noise_blocks(
            np.array([block], dtype=np.int64),
            seed=seed,
            position=position,
            stream=SCALAR_STREAM,
            sample=sample,
        )[0]
        for word in words.tolist():
            if word < limit:
                return int(order[int(np.searchsorted(reached, word % total, side="right"))])
        block += 1
