"""What find-changed says of the label; the rest of the command is tested in tests/commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.gate import github
from tests.gate.github_server import GitHubServer
from tests.repositories import commit, git

PULL = "/repos/org/training/pulls/1"


@pytest.fixture
def head(tmp_path: Path) -> str:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, {"a": "1"})
    git(folder, "checkout", "--quiet", "-b", "feature")
    return commit(folder, {"kernel.cu": "1"})


@pytest.fixture
def argv(server: GitHubServer, tmp_path: Path, head: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(github, "connect", partial(github.connect, sleep=lambda seconds: None))
    server.state.open("feature", head=head)
    folder = server.write_credentials(tmp_path / "credentials")
    options = ["--checkout", str(tmp_path / "checkout"), "--head", head, "--repository", "org/training", "--pr", "1"]
    asking = ["--github-api", server.url, "--credentials", str(folder), "--label", "run-gpu-tests"]
    return ["find-changed", *options, *asking, "--parameters", str(tmp_path / "out")]


def labelled(tmp_path: Path) -> str:
    return (tmp_path / "out" / "labelled").read_text()


def test_an_approved_head_need_not_wait(server: GitHubServer, argv: list[str], tmp_path: Path) -> None:
    server.state.label(1)
    assert cli.main(argv) == 0
    assert labelled(tmp_path) == "true"


def test_no_label_waits_and_says_what_for(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 0
    assert labelled(tmp_path) == "false"
    assert "waits for the label: the label run-gpu-tests is not there" in capsys.readouterr().out


def test_a_label_from_before_the_last_push_waits(
    server: GitHubServer, argv: list[str], tmp_path: Path, head: str
) -> None:
    server.state.force_push("feature", "a" * 40)
    server.state.label(1)
    server.state.force_push("feature", head)
    assert cli.main(argv) == 0
    assert labelled(tmp_path) == "false"


@pytest.mark.parametrize(
    ("status", "body"), [(500, b""), (404, b"{}"), (401, b"{}"), (200, b"<html>"), (200, b'{"labels": []}'), (302, b"")]
)
def test_what_cannot_be_read_is_no_label(
    server: GitHubServer, argv: list[str], tmp_path: Path, status: int, body: bytes
) -> None:
    server.state.label(1)
    server.fault(PULL, status=status, body=body, times=None)
    assert cli.main(argv) == 0
    assert labelled(tmp_path) == "false"


def test_without_credentials_there_is_no_label(server: GitHubServer, argv: list[str], tmp_path: Path) -> None:
    server.state.label(1)
    place = argv.index("--credentials")
    assert cli.main(argv[:place] + argv[place + 2 :]) == 0
    assert labelled(tmp_path) == "false"


@pytest.mark.parametrize("without", ["--github-api", "--parameters"])
def test_a_label_that_nobody_is_asked_for_or_told_of_is_refused(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], without: str
) -> None:
    place = argv.index(without)
    assert cli.main(argv[:place] + argv[place + 2 :]) == 11
    assert f"{without} is missing: --label needs it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_github_is_not_asked_where_no_gpu_code_changed(server: GitHubServer, argv: list[str], tmp_path: Path) -> None:
    server.state.label(1)
    assert cli.main([*argv, "--glob", "csrc/*"]) == 0
    assert labelled(tmp_path) == "false"
    assert server.requests == []
