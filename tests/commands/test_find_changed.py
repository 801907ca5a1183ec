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


def test_what_the_branch_takes_over_from_main_by_a_merge_does_not_count(checkout: Path) -> None:
    git(checkout, "merge", "--quiet", "main", "--message", "merge")
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md",)
    commit(checkout, {"src/gpu/kernel.cu": "mine"})
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md", "src/gpu/kernel.cu")


def test_a_head_that_main_holds_already_changes_nothing(checkout: Path) -> None:
    assert changed_files(checkout, "HEAD", "main~1") == ()


def test_a_change_that_is_taken_back_is_none_and_a_mode_is_a_change(checkout: Path) -> None:
    commit(checkout, {"src/gpu/kernel.cu": "3"})
    commit(checkout, {"src/gpu/kernel.cu": "1"})
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md",)
    (checkout / "src" / "gpu" / "kernel.cu").chmod(0o755)
    commit(checkout, {})
    assert changed_files(checkout, "main", "HEAD") == ("docs/page.md", "src/gpu/kernel.cu")


def submodule(checkout: Path, path: str, target: str) -> None:
    """Records a submodule at a commit, without a repository behind it."""
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{target * 40},{path}")
    git(checkout, "commit", "--quiet", "--message", "submodule")


@pytest.mark.parametrize("configured", [False, True])
def test_a_submodule_counts_whatever_the_branch_or_the_user_wants_ignored(checkout: Path, configured: bool) -> None:
    ignoring = '[submodule "x"]\n\tpath = third_party/x\n\turl = ./x\n\tignore = all\n'
    git(checkout, "checkout", "--quiet", "main")
    (checkout / ".gitmodules").write_text(ignoring)
    git(checkout, "add", ".gitmodules")
    submodule(checkout, "third_party/x", "a")
    git(checkout, "checkout", "--quiet", "-b", "bump")
    submodule(checkout, "third_party/x", "b")
    if configured:
        git(checkout, "config", "diff.ignoreSubmodules", "all")
        git(checkout, "config", "diff.relative", "true")
    assert changed_files(checkout, "main", "HEAD") == ("third_party/x/",)
    assert changed_files(checkout / "docs", "main", "HEAD") == ("third_party/x/",)


def test_a_file_that_becomes_a_submodule_is_both(checkout: Path) -> None:
    git(checkout, "rm", "--quiet", "--cached", "src/old.py")
    submodule(checkout, "src/old.py", "a")
    assert {"src/old.py", "src/old.py/"} <= set(changed_files(checkout, "main", "HEAD"))
    (checkout / "src" / "old.py").unlink()
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},new")
    assert "new/" not in changed_files(checkout, "main", "HEAD")  # not committed
    git(checkout, "commit", "--quiet", "--message", "another")
    changed = changed_files(checkout, "main", "HEAD")
    assert "new/" in changed
    assert "new" not in changed


@pytest.mark.parametrize(
    ("glob", "counts"),
    [
        ("*", True),
        ("*.cu", True),
        ("third_party/*", True),
        ("third_party/x", True),
        ("third_party/x/*.h", True),
        ("third_party/x/include/a.h", True),
        ("third_party/[xy]/*", True),
        ("third_party/xy/*", False),
        ("third_party/y", False),
        ("src/*", False),
        ("third_party", False),
    ],
)
def test_a_submodule_counts_where_a_glob_could_match_something_in_it(glob: str, counts: bool) -> None:
    assert matching(["third_party/x/"], [glob]) == (["third_party/x/"] if counts else [])


def test_a_shallow_clone_is_refused_and_told_how_to_deepen_it(checkout: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", checkout.as_uri(), str(shallow))
    with pytest.raises(UsageError, match=r"no merge base .*git fetch --unshallow"):
        changed_files(shallow, "origin/main", "origin/feature")
    git(shallow, "fetch", "--quiet", "--unshallow")
    assert changed_files(shallow, "origin/main", "origin/feature") == ("docs/page.md",)


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
    assert told == {"gpu-code": "true", "labelled": "false", "sha": sha, "pr": "7", "repo": "org/training"}
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
