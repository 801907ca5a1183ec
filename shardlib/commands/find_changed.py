"""`shardlib find-changed`: says whether a head changes files that the GPU tests are for."""

from __future__ import annotations

import argparse
import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from shardlib.errors import Exit, InfrastructureError, UsageError
from shardlib.escape import printable
from shardlib.parameters import write_parameters

TOKEN_VARIABLE = "SHARDLIB_GIT_TOKEN"  # its value comes from a Secret

_SHA = re.compile(r"[0-9a-f]{40}")
_PR = re.compile(r"[0-9]{1,9}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--checkout", type=Path, default=Path(), metavar="DIR", help="a git checkout (default: here)")
    parser.add_argument("--clone", metavar="URL", help="instead: clone URL/REPOSITORY.git, without files")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="what --clone clones")
    parser.add_argument("--base", default="main", metavar="BRANCH", help="what the head will be merged into")
    parser.add_argument("--head", default="HEAD", metavar="SHA", help="the head; with --clone all 40 digits")
    parser.add_argument("--pr", metavar="NUMBER", help="the pull request, passed on with the parameters")
    parser.add_argument(
        "--glob",
        action="append",
        metavar="GLOB",
        help="files that the GPU tests are for (`*` crosses `/`); default: all",
    )
    parser.add_argument(
        "--parameters", type=Path, metavar="DIR", help="write gpu-code (true or false), sha, pr, repo: a file for each"
    )


def main(args: argparse.Namespace) -> int:
    """Prints the changed files and whether GPU code is among them; returns 0 either way."""
    if args.clone is None:
        changed = changed_files(args.checkout, args.base, args.head)
    else:
        _check("--repository", args.repository, _REPOSITORY, "OWNER/NAME")
        _check("--head", args.head, _SHA, "a commit's 40 hexadecimal digits")
        with tempfile.TemporaryDirectory(prefix="shardlib-") as folder:
            url = f"{args.clone.rstrip('/')}/{args.repository}.git"
            clone(url, Path(folder), base=args.base, sha=args.head, token=os.environ.get(TOKEN_VARIABLE))
            changed = changed_files(Path(folder), "origin/" + args.base, args.head)
    touched = matching(changed, args.glob or ["*"])
    for line in explain(changed, touched):
        print(line)
    if args.parameters:
        _check("--pr", args.pr, _PR, "a pull request's number")
        _check("--head", args.head, _SHA, "a commit's 40 hexadecimal digits")
        _check("--repository", args.repository, _REPOSITORY, "OWNER/NAME")
        values = {"gpu-code": "true" if touched else "false", "sha": args.head, "pr": args.pr, "repo": args.repository}
        write_parameters(args.parameters, values)
    return Exit.GREEN


def matching(files: Sequence[str], globs: Sequence[str]) -> list[str]:
    """Returns those of the files that a glob matches, in their order; `*` crosses `/`."""
    return [file for file in files if any(fnmatchcase(file, glob) for glob in globs)]


def explain(changed: Sequence[str], touched: Sequence[str]) -> list[str]:
    """Returns lines for a person: what changed, and what follows from it."""
    shown = [f"  {printable(file)}" for file in touched[:_SHOWN]]
    more = [f"  ... and {len(touched) - _SHOWN} more"] if len(touched) > _SHOWN else []
    what = "GPU tests are needed" if touched else "no GPU test is needed"
    return [f"{len(changed)} files changed, {len(touched)} of them GPU code: {what}", *shown, *more]


def changed_files(checkout: Path, base: str, head: str) -> tuple[str, ...]:
    """Returns the files that differ between the merge base and the head, sorted; of a renamed file both names.

    Raises:
        UsageError: no checkout, an unknown revision, or no common ancestor (a shallow clone may lack it).
    """
    try:
        ancestor = _git(checkout, "merge-base", "--end-of-options", base, head).strip()
    except InfrastructureError as err:
        raise UsageError(
            f"{checkout}: no merge base of {base!r} and {head!r}: {err}; fetch both, and a shallow clone's history "
            "(git fetch --unshallow)"
        ) from err
    # Renames as a deletion and an addition: finding them needs the files' content, and both names count anyway.
    output = _git(checkout, "diff", "--name-only", "-z", "--no-renames", "--end-of-options", ancestor, head)
    return tuple(sorted(name for name in output.split("\0") if name))


def clone(url: str, folder: Path, *, base: str, sha: str, token: str | None = None) -> None:
    """Clones commits and trees of a base branch and a commit, without the files' contents.

    Raises:
        InfrastructureError: git cannot; the server may be down, or does not have the branch or the commit.
    """
    options = ["--quiet", "--no-tags"]
    environment = _with_token(token)
    where = ["--no-checkout", "--filter=blob:none", "--single-branch", f"--branch={base}", "--", url, str(folder)]
    _git(folder, "clone", *options, *where, environment=environment)
    _git(folder, "fetch", *options, "--end-of-options", "origin", sha, environment=environment)


def _with_token(token: str | None) -> dict[str, str]:
    """Returns the variables by which git sends a token, so that it is in no argument and in no file."""
    if not token:
        return {}
    header = base64.b64encode(f"x-access-token:{token}".encode()).decode("ascii")
    name, value = "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"
    return {"GIT_CONFIG_COUNT": "1", name: "http.extraHeader", value: f"Authorization: Basic {header}"}


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Returns what git prints; InfrastructureError with the end of its complaint otherwise."""
    command = ["git", "-C", str(folder), *arguments]
    own = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})}
    try:
        done = subprocess.run(command, env=own, capture_output=True, check=False)
    except OSError as err:
        raise InfrastructureError(f"git cannot be started: {err.strerror}; install git") from err
    if done.returncode:
        complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
        told = printable(complaint[-1]) if complaint else f"exit {done.returncode}"
        raise InfrastructureError(f"git {arguments[0]}: {told}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _check(option: str, value: str | None, pattern: re.Pattern[str], expected: str) -> None:
    """Refuses what is not exactly what it must be: these values become parts of manifests and URLs."""
    if value is None or not pattern.fullmatch(value):
        raise UsageError(f"{option} {value!r}: expected {expected}")
