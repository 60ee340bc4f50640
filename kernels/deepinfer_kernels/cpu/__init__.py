"""Model operations on the CPU, compiled by numba from plain loops.

Every sum runs in index order in float32 (float64 where a docstring says so), with a multiplication
and an addition that are rounded separately, and transcendental functions are our own polynomials.
So the bits of a row depend on that row alone: not on other rows, on how a sequence was chunked, on
the number of threads, or on the make of the processor. Importing this package imports numba.
"""

from .attention import attention, rope_and_store
from .elementwise import rms_norm, rope_tables, silu_mul
from .jit import set_threads
from .linear import embedding, linear
from .weight import Weight, concat_rows

__all__ = [
    "Weight",
    "attention",
    "concat_rows",
    "embedding",
    "linear",
    "rms_norm",
    "rope_and_store",
    "rope_tables",
    "set_threads",
    "silu_mul",
]
