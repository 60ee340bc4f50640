"""Copies from the host to a device that nobody waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def upload(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """A copy of an array on a device, enqueued on the current stream.

    The array may change or go away at once. Memory that is not pinned would make the host wait for
    what the device is doing.
    """
    host = torch.from_numpy(np.ascontiguousarray(values))
    if device.type != "cuda":
        return host.clone()
    return host.pin_memory().to(device, non_blocking=True)
