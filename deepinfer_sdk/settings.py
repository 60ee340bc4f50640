"""Everything the environment decides, in one place.

Knows no model and no network. Each field is also an argument somewhere in the API.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from .errors import InvalidArgument

ProgressMode = Literal["auto", "off"]


class Settings(BaseModel):
    """Defaults taken from the environment.

    Attributes:
        cache_dir: Where models are kept: ``$XDG_CACHE_HOME/deepinfer_sdk`` or
            ``~/.cache/deepinfer_sdk``.
        offline: Never use the network (``DEEPINFER_OFFLINE`` or ``HF_HUB_OFFLINE``).
        progress: ``"off"`` hides progress lines (``DEEPINFER_PROGRESS``).
    """

    model_config = ConfigDict(frozen=True)

    cache_dir: Path
    offline: bool = False
    progress: ProgressMode = "auto"

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the environment now; nothing is remembered between calls."""
        base = os.environ.get("XDG_CACHE_HOME")
        root = Path(base) if base else Path.home() / ".cache"
        offline = any(_is_on(name) for name in ("DEEPINFER_OFFLINE", "HF_HUB_OFFLINE"))
        progress = os.environ.get("DEEPINFER_PROGRESS", "auto")
        if progress == "auto":
            mode: ProgressMode = "auto"
        elif progress == "off":
            mode = "off"
        else:
            raise InvalidArgument(
                f"DEEPINFER_PROGRESS is {progress!r}, which is not a mode",
                hint=f"Use one of {', '.join(get_args(ProgressMode))}",
            )
        return cls(cache_dir=root / "deepinfer_sdk", offline=offline, progress=mode)


def let_idle_threads_sleep() -> None:
    """Make processor threads that wait for work sleep instead of spinning.

    Spinning ones fight with every other busy program: generating was measured to be 30 times
    slower on a busy machine. Works until the first parallel operation; ``OMP_WAIT_POLICY`` from
    outside is respected.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}
