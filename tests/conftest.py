"""Hypothesis profiles, and the marker for tests that need a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the machines are shared. Derandomized, so that a red build repeats; `thorough` looks for new cases.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2000)
# Our tests start pytests that must not think they were workers of the one that runs us.
for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
    os.environ.pop(name, None)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real_gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU on this machine")
