"""Writes checks to GitHub: one check run for a commit and a name is shown, and `checkruns` says whose report stands.

An open check run is updated. One that is completed is left as it is, since GitHub takes no way back and never removes an
annotation, and a new one of the same name comes into its place. Nothing here is atomic: two workflows of one commit that
write in the same moment may both be shown for a while; whichever check run has the higher id is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from shardlib.errors import GateError
from shardlib.fields import Fields
from shardlib.gate.checkruns import Check, Shown, Subject, annotation_bodies, body
from shardlib.gate.credentials import App, read_credentials
from shardlib.gate.github import GitHub, connect

MAX_CHECK_RUNS = 1000  # GitHub deletes the older ones of a name itself

_EVER = datetime.min.replace(tzinfo=timezone.utc)
_MAX_ID = 2**63


def report(api_url: str, credentials: Path, subject: Subject, decide: Callable[[Shown | None], Check | None]) -> str:
    """Lets GitHub show the check that `decide` makes of the one that is shown, if any; returns what was done.

    Raises:
        UsageError: the address or the credentials are none.
        GateError: GitHub refuses, or its answer is malformed.
        InfrastructureError: it is down.
    """
    github = connect(api_url, credentials)
    before = shown(github, subject, app_id=app_id(credentials))
    check = decide(before)
    if check is None:
        return f"check {subject.name} of {subject.sha[:12]}: stays as it is"
    return publish(github, subject, check, before)


def app_id(credentials: Path) -> str | None:
    """Returns the number of the App that the credentials are of, by which GitHub tells its check runs; None without."""
    found = read_credentials(credentials)
    return found.app_id if isinstance(found, App) and found.app_id.isdigit() else None


def shown(github: GitHub, subject: Subject, *, app_id: str | None = None) -> Shown | None:
    """Returns the check run that GitHub shows for the subject's commit and name now, whoever wrote it; None if none.

    Args:
        github: the client.
        subject: what is asked for.
        app_id: the number of the App whose check runs are meant; without it, all of them.

    Raises:
        GateError: GitHub refuses, or its answer is malformed.
        InfrastructureError: it is down.
    """
    found = _all(github, subject.repository, subject.sha, subject.name, app_id)
    return max(found, key=lambda one: one.id, default=None)


def is_reported(github: GitHub, repository: str, sha: str, name: str, *, app_id: str | None = None) -> bool:
    """Returns whether any workflow of ours has ever reported on a commit; arguments and errors as in `shown`."""
    return any(one.uid for one in _all(github, repository, sha, name, app_id))


def publish(github: GitHub, subject: Subject, check: Check, before: Shown | None) -> str:
    """Lets GitHub show the check, unless another workflow's stands (`Shown.stands`); returns what was done, in one line.

    Args:
        github: the client.
        subject: the commit and the workflow.
        check: what to say.
        before: what is shown now.

    Raises:
        GateError: GitHub refuses, or its answer is malformed. Annotations that it refuses are only told of.
        InfrastructureError: it is down.
    """
    told = f"check {subject.name} of {subject.sha[:12]}"
    if before is not None and before.stands(subject, check):
        return f"{told}: left as it is: what workflow {before.uid} reports on this commit stands"
    if before is not None and before.says(subject, check):
        return f"{told}: says so already: {check.title}"
    path = f"/repos/{subject.repository}/check-runs"
    request = body(subject, check)
    if before is not None and before.conclusion is None:
        del request["head_sha"]  # which an update cannot change
        path = f"{path}/{before.id}"
        github.patch(path, request)
    else:
        path = f"{path}/{Fields(github.post(path, request), path, GateError).integer('id', 1, _MAX_ID)}"
    try:
        for request in annotation_bodies(check):
            github.patch(path, request)
    except GateError as err:
        return f"{told}: {check.title}; not all annotations: {err}"
    return f"{told}: {check.title}"


def _all(github: GitHub, repository: str, sha: str, name: str, app_id: str | None) -> Iterator[Shown]:
    path = f"/repos/{repository}/commits/{sha}/check-runs"
    query = {"check_name": name, "filter": "all", **({"app_id": app_id} if app_id else {})}
    return (_read(item, path) for item in github.pages(path, items="check_runs", most=MAX_CHECK_RUNS, **query))


def _read(value: object, where: str) -> Shown:
    fields = Fields(value, f"{where}: check run", GateError)
    identity = fields.integer("id", 1, _MAX_ID)
    completed = fields.text("status", most=50) == "completed"
    output = Fields(fields.raw("output") or {}, f"{where}: output of check run {identity}", GateError)
    return Shown(
        id=identity,
        external_id=fields.text("external_id", most=1000, empty=True) if fields.has("external_id") else "",
        started=_time(fields, "started_at") if fields.has("started_at") else _EVER,
        conclusion=fields.text("conclusion", most=50) if completed else None,
        title=output.text("title", empty=True) if output.has("title") else "",
        summary=output.text("summary", empty=True) if output.has("summary") else "",
    )


def _time(fields: Fields, key: str) -> datetime:
    text = fields.text(key, most=50)
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 takes no Z
    except ValueError as err:
        raise fields.wrong(key, text, "a time") from err
    if time.tzinfo is None:
        raise fields.wrong(key, text, "a time with its zone")
    return time
