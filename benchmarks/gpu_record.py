"""What the GPU benchmarks record: when, where and with what, then their figures."""

import json
import platform
from datetime import UTC, datetime

import numpy as np
import torch
import triton


def new_record(subject):
    """The beginning of a record of the current device."""
    return {
        "subject": subject,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {
            "torch": torch.__version__,
            "triton": triton.__version__,
            "numpy": np.__version__,
        },
    }


def append_record(folder, record):
    """Add a record to the folder's file of JSON lines."""
    with (folder / "records.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
