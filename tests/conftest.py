"""Fixtures that tests of several packages share."""

from pathlib import Path

import pytest

from deepinfer_sdk.hub import embedded_model_path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The embedded model's file."""
    return embedded_model_path()
