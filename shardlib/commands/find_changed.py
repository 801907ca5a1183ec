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

from shardlib.errors import Exit, InfrastructureError, ShardlibError, UsageError
from shardlib.escape import printable
from shardlib.gate import names
from shardlib.parameters import write_parameters

TOKEN_VARIABLE = "SHARDLIB_GIT_TOKEN"  # its value comes from a Secret

_SHOWN = 20
_SUBMODULE = "160000"  # git's mode of one
_NOTHING = "000000"  # before it was added, after it was deleted
_PATIENCE_SECONDS = 60.0  # for GitHub; a label that cannot be read is waited for, which costs little


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
    parser.add_argument("--github-api", metavar="URL", help="where to ask whether the head is approved already")
    parser.add_argument("--credentials", type=Path, metavar="DIR", help="as verify-gate's; --github-api needs it")
    parser.add_argument("--label", default="run-gpu-tests", metavar="NAME", help="what approves (default: %(default)s)")
    parser.add_argument(
        "--parameters",
        type=Path,
        metavar="DIR",
        help="write gpu-code and labelled (true or false), sha, pr, repo: a file for each",
    )


def main(args: argparse.Namespace) -> int:
    """Prints the changed files and whether GPU code is among them; returns 0 either way."""
    if args.clone is None:
        changed = changed_files(args.checkout, args.base, args.head)
    else:
        names.check("--repository", args.repository, names.REPOSITORY)
        names.check("--head", args.head, names.SHA)
        with tempfile.TemporaryDirectory(prefix="shardlib-") as folder:
            url = f"{args.clone.rstrip('/')}/{args.repository}.git"
            clone(url, Path(folder), base=args.base, sha=args.head, token=os.environ.get(TOKEN_VARIABLE))
            changed = changed_files(Path(folder), "origin/" + args.base, args.head)
    touched = matching(changed, args.glob or ["*"])
    for line in explain(changed, touched):
        print(line)
    if args.parameters:
        values = {
            "gpu-code": "true" if touched else "false",
            "sha": names.check("--head", args.head, names.SHA),
            "pr": names.check("--pr", args.pr, names.NUMBER),
            "repo": names.check("--repository", args.repository, names.REPOSITORY),
        }
        labelled = bool(touched) and args.github_api is not None and _labelled(args)
        write_parameters(args.parameters, {**values, "labelled": "true" if labelled else "false"})
    return Exit.GREEN


def _labelled(args: argparse.Namespace) -> bool:
    """Whether there is nothing to wait for, since the head is approved already; verify-gate asks again.

    A label from before the last push is none here: going on with it would make verify-gate refuse, and the run red, where
    a person only has to look and put the label again. Forks are verify-gate's to refuse: no label would help there.
    """
    # Imported here: a machine that only looks at changed files needs nothing for GitHub.
    from shardlib.gate.approval import Question, decide
    from shardlib.gate.github import connect
    from shardlib.gate.reading import read_facts

    question = Question(repository=args.repository, pr=int(args.pr), sha=args.head, label=args.label, allow_forks=True)
    try:
        if args.credentials is None:
            raise UsageError("--credentials is missing: --github-api needs it")
        github = connect(args.github_api, args.credentials, patience_seconds=_PATIENCE_SECONDS)
        reasons = decide(question, read_facts(github, question)).reasons
    except ShardlibError as err:
        reasons = (f"whether it is approved cannot be read: {err}",)
    for reason in reasons:
        print(f"waits for the label: {printable(reason, 1000)}")
    return not reasons


def matching(files: Sequence[str], globs: Sequence[str]) -> list[str]:
    """Returns those of the files that a glob matches, in their order; `*` crosses `/`.

    What changed inside a submodule is not known here, so one counts if a glob could match anything in it.
    """
    return [file for file in files if any(_matches(file, glob) for glob in globs)]


def _matches(file: str, glob: str) -> bool:
    if not file.endswith("/"):
        return fnmatchcase(file, glob)
    literal = re.split(r"[*?\[]", glob, maxsplit=1)[0]
    return fnmatchcase(file[:-1], glob) or literal.startswith(file) or (literal != glob and file.startswith(literal))


def explain(changed: Sequence[str], touched: Sequence[str]) -> list[str]:
    """Returns lines for a person: what changed, and what follows from it."""
    shown = [f"  {printable(file)}" for file in touched[:_SHOWN]]
    more = [f"  ... and {len(touched) - _SHOWN} more"] if len(touched) > _SHOWN else []
    what = "GPU tests are needed" if touched else "no GPU test is needed"
    return [f"{len(changed)} files changed, {len(touched)} of them GPU code: {what}", *shown, *more]


def changed_files(checkout: Path, base: str, head: str) -> tuple[str, ...]:
    """Returns what differs between the merge base and the head, sorted; of a renamed file both names.

    A submodule is its path with a `/` behind it, which no file's name can have.

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
