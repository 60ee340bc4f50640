"""Say clearly which Python is needed; runs on any Python 3."""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    found = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(
        "deepinfer_sdk needs Python 3.11, 3.12 or 3.13, and "
        + sys.executable
        + " is "
        + found
        + "\n"
        "  -> Name another one: make PYTHON=python3.12 " + " ".join(sys.argv[1:])
    )
