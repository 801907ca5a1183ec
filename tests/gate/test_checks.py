"""Check runs: what they say, what GitHub is sent, and whose report stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import cli
from shardlib.errors import GateError, InfrastructureError, UsageError
from shardlib.gate import checkruns, checks
from shardlib.gate.annotations import Annotation
from shardlib.gate.checkruns import (
    MAX_SUMMARY_BYTES,
    Check,
    Conclusion,
    Shown,
    Subject,
    annotation_bodies,
    body,
    bounded,
)
from shardlib.gate.github import GitHub, connect
from shardlib.gate.publishing import publish, shown
from tests.gate import github_checks
from tests.gate.github_server import APP_SLUG, GitHubServer
from tests.gate.github_state import State, sha
from tests.runs import attempt_body, finish, make_plan, write_run

HEAD = sha("feature")
STARTED = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
SUBJECT = Subject(repository="org/training", sha=HEAD, name="gpu-tests", uid="uid-1", started=STARTED, url="http://a/b")
OLDER = replace(SUBJECT, uid="uid-0", started=STARTED - timedelta(hours=1))


@pytest.fixture
def secret(server: GitHubServer, tmp_path: Path) -> Path:
    return server.write_credentials(tmp_path / "secret", app=True)


@pytest.fixture
def github(server: GitHubServer, secret: Path) -> GitHub:
    """A client that does not sleep, so that what is retried is retried at once."""
    return connect(server.url, secret, sleep=lambda _: None)


def say(github: GitHub, check: Check, subject: Subject = SUBJECT) -> str:
    return publish(github, subject, check, shown(github, subject))


def runs(server: GitHubServer) -> list[dict[str, Any]]:
    """The commit's check runs, oldest first."""
    return [github_checks.shape(server.state, run) for _, run in sorted(server.state.check_runs.items())]


def asked(server: GitHubServer, *methods: str) -> list[str]:
    return [request for request in server.requests if request.split()[0] in methods and "access_tokens" not in request]


# What the bodies are.


@given(st.text(), st.text(), st.sampled_from([None, *Conclusion]), st.booleans())
def test_github_takes_every_body(title: str, summary: str, conclusion: Conclusion | None, unreported: bool) -> None:
    check = Check(conclusion=conclusion, title=title, summary=summary, unreported=unreported)
    status, answer = github_checks.create(State(), body(SUBJECT, check), "app")
    assert (status, answer["conclusion"]) == (201, conclusion)
    assert answer["status"] == ("completed" if conclusion else "in_progress")
    assert (answer["started_at"], answer["details_url"]) == ("2026-03-02T12:00:00Z", "http://a/b")


@given(st.text(max_size=300), st.text(max_size=300))
def test_text_of_others_is_no_markdown_and_no_mention(label: str, reason: str) -> None:
    for check in (checks.waiting(label), checks.expired(label), checks.refused(reason), checks.unproved(reason)):
        outside = re.sub(r"<code>[^<>]*</code>", "", check.summary)
        assert not re.search(r"[<>@\[\]`#]|://", outside)
        assert not re.search(r"@\w|<\w|://\w", check.title)
        assert len(check.title) <= 255


