from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardlib import cli
from shardlib.commands import verify_gate
from shardlib.gate.github import connect
from tests.gate.github_server import USER_TOKEN, GitHubServer
from tests.gate.github_state import sha

HEAD = sha("head")
PULL = "/repos/org/training/pulls/1"
EVENTS = "/repos/org/training/issues/1/events"
SUITES = f"/repos/org/training/commits/{HEAD}/check-suites"
ACTIVITY = "/repos/org/training/activity"
PERMISSION = "/repos/org/training/collaborators/maintainer/permission"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_gate, "connect", partial(connect, sleep=lambda seconds: None))


@pytest.fixture
def argv(server: GitHubServer, tmp_path: Path) -> list[str]:
    server.state.open("feature", head=HEAD)
    folder = server.write_credentials(tmp_path / "credentials", app=True)
    options = ["--github-api", server.url, "--credentials", str(folder), "--repository", "org/training"]
    return ["verify-gate", *options, "--pr", "1", "--sha", HEAD, "--parameters", str(tmp_path / "out")]


def told(tmp_path: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}


def test_an_approved_commit_opens_and_gives_what_later_steps_use(
    server: GitHubServer, argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.state.label(1)
    assert cli.main(argv) == 0
    said = f"open: {HEAD} may run"
    assert told(tmp_path) == {"sha": HEAD, "pr": "1", "repo": "org/training", "reason": said, "summary": said}
    out = capsys.readouterr().out
    for fact in (
        "pull request 1 of org/training: open",
        f"head: {HEAD}, branch feature of org/training",
        "labels: run-gpu-tests",
        "2026-03-02T09:03:00Z  labeled by maintainer",
        "permission of maintainer now: write",
        "1 check suites of the head, the first: 2026-03-02T09:01:00Z",
        f"2026-03-02T09:01:00Z  branch branch_creation to {HEAD}",
        said,
    ):
        assert fact in out.splitlines()


def test_a_closed_gate_is_red_and_says_why_and_gives_nothing_to_run(
    server: GitHubServer, argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.state.label(1, by="reader")
    assert cli.main(argv) == 1
    assert told(tmp_path).keys() == {"reason", "summary"}
    assert told(tmp_path)["summary"].startswith("closed: the label was put by reader, whose permission is read")
    assert "closed: the label was put by reader" in capsys.readouterr().out


def test_a_fork_opens_only_by_its_option(server: GitHubServer, argv: list[str]) -> None:
    server.state.open("theirs", head=HEAD, by="stranger", repository="stranger/training")
    server.state.label(2)
    theirs = [*argv, "--pr", "2"]
    assert cli.main(theirs) == 1
    assert cli.main([*theirs, "--allow-forks"]) == 0


def test_hostile_text_reaches_neither_terminal_nor_parameters_as_it_is(
    server: GitHubServer, argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J{{=sprig.env('X')}}\n$(id)"
    pull = server.state.pulls[1]
    pull.title, pull.labels = hostile, [hostile]
    server.state.user(hostile, "read")
    server.state.label(1, by=hostile)
    pull.head_ref = hostile
    assert cli.main(argv) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(line.isprintable() for line in out.splitlines())
    assert not any(sign in value for value in told(tmp_path).values() for sign in ("{{", "\n", "\x1b"))


def test_a_github_that_fails_for_a_while_opens_in_the_end(server: GitHubServer, argv: list[str]) -> None:
    server.state.label(1)
    server.fault(PULL, status=502, body=b"", times=2)
    server.secondary_limit(EVENTS)
    server.primary_limit(SUITES)
    server.fault(ACTIVITY, hang_up=True)
    server.fault(PERMISSION, status=429, headers={"Retry-After": "3"}, body=b"{}")
    assert cli.main(argv) == 0


@pytest.mark.parametrize("path", ["/app/installations/99/access_tokens", PULL, EVENTS, SUITES, ACTIVITY, PERMISSION])
@pytest.mark.parametrize("status", [500, 403])
def test_a_github_that_stays_down_or_limits_is_infrastructure(
    server: GitHubServer, argv: list[str], tmp_path: Path, path: str, status: int
) -> None:
    server.state.label(1)
    server.fault(path, status=status, headers={"Retry-After": "400"}, body=b"", times=None)
    assert cli.main(argv) == 75
    assert told(tmp_path).keys() == {"reason", "summary"}
    assert told(tmp_path)["summary"].startswith("closed: GitHub could not be asked")


@pytest.mark.parametrize("path", [PULL, EVENTS, SUITES, ACTIVITY, PERMISSION])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"{}", b"[{}]", b"[null]", b'{"check_suites": [{}]}', b"<html>"]
)
def test_an_answer_that_is_not_as_documented_never_opens(
    server: GitHubServer, argv: list[str], tmp_path: Path, path: str, body: bytes
) -> None:
    server.state.label(1)
    server.fault(path, body=body, times=None)
    code = cli.main(argv)
    assert code == 1 if body == b"[]" and path in (EVENTS, ACTIVITY) else code == 19
    assert told(tmp_path).keys() == {"reason", "summary"}


def replaced(*keys: Any, by: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        if by is KeyError:
            del value[keys[-1]]
        else:
            value[keys[-1]] = by

    change.__name__ = f"{'.'.join(map(str, keys))}={'gone' if by is KeyError else by}"
    return change


OTHER = sha("other")
WRONG: list[Any] = [KeyError, None, 7, "x y", [], {}]
LIES: list[tuple[str, Callable[[Any], None]]] = [
    (PULL, replaced(*keys, by=by))
    for keys in (("number",), ("state",), ("labels",), ("head",), ("head", "sha"), ("head", "ref"), ("base", "repo"))
    for by in WRONG
    if keys != ("head", "ref") or by != "x y"  # which is a branch, though another: its moves are none
    if keys != ("labels",) or by != []
]
LIES += [
    (PULL, replaced("number", by=2)),
    (PULL, replaced("number", by=True)),
    (PULL, replaced("head", "sha", by=HEAD.upper())),
    (PULL, replaced("head", "sha", by=HEAD + "\n")),
    (PULL, replaced("base", "repo", "full_name", by="org/other")),
    (PULL, replaced("head", "repo", "full_name", by="../../app")),
    (PULL, replaced("labels", 0, "name", by=7)),
    (EVENTS, replaced(0, "actor", by="maintainer")),
    (EVENTS, replaced(0, "actor", by=KeyError)),
    (EVENTS, replaced(0, "actor", "id", by="1")),
    (EVENTS, replaced(0, "actor", "login", by=None)),
    (EVENTS, replaced(0, "created_at", by="2027-01-01")),
    (EVENTS, replaced(0, "created_at", by="2027-01-01T00:00:00")),
    (EVENTS, replaced(0, "created_at", by=1_900_000_000)),
    (EVENTS, replaced(0, "label", by=None)),
    (EVENTS, replaced(0, "event", by=KeyError)),
    (EVENTS, replaced(0, "id", by=-1)),
    (SUITES, replaced("check_suites", 0, "created_at", by=None)),
    (SUITES, replaced("check_suites", 0, "head_sha", by=OTHER)),
    (SUITES, replaced("check_suites", by=KeyError)),
    (ACTIVITY, replaced(0, "after", by=None)),
    (ACTIVITY, replaced(0, "ref", by="refs/heads/other")),
    (ACTIVITY, replaced(0, "timestamp", by=KeyError)),
    (ACTIVITY, replaced(0, "timestamp", by="1970-01-01T00:00:00Z")),  # no longer the newest first
    (PERMISSION, replaced("user", "id", by=1)),
    (PERMISSION, replaced("user", by=None)),
    (PERMISSION, replaced("permission", by=KeyError)),
    (PERMISSION, replaced("permission", by=["admin"])),
]


@pytest.mark.parametrize(("path", "lie"), LIES, ids=lambda value: getattr(value, "__name__", str(value).split("/")[-1]))
def test_a_field_that_is_wrong_or_missing_never_opens(
    server: GitHubServer, argv: list[str], path: str, lie: Callable[[Any], None]
) -> None:
    server.state.push("feature", OTHER)
    server.state.push("feature", HEAD)
    server.state.label(1)
    full = f"{path}?ref=refs/heads/feature" if path == ACTIVITY else path
    address, _, query = full.partition("?")
    truth = connect(server.url, USER_TOKEN).get(address, **dict([query.split("=")] if query else []))
    lie(truth)
    server.fault(path, body=json.dumps(truth).encode(), times=None)
    assert cli.main(argv) == 19


@pytest.mark.parametrize(("kind", "code"), [("branch_deletion", 0), ("push", 19)])
def test_only_a_branch_that_was_deleted_was_nowhere(
    server: GitHubServer, argv: list[str], kind: str, code: int
) -> None:
    server.state.label(1)
    (truth,) = connect(server.url, USER_TOKEN).get(ACTIVITY, ref="refs/heads/feature")
    before = {**truth, "after": None, "activity_type": kind, "timestamp": "2026-03-02T09:00:30Z"}
    server.fault(ACTIVITY, body=json.dumps([truth, before]).encode())
    assert cli.main(argv) == code
    newest = {**before, "timestamp": truth["timestamp"], "id": truth["id"] + 1}
    server.fault(ACTIVITY, body=json.dumps([newest]).encode())
    assert cli.main(argv) != 0


def test_who_is_no_user_any_more_may_not_write(server: GitHubServer, argv: list[str], tmp_path: Path) -> None:
    server.state.label(1)
    server.fault(PERMISSION, status=404, body=b'{"message": "maintainer is not a user"}')
    assert cli.main(argv) == 1
    assert "whose permission is none" in told(tmp_path)["summary"]


@pytest.mark.parametrize("permission", ["none", "read", "triage", "Write", "owner", "writer"])
def test_only_known_permissions_open(server: GitHubServer, argv: list[str], permission: str) -> None:
    server.state.label(1)
    maintainer = server.state.users["maintainer"]
    body = {"permission": permission, "user": {"login": "maintainer", "id": maintainer.id, "type": "User"}}
    server.fault(PERMISSION, body=json.dumps(body).encode())
    assert cli.main(argv) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--sha", HEAD[:39]), ("--sha", "HEAD"), ("--pr", "1/../2"), ("--repository", "org/x/y"), ("--github-api", "x")],
)
def test_questions_that_are_not_exact_are_refused_before_anything_is_sent(
    server: GitHubServer, argv: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*argv, option, value]) == 11
    assert option in capsys.readouterr().err
    assert server.requests == []


def test_no_output_ever_holds_a_token(
    server: GitHubServer, argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.write_credentials(tmp_path / "credentials")
    server.fault(PULL, status=401, body=json.dumps({"message": f"bad token {USER_TOKEN}"}).encode())
    assert cli.main(argv) == 19
    assert USER_TOKEN not in "".join([*capsys.readouterr(), *told(tmp_path).values()])
