"""Numerical kernels: the NumPy sampler (`sampling`) and the CPU tensor ops (`ops`).

The package itself imports nothing heavy: `deepinfer_kernels.sampling` needs NumPy only,
`deepinfer_kernels.ops` needs torch.
"""
