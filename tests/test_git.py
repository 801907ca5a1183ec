"""git as the chain uses it, on real repositories."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from shardlib.errors import InfrastructureError, UsageError
from shardlib.git import changed_files, fetch_files, fetch_history
from tests.cluster.git_server import serve
from tests.repositories import commit, git, make_checkout

HOSTILE = "src/gpu/a b\n'{{x}}\".py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


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
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{target},{path}")
    git(checkout, "commit", "--quiet", "--message", "submodule")


@pytest.mark.parametrize("configured", [False, True])
def test_a_submodule_counts_whatever_the_branch_or_the_user_wants_ignored(checkout: Path, configured: bool) -> None:
    ignoring = '[submodule "x"]\n\tpath = third_party/x\n\turl = ./x\n\tignore = all\n'
    git(checkout, "checkout", "--quiet", "main")
    (checkout / ".gitmodules").write_text(ignoring)
    git(checkout, "add", ".gitmodules")
    submodule(checkout, "third_party/x", "a" * 40)
    git(checkout, "checkout", "--quiet", "-b", "bump")
    submodule(checkout, "third_party/x", "b" * 40)
    if configured:
        git(checkout, "config", "diff.ignoreSubmodules", "all")
        git(checkout, "config", "diff.relative", "true")
    assert changed_files(checkout, "main", "HEAD") == ("third_party/x/",)
    assert changed_files(checkout / "docs", "main", "HEAD") == ("third_party/x/",)


def test_a_file_that_becomes_a_submodule_is_both(checkout: Path) -> None:
    git(checkout, "rm", "--quiet", "--cached", "src/old.py")
    submodule(checkout, "src/old.py", "a" * 40)
    assert {"src/old.py", "src/old.py/"} <= set(changed_files(checkout, "main", "HEAD"))
    (checkout / "src" / "old.py").unlink()
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},new")
    assert "new/" not in changed_files(checkout, "main", "HEAD")  # not committed
    git(checkout, "commit", "--quiet", "--message", "another")
    changed = changed_files(checkout, "main", "HEAD")
    assert "new/" in changed
    assert "new" not in changed


def test_a_shallow_clone_is_refused_and_told_how_to_deepen_it(checkout: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", checkout.as_uri(), str(shallow))
    with pytest.raises(UsageError, match=r"no merge base .*git fetch --unshallow"):
        changed_files(shallow, "origin/main", "origin/feature")
    git(shallow, "fetch", "--quiet", "--unshallow")
    assert changed_files(shallow, "origin/main", "origin/feature") == ("docs/page.md",)


@pytest.mark.parametrize(
    ("base", "head", "unknown"),
    [
        ("nowhere", "HEAD", "nowhere"),
        ("main", "nowhere", "nowhere"),
        ("--help", "HEAD", "--help"),
        ("main", "a" * 40, "a" * 40),
        ("main:docs", "HEAD", "main:docs"),
    ],
)
def test_an_unknown_revision_is_refused_by_name(checkout: Path, base: str, head: str, unknown: str) -> None:
    with pytest.raises(UsageError, match=f"no revision '{unknown}'; check its spelling"):
        changed_files(checkout, base, head)


def test_histories_with_nothing_in_common_need_another_branch_and_no_deeper_clone(checkout: Path) -> None:
    git(checkout, "checkout", "--quiet", "--orphan", "other")
    commit(checkout, {"a": "1"})
    with pytest.raises(UsageError, match="no merge base of 'main' and 'other'; name another base"):
        changed_files(checkout, "main", "other")


def test_a_folder_that_is_none_or_no_checkout_is_refused_as_that(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing: no such folder"):
        changed_files(tmp_path / "nothing", "main", "HEAD")
    with pytest.raises(UsageError, match=r"is no git checkout \(fatal: not a git repository"):
        changed_files(tmp_path, "main", "HEAD")


def test_git_that_is_not_installed_is_infrastructure(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InfrastructureError, match="install git"):
        changed_files(checkout, "main", "HEAD")


TOKEN = "let-me-in"


def no_wait(why: str, seconds: float) -> None:
    """Lets no second pass."""


def fetch(url: str, folder: Path, sha: str, *, token: str | None = TOKEN, submodules: bool = False) -> list[str]:
    """Returns what lies in the folder then."""
    fetch_files(url, folder, sha=sha, token=token, submodules=submodules, wait=no_wait)
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts
    )


@pytest.fixture
def url(checkout: Path) -> Iterator[str]:
    with serve(checkout.parents[1], "127.0.0.1", tokens=[TOKEN]) as address:
        yield f"{address}/org/training.git"


def test_a_commits_files_come_without_history_and_without_the_token(checkout: Path, tmp_path: Path, url: str) -> None:
    sha = git(checkout, "rev-parse", "feature~1")
    commit(checkout, {"later.py": "1"})
    folder = tmp_path / "source"
    assert fetch(url, folder, sha) == ["docs/page.md", "src/gpu/kernel.cu", "src/old.py"]
    assert (folder / "docs/page.md").read_text() == "1"
    assert git(folder, "rev-list", "--all", "HEAD") == sha
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written


def test_a_history_is_enough_to_see_what_changed(checkout: Path, tmp_path: Path, url: str) -> None:
    sha = commit(checkout, {"src/gpu/kernel.cu": "3"})
    fetch_history(url, tmp_path / "history", base="main", sha=sha, token=TOKEN, wait=no_wait)
    assert changed_files(tmp_path / "history", "origin/main", sha) == ("docs/page.md", "src/gpu/kernel.cu")
    contents = git(tmp_path / "history", "rev-list", "--objects", "--missing=print", "--all", sha)
    assert "?" in contents


@pytest.mark.parametrize("token", [None, "", "wrong"])
def test_a_repository_that_is_not_open_to_us_is_tried_four_times(
    checkout: Path, tmp_path: Path, url: str, token: str | None
) -> None:
    told: list[str] = []

    def wait(why: str, seconds: float) -> None:
        told.append(f"{why} {seconds}")

    with pytest.raises(InfrastructureError, match="git fetch: "):
        fetch_files(url, tmp_path / "source", sha="a" * 40, token=token, submodules=False, wait=wait)
    assert [line.rpartition(" ")[2] for line in told] == ["5.0", "20.0", "60.0"]


def test_a_server_that_comes_back_is_enough(checkout: Path, tmp_path: Path) -> None:
    address = tmp_path / "not-yet"

    def wait(why: str, seconds: float) -> None:
        address.symlink_to(checkout)

    sha = git(checkout, "rev-parse", "HEAD")
    fetch_files(address.as_uri(), tmp_path / "source", sha=sha, token=None, submodules=False, wait=wait)
    assert git(tmp_path / "source", "rev-parse", "HEAD") == sha


def add_submodule(checkout: Path, url: str, sha: str) -> str:
    """Returns a commit with a submodule there."""
    (checkout / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = third_party/x\n\turl = {url}\n')
    git(checkout, "add", ".gitmodules")
    submodule(checkout, "third_party/x", sha)
    return git(checkout, "rev-parse", "HEAD")


def test_submodules_come_if_asked_for(checkout: Path, tmp_path: Path, url: str) -> None:
    other = make_checkout(tmp_path / "other")
    other.rename(checkout.parent / "library.git")
    inside = git(checkout.parent / "library.git", "rev-parse", "HEAD~1")
    sha = add_submodule(checkout, "../library.git", inside)
    assert not any("third_party" in name for name in fetch(url, tmp_path / "without", sha))
    assert "third_party/x/src/gpu/kernel.cu" in fetch(url, tmp_path / "with", sha, submodules=True)


@contextmanager
def listening() -> Iterator[tuple[str, list[str | None]]]:
    """Gives the address of a server that has nothing, and the logins it is sent."""
    logins: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers.get("Authorization"))
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", logins
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_submodule_elsewhere_is_asked_for_without_our_token(checkout: Path, tmp_path: Path, url: str) -> None:
    with listening() as (elsewhere, logins):
        sha = add_submodule(checkout, f"{elsewhere}/library.git", "a" * 40)
        with pytest.raises(InfrastructureError, match="git submodule"):
            fetch(url, tmp_path / "source", sha, submodules=True)
    assert set(logins) == {None}


@pytest.mark.parametrize("address", ["{served}/org/training.git", "file://{served}/org/training.git", "ext::sh -c id"])
def test_a_submodule_of_this_machine_is_refused(checkout: Path, tmp_path: Path, url: str, address: str) -> None:
    sha = add_submodule(checkout, address.format(served=tmp_path / "served"), git(checkout, "rev-parse", "HEAD"))
    with pytest.raises(InfrastructureError, match="git submodule"):
        fetch(url, tmp_path / "source", sha, submodules=True)
    assert not (tmp_path / "source" / "third_party" / "x" / "docs").exists()
