"""The chain needs Hera, which the tests on old and new interpreters and with foreign plugins do without."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("hera") else ["test_*.py"]
