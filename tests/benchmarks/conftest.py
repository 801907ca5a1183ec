"""What compares weights needs numpy, which the tests on old and new interpreters do without."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("numpy") else ["test_weights.py"]
