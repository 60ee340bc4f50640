"""Numerical kernels: the NumPy sampler (`sampling`) and the model operations (`cpu`).

The package itself imports nothing heavy: `deepinfer_kernels.sampling` needs NumPy only,
`deepinfer_kernels.cpu` needs numba.
"""
