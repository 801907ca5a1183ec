"""What fits weights needs numpy, which the tests on old and new interpreters do without."""

from __future__ import annotations

from importlib.util import find_spec

NEEDS_NUMPY = [
    "test_fit.py",
    "test_matrix.py",
    "test_propose.py",
    "test_suspects.py",
    "test_usable.py",
    "test_steps.py",
]
collect_ignore = [] if find_spec("numpy") else NEEDS_NUMPY
