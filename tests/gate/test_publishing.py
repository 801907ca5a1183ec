"""Checks written to GitHub over HTTP: which check run is shown afterwards, whatever fails on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from shardlib.errors import GateError, InfrastructureError
from shardlib.gate import checks
from shardlib.gate.annotations import Annotation
from shardlib.gate.checkruns import (
    Check,
    Subject,
)
from shardlib.gate.github import GitHub, connect
from shardlib.gate.publishing import publish, shown
from tests.gate import github_checks
from tests.gate.github_server import APP_SLUG, GitHubServer
from tests.gate.reported import GREEN, HEAD, OLDER, RED, SUBJECT, runs


@pytest.fixture
def github(server: GitHubServer, secret: Path) -> GitHub:
    """A client that does not sleep, so that what is retried is retried at once."""
    return connect(server.url, secret, sleep=lambda _: None)


def say(github: GitHub, check: Check, subject: Subject = SUBJECT) -> str:
    return publish(github, subject, check, shown(github, subject))


def asked(server: GitHubServer, *methods: str) -> list[str]:
    return [request for request in server.requests if request.split()[0] in methods and "access_tokens" not in request]


def test_an_open_check_is_updated_and_a_completed_one_replaced(server: GitHubServer, github: GitHub) -> None:
    assert say(github, checks.waiting("run-gpu-tests")).endswith(": Waiting for the label run-gpu-tests")
    say(github, checks.running())
    say(github, GREEN)
    assert [(run["status"], run["conclusion"], run["external_id"]) for run in runs(server)] == [
        ("completed", "action_required", "uid-1"),
        ("completed", "success", "uid-1"),
    ]
    assert len(asked(server, "POST")) == 2
    assert len(asked(server, "PATCH")) == 1


@pytest.mark.parametrize("check", [checks.waiting("l"), checks.not_needed(), checks.running(), RED])
def test_saying_the_same_again_changes_nothing(server: GitHubServer, github: GitHub, check: Check) -> None:
    say(github, check)
    before = runs(server)
    assert "says so already" in say(github, check)
    assert runs(server) == before


def test_the_same_title_with_another_report_is_news(server: GitHubServer, github: GitHub) -> None:
    say(github, RED)
    say(github, replace(RED, summary="other tests"))
    assert [run["output"]["summary"] for run in runs(server)] == ["", "other tests"]


def test_an_older_workflows_late_end_leaves_a_newer_ones_check_alone(server: GitHubServer, github: GitHub) -> None:
    say(github, checks.running(), OLDER)
    say(github, GREEN)
    assert "what workflow uid-1 reports on this commit stands" in say(github, RED, OLDER)
    assert [(run["external_id"], run["conclusion"]) for run in runs(server)] == [("uid-1", "success")]


def test_a_newer_workflow_takes_over_an_open_check(server: GitHubServer, github: GitHub) -> None:
    say(github, checks.running(), OLDER)
    say(github, checks.running())
    assert [(run["external_id"], run["conclusion"]) for run in runs(server)] == [("uid-1", None)]


@pytest.mark.parametrize("verdict", [checks.running(), GREEN, RED])
def test_another_pull_request_of_the_same_commit_takes_no_verdict_away(
    server: GitHubServer, github: GitHub, verdict: Check
) -> None:
    say(github, checks.waiting("l"), OLDER)
    say(github, checks.waiting("l"))  # somebody's copy
    say(github, checks.running(), OLDER)  # whose workflow is the older one, and let pass
    say(github, verdict, OLDER)
    for check in (checks.waiting("l"), checks.refused("r"), checks.expired("l"), checks.unreported()):
        assert "what workflow uid-0 reports on this commit stands" in say(github, check)
    assert runs(server)[-1]["conclusion"] == (verdict.conclusion and verdict.conclusion.value)
    assert runs(server)[-1]["external_id"] == "uid-0"


def test_120_annotations_take_three_requests_after_the_conclusion(server: GitHubServer, github: GitHub) -> None:
    some = tuple(Annotation(path="a.py", line=index + 1, title="t", message="m") for index in range(120))
    say(github, checks.running())
    say(github, replace(RED, annotations=some))
    (run,) = runs(server)
    assert (run["conclusion"], run["output"]["annotations_count"]) == ("failure", 120)
    assert len(asked(server, "PATCH")) == 4
    assert [entry["start_line"] for entry in server.state.annotations[run["id"]]] == list(range(1, 121))


def test_a_retried_run_does_not_add_its_annotations_to_the_old_ones(server: GitHubServer, github: GitHub) -> None:
    some = (Annotation(path="a.py", line=1, title="t", message="m"),)
    say(github, checks.running())
    say(github, replace(RED, annotations=some))
    say(github, replace(RED, annotations=some, summary="again"))
    assert [run["output"]["annotations_count"] for run in runs(server)] == [1, 1]


def test_annotations_that_github_refuses_do_not_keep_the_check_open(server: GitHubServer, github: GitHub) -> None:
    bad = Annotation(path="a.py", line=0, title="t", message="m")
    say(github, checks.running())
    told = say(github, replace(RED, annotations=(bad,)))
    assert "not all annotations: PATCH" in told
    assert runs(server)[0]["conclusion"] == "failure"


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_fails_and_then_works_is_asked_again(server: GitHubServer, github: GitHub, status: int) -> None:
    server.fault("/repos/.*", status=status, times=3)
    say(github, checks.running())
    say(github, GREEN)
    assert runs(server)[-1]["conclusion"] == "success"


def test_a_creation_that_arrived_twice_does_no_harm(server: GitHubServer, github: GitHub) -> None:
    server.fault("/repos/.*/check-runs", method="POST", status=502)  # after it was created
    say(github, checks.running())
    say(github, GREEN)
    assert [run["status"] for run in runs(server)] == ["in_progress", "completed"]
    listed = github_checks.listed(server.state, HEAD, {"check_name": "gpu-tests"})
    assert [run["conclusion"] for run in listed] == ["success"]


def test_rate_limits_are_waited_for(server: GitHubServer, secret: Path) -> None:
    waits: list[float] = []
    server.secondary_limit(".*/check-runs", retry_after=7)
    server.primary_limit(".*/check-runs", reset_in=100)
    say(connect(server.url, secret, sleep=waits.append), checks.running())
    assert runs(server)[0]["status"] == "in_progress"
    assert len(waits) == 2
    assert waits[0] == 7
    assert 90 < waits[1] <= 102


def test_a_github_that_stays_down_is_infrastructure(server: GitHubServer, secret: Path) -> None:
    server.fault(".*/check-runs", status=503, times=None)
    with pytest.raises(InfrastructureError):
        say(connect(server.url, secret, sleep=lambda _: None, patience_seconds=3), checks.running())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "7"}, "'id'"),
        ({"id": 0}, "'id'"),
        ({"status": None}, "'status'"),
        ({"conclusion": None}, "'conclusion'"),
        ({"started_at": "yesterday"}, "'started_at'"),
        ({"started_at": "2026-01-01T00:00:00"}, "with its zone"),
        ({"output": "x"}, "output of check run"),
    ],
)
def test_a_malformed_answer_is_refused(server: GitHubServer, github: GitHub, change: dict[str, Any], told: str) -> None:
    say(github, RED)
    answer = {"total_count": 1, "check_runs": [{**runs(server)[0], **change}]}
    server.fault(".*/commits/.*", body=json.dumps(answer).encode())
    with pytest.raises(GateError, match=told):
        shown(github, SUBJECT)


def test_a_foreign_check_run_without_our_fields_is_just_another_workflows(server: GitHubServer, github: GitHub) -> None:
    github_checks.create(server.state, {"name": "gpu-tests", "head_sha": HEAD}, APP_SLUG)
    say(github, checks.waiting("l"), replace(SUBJECT, started=datetime.now(timezone.utc)))
    assert [run["external_id"] for run in runs(server)] == ["uid-1"]


def test_another_checks_runs_are_not_touched(server: GitHubServer, github: GitHub) -> None:
    say(github, checks.running(), replace(SUBJECT, name="lint"))
    say(github, checks.waiting("l"))
    assert [(run["name"], run["status"]) for run in runs(server)] == [
        ("lint", "in_progress"),
        ("gpu-tests", "completed"),
    ]
