"""A tiny model with random weights, and engines over it."""

import numba
import pytest
from deepinfer_engine import Engine, EngineConfig, load_model

from deepinfer_sdk.testing import write_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder, seed=3)
    return load_model(folder)


@pytest.fixture
def start(tiny):
    """Start engines over the tiny model; they are closed at the end."""
    engines = []

    def make(**config):
        engine = Engine(tiny, EngineConfig(threads=1, **config))
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture(autouse=True)
def one_thread():
    """Forward passes made by a test itself: threads that wait for work would slow others down."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)
