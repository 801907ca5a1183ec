"""The build context: a git repository at a commit or a branch, or a folder.

`git://HOST/PATH.git#REF` as Kaniko reads it (pkg/buildcontext/git.go): REF is a commit's 40 digits, which are fetched and
checked out, or `refs/heads/NAME`, or a plain branch. GIT_PULL_METHOD says `http` or `https`; GIT_TOKEN goes as the user's
name with an empty password, else GIT_USERNAME and GIT_PASSWORD. Left out: `#REF#COMMIT`, other `refs/`, buckets, tars.
"""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")


class ContextError(Exception):
    """There is no build context where the command line says, or it cannot be fetched."""


def find(context: str, sub_path: str, work: Path, environment: Mapping[str, str]) -> Path:
    """Returns the context's folder, which is made below `work` if the context is a repository."""
    scheme, separator, rest = context.partition("://")
    if not separator:
        return Path(context)  # Kaniko leaves --context-sub-path alone here, too
    if scheme == "dir":
        folder = Path(rest)
    elif scheme == "git":
        folder = work / "buildcontext"
        _clone(rest, folder, environment)
    elif scheme in ("gs", "tar", "s3", "https"):
        raise ContextError(f"{context}: Kaniko knows {scheme}://, but the stand-in does not implement it")
    else:
        raise ContextError(
            "unknown build context prefix provided, please use one of the following: "
            "gs://, dir://, tar://, s3://, git://, https://"
        )
    folder /= sub_path
    if not folder.is_dir():
        raise ContextError(f"stat {folder}: no such file or directory")
    return folder


def _clone(repository: str, folder: Path, environment: Mapping[str, str]) -> None:
    place, *fragments = repository.split("#")
    if len(fragments) > 1:
        raise ContextError(f"{repository}: more than one # is not implemented in the stand-in")
    method = environment.get("GIT_PULL_METHOD", "")
    url = f"{method if method in ('http', 'https') else 'https'}://{place}"
    reference = fragments[0] if fragments else ""
    commit = reference if _COMMIT.fullmatch(reference) else ""
    if reference.startswith("refs/") and not reference.startswith("refs/heads/"):
        raise ContextError(f"{reference}: only branches and commits are implemented in the stand-in")
    branch = [] if commit or not reference else [f"--branch={reference.removeprefix('refs/heads/')}"]
    own = {**environment, **_login(environment), "GIT_TERMINAL_PROMPT": "0"}
    _git(["clone", "--quiet", *branch, "--", url, str(folder)], own)
    if commit:
        _git(["-C", str(folder), "fetch", "--quiet", "origin", commit], own)
        _git(["-C", str(folder), "checkout", "--quiet", "--detach", commit], own)


def _login(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which git sends the login, so that it is in no argument and in no file."""
    token = environment.get("GIT_TOKEN", "")
    user, password = (
        (token, "") if token else (environment.get("GIT_USERNAME", ""), environment.get("GIT_PASSWORD", ""))
    )
    if not user and not password:
        return {}
    header = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    setting = {"GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": f"Authorization: Basic {header}"}
    return {"GIT_CONFIG_COUNT": "1", **setting}


def _git(arguments: list[str], environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(["git", *arguments], env=environment, capture_output=True, text=True, check=False)
    except OSError as err:
        raise ContextError(f"git cannot be started: {err}") from err
    if done.returncode:
        raise ContextError(f"git {arguments[0]}: {done.stderr.strip()}")
