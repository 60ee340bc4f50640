"""Kernels in Triton: the fused sampler and what it reads on the device.

The same sources run compiled on a GPU and, under Triton's interpreter, on a CPU.
"""
