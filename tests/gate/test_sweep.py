"""What is left open by workflows that ended without their exit handler is concluded, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import cli
from shardlib.gate import checks
from shardlib.gate.checkruns import Check, Conclusion, Shown, Subject
from shardlib.gate.github import connect
from shardlib.gate.publishing import publish, shown
from shardlib.gate.runs import Phase, Run
from shardlib.gate.sweeping import by_commit, left_open
from tests.gate import github_checks
from tests.gate.argo_server import TOKEN, ArgoStandIn, serving_argo
from tests.gate.github_server import GitHubServer
from tests.gate.github_state import sha

STARTED = datetime(2030, 1, 1, tzinfo=timezone.utc)
STOPPED = "Stopped with strategy 'Terminate'"
REPOSITORY = "org/training"


def a_run(uid: str = "uid-1", phase: Phase = Phase.FAILED, *, after: float = 0.0, **changes: Any) -> Run:
    started = STARTED + timedelta(seconds=after)
    run = Run(name=f"run-{uid}", uid=uid, pr="1", sha=sha("head"), repository=REPOSITORY, phase=phase, started=started)
    return replace(run, finished=started + timedelta(hours=1) if phase.finished else None, **changes)


def a_check(uid: str = "uid-1", conclusion: Conclusion | None = None) -> Shown:
    value = None if conclusion is None else conclusion.value
    return Shown(id=1, external_id=uid, started=STARTED, conclusion=value, title="", summary="")


@pytest.mark.parametrize(
    ("run", "before", "conclusion"),
    [
        (a_run(phase=Phase.SUCCEEDED), a_check(), Conclusion.SUCCESS),
        (a_run(message=STOPPED), a_check(), Conclusion.CANCELLED),
        (a_run(), a_check(), Conclusion.FAILURE),
        (a_run(phase=Phase.ERROR), a_check(), Conclusion.FAILURE),
        # What its own workflow did not open is not known to be of this commit.
        (a_run(phase=Phase.SUCCEEDED), None, Conclusion.FAILURE),
        (a_run(phase=Phase.SUCCEEDED), a_check("another"), Conclusion.FAILURE),
        (a_run(phase=Phase.SUCCEEDED), a_check("uid-1:unreported"), Conclusion.FAILURE),
    ],
)
def test_an_open_check_is_concluded_as_its_workflow_ended(
    run: Run, before: Shown | None, conclusion: Conclusion
) -> None:
    check = left_open(run, before)
    assert check is not None
    assert check.conclusion is conclusion


@pytest.mark.parametrize("conclusion", Conclusion)
@pytest.mark.parametrize("uid", ["uid-1", "another", "uid-1:unreported"])
def test_a_concluded_check_stays(conclusion: Conclusion, uid: str) -> None:
    assert left_open(a_run(), a_check(uid, conclusion)) is None


@pytest.mark.parametrize("uid", ["uid-1", "another", "uid-1:unreported"])
@pytest.mark.parametrize("conclusion", Conclusion)
def test_only_its_own_failure_is_mended_when_a_retry_was_green(conclusion: Conclusion, uid: str) -> None:
    mended = uid == "uid-1" and conclusion in (Conclusion.FAILURE, Conclusion.CANCELLED)
    expected = checks.passed_unseen() if mended else None
    assert left_open(a_run(phase=Phase.SUCCEEDED), a_check(uid, conclusion)) == expected


@given(st.permutations([a_run(uid, after=at) for uid, at in (("a", 0), ("b", 5), ("c", 5), ("d", 3))]))
def test_the_runs_of_a_commit_are_ordered_by_age_however_they_are_listed(runs: list[Run]) -> None:
    other = a_run("z", sha=sha("other"))
    named = [replace(run, repository=REPOSITORY.upper()) for run in runs[:2]]
    found = [[run.uid for run in group] for group in by_commit([*named, other, *runs[2:]])]
    assert sorted(found) == [["a", "d", "b", "c"], ["z"]]


@pytest.fixture
def argo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArgoStandIn]:
    monkeypatch.setenv("ARGO_TOKEN", TOKEN)
    with serving_argo() as running:
        yield running


class Scene:
    """A cluster and a GitHub, with one workflow for each commit."""

    def __init__(self, server: GitHubServer, argo: ArgoStandIn, secret: Path) -> None:
        self.server, self.argo, self.secret = server, argo, server.write_credentials(secret, app=True)

    def workflow(self, name: str, says: Check | None, phase: str | None, message: str = "") -> None:
        """Submits one, lets it say something on GitHub, and ends it just now, or not."""
        made = self.argo.workflows.add(name, pr="1", sha=sha(name), repo=REPOSITORY)
        if phase is not None:
            self.argo.workflows.end(name, phase, message)
            made["status"]["finishedAt"] = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        started = datetime.fromisoformat(made["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
        uid = made["metadata"]["uid"]
        about = Subject(repository=REPOSITORY, sha=sha(name), name="gpu-tests", uid=uid, started=started)
        if says is not None:
            github = connect(self.server.url, self.secret)
            publish(github, about, says, shown(github, about))

    def sweep(self, *more: str) -> int:
        where = ["--github-api", self.server.url, "--credentials", str(self.secret), "--argo-server", self.argo.url]
        return cli.main(["sweep", *where, "--namespace", "ns", "--repository", REPOSITORY, *more])

    def conclusions(self) -> dict[str, list[str | None]]:
        names = {sha(name): name for name in self.argo.workflows.items}
        found: dict[str, list[str | None]] = {}
        for _, run in sorted(self.server.state.check_runs.items()):
            shape = github_checks.shape(self.server.state, run)
            found.setdefault(names[shape["head_sha"]], []).append(shape["conclusion"])
        return found


@pytest.fixture
def scene(server: GitHubServer, argo: ArgoStandIn, tmp_path: Path) -> Scene:
    return Scene(server, argo, tmp_path / "secret")


def test_a_sweep_concludes_what_is_open_and_a_second_one_finds_nothing(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.workflow("terminated", checks.running(), "Failed", STOPPED)
    scene.workflow("crashed", checks.running(), "Error")
    scene.workflow("green", checks.running(), "Succeeded")
    scene.workflow("silent", None, "Failed")
    scene.workflow("live", checks.running(), None)
    scene.workflow("retried", checks.running(), "Failed")
    scene.argo.workflows.items["retried"]["status"]["phase"] = "Running"
    scene.workflow("waiting", checks.waiting("l"), None)
    scene.workflow("gate", checks.waiting("l"), "Failed", STOPPED)
    scene.workflow("reported", checks.unproved("x"), "Failed")
    assert scene.sweep() == 0
    expected = {
        "terminated": ["cancelled"],
        "crashed": ["failure"],
        "green": ["success"],
        "silent": ["failure"],
        "live": [None],
        "retried": [None],
        "waiting": ["action_required"],
        "gate": ["action_required"],
        "reported": ["failure"],
    }
    assert scene.conclusions() == expected
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert scene.sweep() == 0
    assert scene.conclusions() == expected
    assert capsys.readouterr().out == ""


def test_a_check_is_concluded_also_of_a_workflow_that_argo_has_archived(scene: Scene) -> None:
    for name in ("kept", "deleted", "again"):
        scene.workflow(name, checks.running(), "Failed", STOPPED)
        scene.argo.workflows.archive(name)
    del scene.argo.workflows.items["deleted"]
    scene.argo.workflows.act("again", "retry", {})  # the archive has it as it ended before
    names = {sha(name): name for name in ("kept", "deleted", "again")}
    assert scene.sweep() == 0
    found = [github_checks.shape(scene.server.state, run) for run in scene.server.state.check_runs.values()]
    assert {names[one["head_sha"]]: one["conclusion"] for one in found} == {
        "kept": "cancelled",
        "deleted": "cancelled",
        "again": None,
    }


def test_one_check_that_github_refuses_does_not_keep_the_others_open(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.workflow("first", checks.running(), "Failed")
    scene.workflow("second", checks.running(), "Failed")
    scene.server.fault(f".*/{sha('first')}/check-runs", status=404, times=None)
    assert scene.sweep() == 1
    assert scene.conclusions() == {"first": [None], "second": ["failure"]}
    assert "first: GET " in capsys.readouterr().out


def test_what_finished_long_ago_costs_no_request(scene: Scene) -> None:
    scene.workflow("old", checks.running(), "Failed")
    yesterday = datetime.now(timezone.utc) - timedelta(hours=30)
    scene.argo.workflows.items["old"]["status"]["finishedAt"] = yesterday.strftime("%Y-%m-%dT%H:%M:%SZ")
    scene.server.requests.clear()
    assert scene.sweep() == 0
    assert scene.server.requests == []
    assert scene.sweep("--hours", "48") == 0
    assert scene.conclusions() == {"old": ["failure"]}


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "1e9"])
def test_hours_are_bounded(scene: Scene, hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.sweep(f"--hours={hours}") == 11
    assert "--hours" in capsys.readouterr().err
