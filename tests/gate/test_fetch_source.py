"""fetch-source, and with whose token commands clone: a git server that wants one, beside the GitHub that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.errors import GateError
from shardlib.gate.clone_options import belongs
from tests.cluster.git_server import serve
from tests.gate.github_server import USER_TOKEN, GitHubServer
from tests.repositories import git, make_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


@pytest.fixture
def asking(server: GitHubServer, checkout: Path) -> Iterator[list[str]]:
    """Options by which a command clones as GitHub's App or user may: the git server takes GitHub's tokens alone."""
    with serve(checkout.parents[1], "127.0.0.1", tokens=server.tokens) as url:
        yield [f"--clone={url}", "--repository=org/training", f"--github-api={server.url}"]


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def test_the_source_is_fetched_as_the_app(
    server: GitHubServer, asking: list[str], checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha, folder = git(checkout, "rev-parse", "HEAD"), server.write_credentials(tmp_path / "credentials", app=True)
    argv = ["fetch-source", *asking, f"--credentials={folder}", f"--sha={sha}", "-o", str(tmp_path / "source")]
    assert cli.main(argv) == 0
    assert (tmp_path / "source" / "docs" / "page.md").read_text() == "2"
    (token,) = set(server.tokens) - {USER_TOKEN}
    told = capsys.readouterr()
    assert token not in told.out + told.err
    assert not any(token.encode() in path.read_bytes() for path in (tmp_path / "source").rglob("*") if path.is_file())


def test_changed_files_are_read_with_a_persons_token(
    server: GitHubServer, asking: list[str], checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha, folder = git(checkout, "rev-parse", "HEAD"), server.write_credentials(tmp_path / "credentials")
    argv = ["find-changed", *asking, f"--credentials={folder}", f"--head={sha}"]
    assert cli.main(argv) == 0
    assert "1 files changed" in capsys.readouterr().out
    assert server.requests == []  # without --label nothing is asked


def test_a_token_of_its_own_wins(
    server: GitHubServer, asking: list[str], checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["fetch-source", *asking, "--sha", git(checkout, "rev-parse", "HEAD"), "-o", str(tmp_path / "source")]
    assert cli.main(argv) == 11  # --credentials are missing
    monkeypatch.setenv("SHARDLIB_GIT_TOKEN", USER_TOKEN)
    assert cli.main(argv) == 0


def test_credentials_that_github_refuses_are_said_so(
    server: GitHubServer, asking: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = server.write_credentials(tmp_path / "credentials", app=True)
    server.fault("/app/installations/.*", status=401, body=b"{}", times=None)
    argv = ["fetch-source", *asking, f"--credentials={folder}", f"--sha={'a' * 40}", "-o", str(tmp_path / "source")]
    assert cli.main(argv) == GateError.exit_code
    assert "no token for app" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--sha=HEAD"], ["--repository=../x"], ["--clone=https://me:secret@example.com"]])
def test_what_is_no_commit_or_repository_is_refused(
    asking: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    argv = ["fetch-source", *asking[:2], f"--sha={'a' * 40}", "-o", str(tmp_path / "source"), *option]
    assert cli.main(argv) == 11
    told = capsys.readouterr().err
    assert option[0].partition("=")[0] in told
    assert "secret" not in told
    assert not (tmp_path / "source").exists()


@pytest.mark.parametrize(
    ("api", "clone", "expected"),
    [
        ("https://api.github.com", "https://github.com", True),
        ("https://ghe.example.com/api/v3", "https://ghe.example.com", True),
        ("https://api.acme.ghe.com", "https://acme.ghe.com", True),
        ("https://api.github.com", "https://mirror.example.com", False),
        ("https://api.github.com", "http://github.com", False),
        ("https://api.github.com", "https://github.com.example.com", False),
        ("https://api.github.com", "https://hub.com", False),
        ("https://api.github.com", "file:///srv/git", False),
    ],
)
def test_a_token_goes_to_the_server_that_it_is_for(api: str, clone: str, expected: bool) -> None:
    assert belongs(api, clone) is expected
