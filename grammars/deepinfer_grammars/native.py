"""How the inner loops are compiled: numba, cached on disk where a folder can be written.

Knows nothing about what is compiled with it.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core.errors import NumbaWarning

# Its settings are made at run time, so checkers do not know them.
_config: Any = numba_config


def _cache_folder(source: Path) -> str:
    """A folder per version of the source file, so that an old result is never taken for it."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(base) / "deepinfer_sdk" / "compiled" / digest)


def compiled(source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: compile on first use and release the interpreter lock while running.

    Args:
        source: `__file__` of the module.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        before = _config.CACHE_DIR
        _config.CACHE_DIR = before or _cache_folder(Path(source))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NumbaWarning)
                fast: Callable[..., Any] = numba.njit(nogil=True, cache=True)(function)
        except RuntimeError:  # nowhere to write: compile in every process
            fast = numba.njit(nogil=True)(function)
        finally:
            _config.CACHE_DIR = before
        return fast

    return decorate
