"""Repositories with pull requests, in a folder that the git server serves."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_AUTHOR = {
    "GIT_AUTHOR_NAME": "A. Uthor",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "A. Uthor",
    "GIT_COMMITTER_EMAIL": "author@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


@dataclass(frozen=True)
class Repository:
    """A bare repository OWNER/NAME.git and the checkout that fills it."""

    bare: Path
    checkout: Path

    @classmethod
    def make(cls, served: Path, name: str, files: Mapping[str, str]) -> Repository:
        """Returns a repository whose branch main has these files."""
        bare = served / f"{name}.git"
        checkout = served.parent / "checkouts" / name
        for folder in (bare, checkout):
            folder.mkdir(parents=True)
        _git(bare, "init", "--quiet", "--bare", "--initial-branch=main")
        _git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        _git(bare, "config", "uploadpack.allowFilter", "true")
        _git(checkout, "init", "--quiet", "--initial-branch=main")
        repository = cls(bare, checkout)
        repository.push("main", files)
        return repository

    def push(self, branch: str, files: Mapping[str, str], base: str | None = None) -> str:
        """Puts files on a branch, which starts at `base` if it is new, and returns the commit."""
        if base is not None:
            _git(self.checkout, "checkout", "--quiet", "-B", branch, base)
        for name, text in files.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        _git(self.checkout, "add", "--all")
        _git(self.checkout, "commit", "--quiet", "--allow-empty", "--message", f"Change {branch}")
        _git(self.checkout, "push", "--quiet", "--force", str(self.bare), f"HEAD:refs/heads/{branch}")
        return _git(self.checkout, "rev-parse", "HEAD").strip()

    def point(self, branch: str, commit: str) -> None:
        """Moves a branch to a commit that is there, forward or not."""
        _git(self.bare, "update-ref", f"refs/heads/{branch}", commit)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env={**os.environ, **_AUTHOR}, capture_output=True, text=True, check=True).stdout
