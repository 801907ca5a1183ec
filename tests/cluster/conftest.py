"""The fixtures need Kubernetes' client, which the tests on old and new interpreters and with foreign plugins do without."""

from __future__ import annotations

from importlib.util import find_spec

_COMPLETE = all(find_spec(name) for name in ("kubernetes", "jwt", "hera", "numba"))
collect_ignore_glob = [] if _COMPLETE else ["test_*.py"]

if _COMPLETE:
    from tests.cluster.projects import built, cluster, gated, git_url, project, served

    __all__ = ["built", "cluster", "gated", "git_url", "project", "served"]
