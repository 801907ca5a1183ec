"""Git repositories that tests make."""

from __future__ import annotations

import subprocess
from pathlib import Path


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


def make_checkout(tmp_path: Path) -> Path:
    """Returns a branch that leaves main, which then goes on; served below served/, it ends on the branch."""
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
