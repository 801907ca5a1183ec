"""Concludes the checks that workflows left open: `argo terminate` runs no exit handler, and one may have failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from shardlib.errors import GateError
from shardlib.gate import checks
from shardlib.gate.checks import Check, Shown, Subject
from shardlib.gate.github import GitHub
from shardlib.gate.publishing import publish, shown
from shardlib.gate.runs import Phase, Run


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What was done about a run, in one line; `refused` if GitHub did not let it."""

    line: str
    refused: bool = False


def sweep(
    github: GitHub,
    runs: Iterable[Run],
    subject: Callable[[Run], Subject],
    *,
    since: datetime,
    app_id: str | None = None,
) -> Iterator[Swept]:
    """Yields what it did for each check that it concludes, or cannot.

    Of each commit only the newest run is looked at, and only if it has finished: Argo says so after the exit handler's end.

    Args:
        github: the client.
        runs: the workflows there are, in any order.
        subject: what a run's check is about.
        since: runs that finished earlier were swept before, so that old ones cost no requests.
        app_id: as in `publishing.shown`.

    Raises:
        InfrastructureError: GitHub is down.
    """
    for run in newest(runs):
        if not run.phase.finished or run.finished is None or run.finished < since:
            continue
        about = subject(run)
        try:
            before = shown(github, about, app_id=app_id)
            check = left_open(run, before)
            if check is not None:
                yield Swept(line=f"{run.name}: {publish(github, about, check, before)}")
        except GateError as err:  # the next one may be of another repository
            yield Swept(line=f"{run.name}: {err}", refused=True)


def newest(runs: Iterable[Run]) -> list[Run]:
    """Returns the newest run of each commit."""
    found: dict[tuple[str, str], Run] = {}
    for run in sorted(runs, key=lambda run: run.age_key):
        found[run.repository.lower(), run.sha] = run
    return list(found.values())


def left_open(run: Run, before: Shown | None) -> Check | None:
    """Returns what to say of a finished run whose check is open or was never made; None if it is concluded.

    A check that is open and this workflow's was opened by its gate, for this commit. So the workflow's own phase says the
    rest: it succeeds only after the verdict was green.
    """
    if before is not None and before.conclusion is not None:
        return None
    if before is None or before.external_id != run.uid:
        return checks.unreported()
    if run.phase is Phase.SUCCEEDED:
        return checks.passed_unseen()
    return checks.cancelled() if run.stopped else checks.unproved(f"the workflow ended as {run.phase.value}")