@given(st.integers(0, 70_000), st.sampled_from(["x", "é", "𝄞", "word\n\n"]))
def test_a_summary_fits_whatever_it_is_of(length: int, unit: str) -> None:
    text = unit * (length // len(unit))
    cut = bounded(text)
    assert len(cut.encode()) <= MAX_SUMMARY_BYTES
    assert cut == text or cut.endswith("More is in the report's files.\n")
    assert (cut == text) is (len(text.encode()) <= MAX_SUMMARY_BYTES)


@pytest.mark.parametrize(
    ("check", "conclusion"),
    [
        (checks.not_needed(), "success"),
        (checks.waiting("l"), "action_required"),
        (checks.expired("l"), "action_required"),
        (checks.refused("r"), "action_required"),
        (checks.running(), None),
        (checks.unproved("r"), "failure"),
        (checks.unreported(), "failure"),
        (checks.cancelled(), "cancelled"),
    ],
)
def test_every_state_has_its_conclusion(check: Check, conclusion: str | None) -> None:
    assert body(SUBJECT, check).get("conclusion") == conclusion


@given(st.integers(0, 201))
def test_annotations_go_out_fifty_at_a_time_each_once_in_order(count: int) -> None:
    some = tuple(Annotation(path="a.py", line=index + 1, title="t", message="m") for index in range(count))
    check = Check(conclusion=Conclusion.FAILURE, title="t", summary="s", annotations=some)
    parts = [request["output"]["annotations"] for request in annotation_bodies(check)]
    assert all(0 < len(part) <= 50 for part in parts)
    assert [entry["start_line"] for part in parts for entry in part] == list(range(1, count + 1))
    assert "annotations" not in body(SUBJECT, check)["output"]


# Who may write what over what.


def existing(subject: Subject, check: Check) -> Shown:
    return Shown(
        id=7,
        external_id=checkruns.external_id(subject, check),
        started=subject.started,
        conclusion=check.conclusion,
        title=check.title,
        summary=check.summary,
    )


GREEN = Check(conclusion=Conclusion.SUCCESS, title="GREEN", summary="")
RED = Check(conclusion=Conclusion.FAILURE, title="RED", summary="")


@pytest.mark.parametrize(
    ("before", "end", "succeeded", "expected"),
    [
        (checks.running(), GREEN, True, GREEN),
        (checks.running(), RED, False, RED),
        (RED, GREEN, True, GREEN),  # a retry
        (
            checks.running(),
            None,
            False,
            checks.unproved("the workflow ended before the tests were planned; its red step says why"),
        ),
        (checks.not_needed(), None, True, None),
        (checks.waiting("l"), None, False, checks.expired("l")),
        (checks.refused("r"), None, False, None),
        (checks.refused("r"), GREEN, True, None),
        (checks.waiting("l"), GREEN, True, checks.expired("l")),
        (checks.expired("l"), GREEN, True, None),
        (checks.unreported(), GREEN, True, checks.unreported()),
        (None, GREEN, True, checks.unreported()),
        (None, None, True, checks.unreported()),
    ],
)
def test_a_verdict_counts_only_where_the_gate_said_that_it_runs(
    before: Check | None, end: Check | None, succeeded: bool, expected: Check | None
) -> None:
    there = None if before is None else existing(SUBJECT, before)
    assert checks.at_the_end(there, uid="uid-1", end=end, succeeded=succeeded, label="l") == expected
    if there is not None:  # and another workflow's report is none, but stays if its gate let it pass
        other = replace(there, external_id="uid-9")
        stays = None if other.behind_gate else checks.unreported()
        assert checks.at_the_end(other, uid="uid-1", end=end, succeeded=succeeded, label="l") == stays


_STATES = st.sampled_from([checks.not_needed(), checks.waiting("l"), checks.refused("r"), checks.running(), GREEN, RED])
_SUBJECTS = st.tuples(st.integers(0, 2), st.sampled_from("abc")).map(
    lambda drawn: replace(SUBJECT, started=STARTED + timedelta(seconds=drawn[0]), uid=drawn[1])
)


_SAID = st.lists(st.tuples(_SUBJECTS, _STATES), min_size=1, max_size=12).map(
    lambda said: [(replace(subject, uid=f"{subject.uid}{subject.started.second}"), check) for subject, check in said]
)


def shown_after(said: list[tuple[Subject, Check]]) -> list[Shown]:
    """What is shown after each report."""
    fake, found = _Recorder(), []
    for subject, check in said:
        publish(fake, subject, check, fake.newest())  # type: ignore[arg-type]
        shows = fake.newest()
        assert shows is not None
        found.append(shows)
    return found


@given(_SAID, st.booleans())
def test_of_reports_alike_the_newest_workflows_last_one_stands_in_whatever_order_they_come(
    said: list[tuple[Subject, Check]], behind_gate: bool
) -> None:
    said = [(subject, check) for subject, check in said if check.behind_gate is behind_gate]
    if not said:
        return
    newest = max((subject.started, subject.uid) for subject, _ in said)
    last = [check for subject, check in said if (subject.started, subject.uid) == newest][-1]
    shows = shown_after(said)[-1]
    assert (shows.uid, shows.title, shows.conclusion) == (newest[1], last.title, last.conclusion)


@given(_SAID)
def test_what_was_said_behind_a_gate_is_only_replaced_by_its_own_workflow_or_from_behind_another(
    said: list[tuple[Subject, Check]],
) -> None:
    shows = shown_after(said)
    for before, after, (subject, check) in zip(shows, shows[1:], said[1:], strict=False):
        if before.behind_gate and before.uid != subject.uid and not check.behind_gate:
            assert after == before
        if not before.behind_gate and check.behind_gate:
            assert (after.uid, after.title) == (subject.uid, check.title)


class _Recorder:
    """Keeps check runs as GitHub does, in memory: hypothesis has no time for HTTP. Completed ones stay as they are."""

    def __init__(self) -> None:
        self.state = State()

    def post(self, path: str, sent: dict[str, Any]) -> Any:
        return github_checks.create(self.state, sent, "app")[1]

    def patch(self, path: str, sent: dict[str, Any]) -> Any:
        number = int(path.rpartition("/")[2])
        assert self.state.check_runs[number]["status"] != "completed" or sent.keys() == {"output"}
        status, answer = github_checks.update(self.state, number, sent)
        assert status == 200
        return answer

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        yield from github_checks.listed(self.state, HEAD, {key: str(value) for key, value in query.items()})

    def newest(self) -> Shown | None:
        return shown(self, SUBJECT)  # type: ignore[arg-type]


# Over HTTP.


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


# The commands.


def options(server: GitHubServer, secret: Path, **changes: str) -> list[str]:
    values = {
        "github-api": server.url,
        "credentials": str(secret),
        "repository": "org/training",
        "sha": HEAD,
        "uid": "uid-1",
        "started": "2026-03-02T13:00:00+01:00",
        "url": "https://argo.example/workflows/ci/gpu-ci-1",
        **changes,
    }
    return [f"--{key.replace('_', '-')}={value}" for key, value in values.items()]


def test_each_state_is_a_command(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    reason = tmp_path / "reason"
    reason.write_text("the label was put there by @mallory, who may only read\n")
    own = options(server, secret)
    assert cli.main(["check", "--state", "waiting", "--label", "go", *own]) == 0
    assert cli.main(["check", "--state", "refused", "--reason-file", str(reason), *own]) == 0
    assert cli.main(["check", "--state", "refused", "--reason-file", str(tmp_path / "none"), *own]) == 0
    assert cli.main(["check", "--state", "not-needed", *own]) == 0
    assert cli.main(["check", "--state", "running", *own]) == 0
    assert [(run["conclusion"], run["output"]["title"]) for run in runs(server)] == [
        ("action_required", "Waiting for the label go"),
        ("action_required", "Refused: the label was put there by @\u200bmallory, who may only read"),
        ("action_required", "Refused by the gate"),
        ("success", "Not needed: no GPU code changed"),
        (None, "Running"),
    ]
    assert {run["details_url"] for run in runs(server)} == {"https://argo.example/workflows/ci/gpu-ci-1"}
    assert {run["started_at"] for run in runs(server)} == {"2026-03-02T12:00:00Z"}
    assert any("app_id=4711" in request and "filter=all" in request for request in server.requests)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sha", "main"),
        ("repository", "org/../training"),
        ("uid", "a b"),
        ("uid", ""),
        ("started", "2026-03-02T13:00:00"),
        ("started", "{{workflow.creationTimestamp}}"),
        ("url", "javascript:alert(1)"),
        ("check_name", "a\nb"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_sent(
    server: GitHubServer, secret: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = options(server, secret, **{option: value})
    assert cli.main(["check", "--state", "running", *own]) == UsageError.exit_code
    assert f"--{option.replace('_', '-')} " in capsys.readouterr().err
    assert server.requests == []


def conclude(server: GitHubServer, secret: Path, run: Path, status: str, **changes: str) -> dict[str, Any]:
    """Runs the exit handler after the gate said that it runs; returns the check run that is shown."""
    own = options(server, secret)
    assert cli.main(["check", "--state", "running", *own]) == 0
    assert cli.main(["conclude", "--run", str(run), "--status", status, *own]) == 0
    return runs(server)[-1]


def test_a_green_run_concludes_with_success_and_its_report(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "run", make_plan())
    check = conclude(server, secret, tmp_path / "run", "Succeeded")
    assert (check["conclusion"], check["output"]["title"][:13]) == ("success", "GREEN: 4 test")
    assert check["output"]["summary"].startswith("## ✅ GREEN: 4 tests")
    assert check["output"]["annotations_count"] == 0


def test_a_red_run_concludes_with_failure_and_its_tests(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    many = {f"t{index}": "failed" for index in range(230)}
    write_run(tmp_path / "run", make_plan({"01": {"a.py": [f"a.py::{name}" for name in many]}}), **many)
    check = conclude(server, secret, tmp_path / "run", "Failed")
    assert (check["conclusion"], check["output"]["title"][:4]) == ("failure", "RED:")
    assert check["output"]["annotations_count"] == 200
    assert check["output"]["summary"].endswith("\n30 more failed tests are not annotated.\n")


def test_annotations_are_at_paths_of_the_repository(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "run", make_plan(), two="failed")
    own = options(server, secret, path_prefix="python/pkg")
    cli.main(["check", "--state", "running", *options(server, secret)])
    cli.main(["conclude", "--run", str(tmp_path / "run"), "--status", "Failed", *own])
    (annotation,) = server.state.annotations[runs(server)[-1]["id"]]
    assert (annotation["path"], annotation["start_line"]) == ("python/pkg/a.py", 1)


def test_what_never_ran_is_not_proved(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", make_plan())
    (folder.path / "shards/02/results/g00003.0.json").unlink()
    check = conclude(server, secret, tmp_path / "run", "Failed")
    assert (check["conclusion"], check["output"]["title"][:19]) == ("failure", "Nothing is proved: ")


def test_a_stopped_run_is_cancelled(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path / "run", plan)
    shard = folder.shard("02")
    again = shard.start_attempt(attempt_body(plan, "02"))
    finish(shard, plan, again, end="stopped", status=75)
    check = conclude(server, secret, tmp_path / "run", "Failed")
    assert (check["conclusion"], check["output"]["title"][:9]) == ("cancelled", "Stopped: ")


@pytest.mark.parametrize("damage", ["no plan", "bad plan", "report is a link"])
def test_a_hostile_or_broken_folder_still_concludes(
    server: GitHubServer, secret: Path, tmp_path: Path, damage: str
) -> None:
    folder = write_run(tmp_path / "run", make_plan())
    plan = folder.path / "plan" / "plan.json"
    if damage == "no plan":
        plan.unlink()
    elif damage == "bad plan":
        plan.write_text(plan.read_text().replace("one", "@mallory<img>"))
    else:
        (folder.path / "report").symlink_to(tmp_path)
    own = options(server, secret)
    cli.main(["check", "--state", "running", *own])
    cli.main(["conclude", "--run", str(folder.path), "--status", "Failed", *own])
    check = runs(server)[-1]
    assert check["conclusion"] == ("success" if damage == "report is a link" else "failure")
    assert not re.search(r"@\w|<img", check["output"]["summary"])
    told = {"no plan": "no such file", "bad plan": "changed by hand", "report is a link": "GREEN"}[damage]
    assert told in re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), check["output"]["summary"])


def test_without_a_plan_nothing_is_proved(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    check = conclude(server, secret, tmp_path / "run", "Failed")
    assert (check["conclusion"], check["output"]["title"]) == ("failure", "Nothing is proved: there is no verdict")


def test_a_run_that_ends_at_its_gate_says_so(server: GitHubServer, secret: Path, tmp_path: Path) -> None:
    own = options(server, secret)
    cli.main(["check", "--state", "waiting", *own])
    assert cli.main(["conclude", "--run", str(tmp_path / "run"), "--status", "Failed", *own]) == 0
    assert [run["output"]["title"] for run in runs(server)][-1] == "Ended at the gate: nothing was run"
    assert runs(server)[-1]["conclusion"] == "action_required"


def test_a_retry_with_another_commit_brings_that_commit_no_success(
    server: GitHubServer, secret: Path, tmp_path: Path
) -> None:
    """`argo retry -p sha=...` changes what the exit handler is told, not what was tested."""
    write_run(tmp_path / "run", make_plan())
    conclude(server, secret, tmp_path / "run", "Succeeded")
    other = options(server, secret, sha=sha("evil"))
    for _ in range(2):  # what the first try leaves must not help the second
        cli.main(["conclude", "--run", str(tmp_path / "run"), "--status", "Succeeded", *other])
    found = [(run["conclusion"], run["external_id"]) for run in runs(server) if run["head_sha"] == sha("evil")]
    assert found == [("failure", "uid-1:unreported")]


def test_github_down_or_wrong_options_are_no_failure_of_the_exit_handler(
    server: GitHubServer, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", make_plan())
    server.fault("/repos/.*", status=404, times=None)
    end = ["conclude", "--run", str(tmp_path / "run"), "--status", "Succeeded"]
    assert cli.main([*end, *options(server, secret)]) == 0
    assert "the check is left as it is" in capsys.readouterr().out
    assert cli.main([*end, f"--github-api={server.url}"]) == 0
    assert "--credentials is missing" in capsys.readouterr().out
    assert (tmp_path / "run/report/end.json").exists()
