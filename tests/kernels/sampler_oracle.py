"""The sampler once more, in plain Python integers and single-rounded floats; shares no code.

Slow and literal: every list is sorted, every noise value is computed, float32 operations are
float64 operations rounded once (exact for one operation on float32 operands).
"""

import math
import struct
from decimal import Decimal, getcontext

getcontext().prec = 40

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
MASK32 = 0xFFFFFFFF


def f32(value):
    """Round to float32; overflow becomes an infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(M0 * c[0], 1 << 32)
        high1, low1 = divmod(M1 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + W0) & MASK32, (k[1] + W1) & MASK32]
    return c


def word(seed, position, stream, index, sample):
    counter = (
        position & MASK32,
        ((position >> 32) & 0xFFFF) | stream << 16,
        index >> 2,
        sample,
    )
    return philox(counter, (seed & MASK32, seed >> 32))[index & 3]


LN2 = Decimal(2).ln()
TABLE = [
    int(((1 + Decimal(i) / 4096).ln() / LN2 * (1 << 30)).to_integral_value()) for i in range(4097)
]
LOG2_LOG2E = int(((1 / LN2).ln() / LN2 * (1 << 30)).to_integral_value())


def log2_q30(value):
    exponent = value.bit_length() - 1
    fraction = (value << 32 >> exponent) & MASK32
    index, rest = fraction >> 20, fraction & 0xFFFFF
    step = TABLE[index + 1] - TABLE[index]
    return (exponent << 30) + TABLE[index] + (step * rest + (1 << 19) >> 20)


def gumbel(word32):
    odd = 2 * word32 + 1
    if odd < 1 << 23:
        noise = (53 << 30) - log2_q30((odd << 20) + (odd * odd >> 14)) - LOG2_LOG2E
    else:
        noise = (30 << 30) - log2_q30((33 << 30) - log2_q30((1 << 33) - odd))
    return (noise + 128) >> 8


COEFFICIENTS = [
    float.fromhex(text)
    for text in (
        "0x1p+0",
        "0x1.62e4bap-1",
        "0x1.ebdb56p-3",
        "0x1.c91ce6p-5",
        "0x1.277854p-7",
        "0x1.e974fep-10",
    )
]


def exp2_fixed(t):
    t = max(t, -63.0)
    whole = math.floor(t)
    fraction = f32(t - whole)
    value = COEFFICIENTS[-1]
    for coefficient in reversed(COEFFICIENTS[:-1]):
        value = f32(f32(value * fraction) + coefficient)
    return int(value * (1 << 30)) >> -whole


def order(x, ids):
    """Ids by logit descending, then id; Python compares -0 and +0 as equal."""
    return sorted(ids, key=lambda i: (-x[i], i))


def process(logits, params, allowed, prompt, output, banned_now):
    x = {i: float(v) for i, v in enumerate(logits)}
    rho = f32(params.repetition_penalty)
    frequency, presence = f32(params.frequency_penalty), f32(params.presence_penalty)
    for i in set(prompt) | set(output):
        if params.repetition_penalty != 1.0:
            x[i] = f32(x[i] / rho) if x[i] > 0 else f32(x[i] * rho)
        count = output.count(i)
        if params.frequency_penalty or params.presence_penalty:
            lowered = f32(f32(frequency * count) + f32(presence * (count > 0)))
            x[i] = f32(x[i] - lowered)
    for i, bias in params.logit_bias:
        x[i] = f32(x[i] + f32(bias))
    refused = {*params.banned, *banned_now}
    return x, [
        i for i in x if i not in refused and (allowed is None or i in allowed) and x[i] > -math.inf
    ]


def cut(x, kept, params):
    """Survivors of top-k, top-p and min-p, as a set."""
    scale = f32(math.log2(math.e) / params.temperature)
    kept = order(x, kept)
    top = x[kept[0]]
    weight = {i: exp2_fixed(f32(f32(x[i] - top) * scale)) for i in kept}
    if params.top_k:
        kept = kept[: params.top_k]
    if params.top_p < 1:
        fraction = round(params.top_p * (1 << 24))
        need = max(1, -(-fraction * sum(weight[i] for i in kept) // (1 << 24)))
        reached = 0
        for n, i in enumerate(kept):
            reached += weight[i]
            if reached >= need:
                kept = kept[: n + 1]
                break
    least = math.ceil(params.min_p * (1 << 30))
    return {i for i in kept if weight[i] >= least}


def draw(logits, params, position, allowed=None, prompt=(), output=(), banned_now=()):
    """Token, or None where nothing is allowed, or "numeric"."""
    if any(math.isnan(v) or v == math.inf for v in logits):
        return "numeric"
    x, kept = process(logits, params, allowed, prompt, list(output), banned_now)
    if any(x[i] == math.inf for i in kept):
        return "numeric"
    if not kept:
        return None
    if params.temperature < 1e-4:
        return order(x, kept)[0]
    scale = f32(math.log2(math.e) / params.temperature)

    def score(i):
        noise = gumbel(word(params.seed, position, 0, i, params.sample))
        t = f32(x[i] * scale)
        if math.isinf(t):
            # Beyond float32 all scores count as equal.
            return int(math.copysign(1 << 200, t)) + noise
        # Python rounds halves to even, as the contract asks.
        return round(t * (1 << 22)) + noise

    return min(cut(x, kept, params), key=lambda i: (-score(i), i))
