"""Fixtures of the SDK tests: a session on the tiny model, and one on the embedded model."""

import os
import sys
from collections.abc import Iterator

import pytest

from deepinfer_sdk import Session
from deepinfer_sdk.testing import FakeSession


@pytest.fixture(scope="session")
def shared_session() -> Iterator[FakeSession]:
    with FakeSession() as session:
        yield session


@pytest.fixture
def session(shared_session: FakeSession) -> Iterator[FakeSession]:
    """The tiny model; afterwards nothing may be left running."""
    yield shared_session
    assert_idle(shared_session)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Session]:
    with Session() as session:
        yield session


@pytest.fixture
def environment() -> dict[str, str]:
    """For a process of its own: it finds the packages where this one found them."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def assert_idle(session: Session) -> None:
    """The session still answers, and its engine holds no other request."""
    answer = session.generate("still there?", schema=int)
    assert isinstance(answer.value, int)
    stats = session.stats()
    assert stats.running + stats.waiting <= 1, "a request was left behind"
