"""Concludes the checks that workflows left open: `argo terminate` runs no exit handler, and one may have failed.

So may a retry's: then a check still says failure, though its workflow has become green.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from shardlib.errors import GateError
from shardlib.gate import checks
from shardlib.gate.checkruns import Check, Conclusion, Shown, Subject
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

    Of each commit the run is looked at whose check is shown, or the newest if none is; and only if it has finished: Argo
    says so after the exit handler's end.

    Args:
        github: the client.
        runs: the workflows there are, in any order.
        subject: what a run's check is about.
        since: runs that finished earlier were swept before, so that old ones cost no requests.
        app_id: as in `publishing.shown`.

    Raises:
        InfrastructureError: GitHub is down.
    """
    for group in by_commit(runs):
        newest = group[-1]
        if not any(run.finished is not None and run.finished >= since for run in group):
            continue
        try:
            before = shown(github, subject(newest), app_id=app_id)
            run = next((run for run in group if before is not None and run.uid == before.uid), newest)
            check = left_open(run, before) if run.phase.finished else None
            if check is not None:
                yield Swept(line=f"{run.name}: {publish(github, subject(run), check, before)}")
        except GateError as err:  # the next one may be of another repository
            yield Swept(line=f"{newest.name}: {err}", refused=True)


def by_commit(runs: Iterable[Run]) -> list[list[Run]]:
    """Returns the runs of each commit, the newest last."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.age_key):
        found.setdefault((run.repository.lower(), run.sha), []).append(run)
    return list(found.values())


def left_open(run: Run, before: Shown | None) -> Check | None:
    """Returns what to say of a finished run whose check is open, was never made, or says less than the run came to.

    None if it says all. A check that is this workflow's and not of before its gate was opened by its gate, for this
    commit. So the workflow's own phase says the rest: it succeeds only after the verdict was green.
    """
    if before is None or before.external_id != run.uid:
        return checks.unreported() if before is None or before.conclusion is None else None
    mended = run.phase is Phase.SUCCEEDED and before.conclusion != Conclusion.SUCCESS and before.behind_gate
    if before.conclusion is not None and not mended:
        return None
    if run.phase is Phase.SUCCEEDED:
        return checks.passed_unseen()
    return checks.cancelled() if run.stopped else checks.unproved(f"the workflow ended as {run.phase.value}")
