"""Threads of the processor: they sleep when idle, unless the environment says otherwise."""

import subprocess
import sys

import pytest

OPEN = """
import os
from deepinfer_sdk.testing import FakeSession
with FakeSession() as session:
    print(os.environ["OMP_WAIT_POLICY"], session.stats().requests, session.stats().running)
"""


@pytest.mark.parametrize("policy", [None, "active"])
def test_idle_threads_sleep_unless_told_otherwise(policy, environment):
    environment.pop("OMP_WAIT_POLICY", None)
    if policy is not None:
        environment["OMP_WAIT_POLICY"] = policy
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPEN],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.split()[0] == (policy or "passive")


def test_opening_a_session_warms_the_model_up_and_leaves_it_idle(environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPEN],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.split()[1:] == ["1", "0"]
    assert done.stderr == ""
