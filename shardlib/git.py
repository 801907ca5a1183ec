"""git, as the chain needs it: what a head changes, and its files for the build.

A token goes by the environment, to the server that is asked and to no other: it is in no argument and in no file.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from shardlib.errors import GateError, InfrastructureError, UsageError
from shardlib.escape import printable

_SUBMODULE = "160000"  # git's mode of one
_NOTHING = "000000"  # before it was added, after it was deleted
_WAITS_SECONDS = (5.0, 20.0, 60.0)  # between tries of a server that fails (a guess)

Wait = Callable[[str, float], None]
"""Waits so many seconds, and says why."""


def changed_files(checkout: Path, base: str, head: str) -> tuple[str, ...]:
    """Returns what differs between the merge base and the head, sorted; of a renamed file both names.

    A submodule is its path with a `/` behind it, which no file's name can have.

    Raises:
        UsageError: no checkout, an unknown revision, or no common ancestor (a shallow clone may lack it).
        InfrastructureError: git cannot be started, or not read what it has.
    """
    ancestor = _merge_base(checkout, base, head)
    # Renames as a deletion and an addition: finding them needs the files' content, and both names count anyway. A
    # submodule counts whatever .gitmodules wants ignored, and diff-tree, unlike diff, whatever the user has configured.
    options = ["-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none"]
    fields = _git(checkout, "diff-tree", *options, "--end-of-options", ancestor, head).split("\0")
    changed = set()
    for modes, name in zip(fields[::2], fields[1::2], strict=False):  # `:100644 160000 ...`, then the name
        before, after = modes.removeprefix(":").split(" ")[:2]
        changed |= {name} if {before, after} - {_SUBMODULE, _NOTHING} else set()
        changed |= {f"{name}/"} if _SUBMODULE in (before, after) else set()
    return tuple(sorted(changed))


def _merge_base(checkout: Path, base: str, head: str) -> str:
    if not checkout.is_dir():
        raise UsageError(f"{checkout}: no such folder; name a git checkout")
    looked = _run(checkout, "rev-parse", "--git-dir")
    if looked.returncode:
        raise UsageError(f"{checkout}: is no git checkout ({_complaint(looked)}); name one, or clone the repository")
    for revision in (base, head):
        if _run(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").returncode:
            raise UsageError(
                f"{checkout}: no revision {revision!r}; check its spelling (`git branch --all` lists branches), or fetch it"
            )
    found = _run(checkout, "merge-base", "--end-of-options", base, head)
    if found.returncode > 1:
        raise InfrastructureError(f"git merge-base: {_complaint(found)}")
    if found.returncode:
        shallow = _git(checkout, "rev-parse", "--is-shallow-repository").strip() == "true"
        step = "fetch the history of this shallow clone (git fetch --unshallow)" if shallow else "name another base"
        raise UsageError(f"{checkout}: no merge base of {base!r} and {head!r}; {step}")
    return found.stdout.decode("ascii").strip()


def fetch_history(url: str, folder: Path, *, base: str, sha: str, token: str | None, wait: Wait) -> None:
    """Fetches commits and trees of a base branch, as `origin/BASE`, and of a commit, without the files' contents.

    Args:
        url: the repository's, without any login.
        folder: where; it is made if it is missing.
        base: the branch.
        sha: the commit's 40 digits.
        token: may read the repository; None: it is public.
        wait: is called before each further try.

    Raises:
        InfrastructureError: git cannot, several times; the server is down, or has no such branch or commit.
    """
    _begin(folder, url)
    branch = f"+refs/heads/{base}:refs/remotes/origin/{base}"
    _fetch(folder, "--filter=blob:none", branch, sha, environment=_login(url, token), wait=wait)


def fetch_files(url: str, folder: Path, *, sha: str, token: str | None, submodules: bool, wait: Wait) -> None:
    """Makes a checkout of one commit, without the history before it.

    Args:
        url: the repository's, without any login.
        folder: where; it is made if it is missing.
        sha: the commit's 40 digits.
        token: may read the repository; None: it is public.
        submodules: whether to fetch these, too. Their addresses are the commit's own: a token that may read other
            repositories of the server would fetch these for it.
        wait: is called before each further try.

    Raises:
        InfrastructureError: git cannot, several times; the server is down, or has no such commit.
        GateError: what came is another commit.
    """
    _begin(folder, url)
    environment = _login(url, token)
    _fetch(folder, "--depth=1", sha, environment=environment, wait=wait)
    _git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    if (found := _git(folder, "rev-parse", "HEAD").strip()) != sha:
        raise GateError(f"{url}: asked for commit {sha}, got {printable(found)}")
    if submodules:
        # Never a path of this machine, and no server without TLS unless ours is one.
        environment["GIT_ALLOW_PROTOCOL"] = ":".join({"https", urlsplit(url).scheme})
        update = ["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"]
        _patiently(lambda: _git(folder, *update, environment=environment), wait=wait)


def _begin(folder: Path, url: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "--quiet")
    _git(folder, "remote", "add", "--", "origin", url)


def _fetch(folder: Path, *arguments: str, environment: Mapping[str, str], wait: Wait) -> None:
    command = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *arguments[:1], "origin", *arguments[1:]]
    _patiently(lambda: _git(folder, *command, environment=environment), wait=wait)


def _patiently(work: Callable[[], object], *, wait: Wait) -> None:
    for seconds in _WAITS_SECONDS:
        try:
            work()
        except InfrastructureError as err:
            wait(f"{err}; trying again in {seconds:.0f} s", seconds)
        else:
            return
    work()


def _login(url: str, token: str | None) -> dict[str, str]:
    """Returns the variables by which git sends a token to this server alone, wherever a redirect or a submodule points."""
    if not token:
        return {}
    parts = urlsplit(url)
    header = base64.b64encode(f"x-access-token:{token}".encode()).decode("ascii")
    name, value = "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"
    key = f"http.{parts.scheme}://{parts.netloc}/.extraHeader"
    return {"GIT_CONFIG_COUNT": "1", name: key, value: f"Authorization: Basic {header}"}


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Returns what git prints; InfrastructureError with the end of its complaint otherwise."""
    done = _run(folder, *arguments, environment=environment)
    if done.returncode:
        raise InfrastructureError(f"git {arguments[0]}: {_complaint(done)}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _run(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Returns how git ended; InfrastructureError if it could not begin."""
    command = ["git", "-C", str(folder), *arguments]
    own = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})}
    try:
        return subprocess.run(command, env=own, capture_output=True, check=False)
    except OSError as err:
        raise InfrastructureError(f"git cannot be started: {err.strerror}; install git") from err


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return printable(complaint[-1]) if complaint else f"exit {done.returncode}"
