"""Runs the sampler's kernels where there is no GPU: Triton's interpreter, and a faster call path.

Import this before any kernel: the interpreter is chosen when kernels are defined.
"""

import os

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"

from triton.runtime import interpreter  # noqa: E402 - after the choice above

_patched_modules = set()


def _call(self, *args, **kwargs):
    # The interpreter patches the language anew at every call of a device function, which costs a
    # millisecond; once per defining module is enough.
    module = self.fn.__module__
    if module not in _patched_modules:
        interpreter._patch_lang(self.fn)
        _patched_modules.add(module)
    return self.rewrite()(*args, **kwargs)


interpreter.InterpretedFunction.__call__ = _call
