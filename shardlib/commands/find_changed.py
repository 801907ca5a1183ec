"""`shardlib find-changed`: says whether a head changes files that the GPU tests are for."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from shardlib.commands.fetch_source import wait
from shardlib.errors import Exit, ShardlibError
from shardlib.escape import printable
from shardlib.gate import clone_options, names
from shardlib.git import changed_files, fetch_history
from shardlib.parameters import write_parameters

_SHOWN = 20
_PATIENCE_SECONDS = 60.0  # for GitHub; a label that cannot be read is waited for, which costs little


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--checkout", type=Path, default=Path(), metavar="DIR", help="a git checkout (default: here)")
    clone_options.add(parser, required=False)
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
        "--label", metavar="NAME", help="with --github-api and --parameters: ask whether this approves the head already"
    )
    parser.add_argument(
        "--parameters",
        type=Path,
        metavar="DIR",
        help="write gpu-code and labelled (true or false), sha, pr, repo: a file for each",
    )


def main(args: argparse.Namespace) -> int:
    """Prints the changed files and whether GPU code is among them; returns 0 either way."""
    values = _checked(args) if args.parameters else {}
    if args.label is not None:  # nobody would be asked, or told
        names.need("--github-api", args.github_api, by="--label")
        names.need("--parameters", args.parameters, by="--label")
    changed = changed_files(args.checkout, args.base, args.head) if args.clone is None else _cloned(args)
    touched = matching(changed, args.glob or ["*"])
    for line in explain(changed, touched):
        print(line)
    if args.parameters:
        labelled = bool(touched) and args.label is not None and _labelled(args)
        told = {"gpu-code": bool(touched), "labelled": labelled}
        write_parameters(args.parameters, values | {name: "true" if is_so else "false" for name, is_so in told.items()})
    return Exit.GREEN


def _checked(args: argparse.Namespace) -> dict[str, str]:
    """Returns the parameters that say what the run is of; each becomes part of manifests and addresses."""
    return {
        "sha": names.check("--head", args.head, names.SHA),
        "pr": names.check("--pr", args.pr, names.NUMBER),
        "repo": names.check("--repository", args.repository, names.REPOSITORY),
    }


def _cloned(args: argparse.Namespace) -> tuple[str, ...]:
    url, sha = clone_options.address(args), names.check("--head", args.head, names.SHA)
    token = clone_options.token(args, os.environ.get(clone_options.TOKEN_VARIABLE))
    with tempfile.TemporaryDirectory(prefix="shardlib-") as folder:
        fetch_history(url, Path(folder), base=args.base, sha=sha, token=token, wait=wait)
        return changed_files(Path(folder), f"origin/{args.base}", sha)


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
        names.need("--credentials", args.credentials, by="--github-api")
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
