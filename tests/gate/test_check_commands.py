"""`shardlib check` and `shardlib conclude`: what GitHub shows after each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shardlib import cli
from shardlib.errors import UsageError
from tests.gate.github_server import GitHubServer
from tests.gate.github_state import sha
from tests.gate.reported import HEAD, runs
from tests.runs import attempt_body, finish, make_plan, write_run


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
