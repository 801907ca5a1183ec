"""`shardlib verify-gate`: asks GitHub whether somebody with write access has approved exactly this commit."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib.errors import Exit, ShardlibError
from shardlib.escape import printable
from shardlib.gate import names
from shardlib.gate.approval import Question, decide, explain
from shardlib.gate.github import connect
from shardlib.gate.reading import read_facts
from shardlib.parameters import write_parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--github-api", required=True, metavar="URL", help="https://api.github.com, or an Enterprise's")
    parser.add_argument(
        "--credentials",
        type=Path,
        required=True,
        metavar="DIR",
        help="holds the file token, or app-id, installation-id and private-key",
    )
    parser.add_argument("--repository", required=True, metavar="OWNER/NAME", help="the one that is merged into")
    parser.add_argument("--pr", required=True, metavar="NUMBER", help="the pull request")
    parser.add_argument("--sha", required=True, metavar="SHA", help="the head that was submitted: all 40 digits")
    parser.add_argument("--label", default="run-gpu-tests", metavar="NAME", help="what approves (default: %(default)s)")
    parser.add_argument("--allow-forks", action="store_true", help="a head may be in another repository")
    parser.add_argument(
        "--parameters", type=Path, metavar="DIR", help="write summary and reason; if it may run also sha, pr, repo"
    )


def main(args: argparse.Namespace) -> int:
    """Prints what GitHub says and what follows from it; returns 0 if the commit may run and 1 if not."""
    question = Question(
        repository=names.check("--repository", args.repository, names.REPOSITORY),
        pr=int(names.check("--pr", args.pr, names.NUMBER)),
        sha=names.check("--sha", args.sha, names.SHA),
        label=args.label,
        allow_forks=args.allow_forks,
    )
    try:
        facts = read_facts(connect(args.github_api, args.credentials), question)
    except ShardlibError as err:
        _tell(args.parameters, f"closed: GitHub could not be asked: {err}")
        raise
    for line in explain(question, facts):
        print(line)
    decision = decide(question, facts)
    for reason in decision.reasons:
        print(f"closed: {printable(reason, 1000)}")
    if not decision.allowed:
        _tell(args.parameters, f"closed: {'; '.join(decision.reasons)}")
        return Exit.RED
    print(f"open: {question.sha} may run")
    _tell(args.parameters, f"open: {question.sha} may run", sha=question.sha, pr=args.pr, repo=question.repository)
    return Exit.GREEN


def _tell(folder: Path | None, summary: str, **values: str) -> None:
    if folder:
        write_parameters(folder, {**values, "reason": summary, "summary": summary})
