"""What tests of checks report on, and what GitHub then has."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from shardlib.gate.checkruns import (
    Check,
    Conclusion,
    Subject,
)
from tests.gate import github_checks
from tests.gate.github_server import GitHubServer
from tests.gate.github_state import sha

HEAD = sha("feature")
STARTED = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
SUBJECT = Subject(repository="org/training", sha=HEAD, name="gpu-tests", uid="uid-1", started=STARTED, url="http://a/b")
OLDER = replace(SUBJECT, uid="uid-0", started=STARTED - timedelta(hours=1))
GREEN = Check(conclusion=Conclusion.SUCCESS, title="GREEN", summary="")
RED = Check(conclusion=Conclusion.FAILURE, title="RED", summary="")


def runs(server: GitHubServer) -> list[dict[str, Any]]:
    """The commit's check runs, oldest first."""
    return [github_checks.shape(server.state, run) for _, run in sorted(server.state.check_runs.items())]
