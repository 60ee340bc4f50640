"""The checker of row invariance: bits of a row must not depend on the rows around it."""

import numba
import numpy as np
from deepinfer_kernels.cpu import set_threads

COUNTS = (1, 2, 3, 17, 64, 257)


def assert_row_invariant(op, x, seed=0):
    """`op` maps float32 [R, ...] to [R, ...]; compares subsets in three orders with one full call.

    Args:
        op: called with `x[rows]` and `rows`, so that per-row arguments can follow.
        x: the 257 input rows.
    """
    full = op(x, np.arange(len(x)))
    rng = np.random.default_rng(seed)
    for count in COUNTS:
        for _ in range(3):
            rows = rng.permutation(len(x))[:count]
            part = op(np.ascontiguousarray(x[rows]), rows)
            different = np.flatnonzero((part.view(np.int32) != full[rows].view(np.int32)).any(-1))
            assert not len(different), (
                f"rows {rows[different]} of {count} differ from the full call"
            )


def rows_of(width, seed=0, count=257):
    """Rows of mixed size: ordinary, tiny, large, and with exact zeros."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, width)).astype(np.float32)
    x[1::5] *= np.float32(1e-40)
    x[2::5] *= np.float32(1e6)
    x[3::5, ::3] = 0
    return x


def assert_independent_of_threads(op):
    """`op` takes no arguments; runs it with every number of threads up to four."""
    before = numba.get_num_threads()
    most = int(numba.config.NUMBA_NUM_THREADS)
    results = []
    try:
        for threads in range(1, min(most, 4) + 1):
            set_threads(threads)
            results.append(op())
    finally:
        set_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
