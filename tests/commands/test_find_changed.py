from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.commands.find_changed import changed_files, matching
from shardlib.errors import UsageError

HOSTILE = "src/gpu/a b\n'{{x}}\".py"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, files: dict[str, str | None], message: str = "change") -> str:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A branch that leaves main, which then goes on; ends on the branch."""
    folder = tmp_path / "served" / "org" / "training.git"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, {"src/gpu/kernel.cu": "1", "docs/page.md": "1", "src/old.py": "long enough to be a rename\n" * 9})
    git(folder, "checkout", "--quiet", "-b", "feature")
    commit(folder, {"docs/page.md": "2"})
    git(folder, "checkout", "--quiet", "main")
    commit(folder, {"src/gpu/kernel.cu": "2"})
    git(folder, "checkout", "--quiet", "feature")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "config", "uploadpack.allowFilter", "true")
    return folder


def test_only_what_the_branch_itself_changed_counts(checkout: Path) -> None:
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md",)
    commit(checkout, {"src/gpu/kernel.cu": "3"})
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md", "src/gpu/kernel.cu")


def test_a_rename_is_both_names_a_deletion_counts_and_any_name_survives(checkout: Path) -> None:
    (checkout / "src" / "old.py").rename(checkout / "src" / "new.py")
    commit(checkout, {HOSTILE: "1", "src/gpu/kernel.cu": None})
    changed = changed_files(checkout, "main", "HEAD")
    assert {"src/old.py", "src/new.py", "src/gpu/kernel.cu", HOSTILE} <= set(changed)


def test_more_files_than_an_interface_would_list_are_all_found(checkout: Path) -> None:
    commit(checkout, {f"many/{number}": "" for number in range(3500)})
    assert len(changed_files(checkout, "main", "HEAD")) == 3501


def test_a_star_crosses_folders() -> None:
    assert matching(["src/gpu/deep/a.cu", "docs/a.md"], ["src/gpu/*", "*.toml"]) == ["src/gpu/deep/a.cu"]


@pytest.mark.parametrize(("base", "head"), [("nowhere", "HEAD"), ("main", "nowhere"), ("--help", "HEAD")])
def test_unknown_revisions_are_refused_by_name(checkout: Path, base: str, head: str) -> None:
    with pytest.raises(UsageError, match=f"no merge base of '{base}' and '{head}'"):
        changed_files(checkout, base, head)


def test_a_clone_gives_the_step_its_parameters(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha = commit(checkout, {"src/gpu/kernel.cu": "4"})
    out = tmp_path / "parameters"
    served = (tmp_path / "served").as_uri()
    argv = ["find-changed", "--clone", served, "--repository", "org/training", "--head", sha, "--pr", "7"]
    assert cli.main([*argv, "--glob", "src/gpu/*", "--parameters", str(out)]) == 0
    told = {path.name: path.read_text() for path in out.iterdir()}
    assert told == {"gpu-code": "true", "sha": sha, "pr": "7", "repo": "org/training"}
    assert "2 files changed, 1 of them GPU code" in capsys.readouterr().out
    assert cli.main([*argv, "--glob", "csrc/*", "--parameters", str(out)]) == 0
    assert (out / "gpu-code").read_text() == "false"


def test_a_server_that_does_not_answer_is_infrastructure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["find-changed", "--clone", tmp_path.as_uri(), "--repository", "org/gone", "--head", "a" * 40, "--pr", "7"]
    assert cli.main([*argv, "--parameters", str(tmp_path / "out")]) == 75
    assert "git clone" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--head", "HEAD"),
        ("--head", "a" * 39),
        ("--head", "A" * 40),
        ("--head", "a" * 40 + "\n"),
        ("--repository", "org"),
        ("--repository", "../../etc/x"),
        ("--repository", "org/{{workflow.name}}"),
        ("--repository", "-org/x"),
        ("--pr", "7 "),
        ("--pr", "{{=1+1}}"),
        ("--pr", "٣"),
    ],
)
def test_values_that_go_into_manifests_are_refused_unless_exact(
    tmp_path: Path, checkout: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    values = {"--repository": "org/training", "--head": sha, "--pr": "7", option: value}
    argv = ["find-changed", "--clone", (tmp_path / "served").as_uri(), "--parameters", str(tmp_path / "out")]
    assert cli.main([*argv, *(f"{name}={given}" for name, given in values.items())]) == 11
    assert option in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
