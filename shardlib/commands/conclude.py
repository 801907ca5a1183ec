"""`shardlib conclude`: what a workflow's exit handler does, however the workflow ended."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from shardlib.commands.verify import Findings, publish, read
from shardlib.errors import Exit, ShardlibError
from shardlib.escape import printable
from shardlib.gate import check_options, checks
from shardlib.gate.annotations import annotate
from shardlib.gate.checkruns import Check
from shardlib.reports.summary import summary
from shardlib.reports.text import headline, verdict_line
from shardlib.runfolder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder, which may not exist")
    parser.add_argument(
        "--status", required=True, metavar="STATUS", help="Argo's {{workflow.status}}: Succeeded, Failed"
    )
    parser.add_argument(
        "--path-prefix",
        default="",
        metavar="DIR",
        help="pytest's rootdir within the repository, for annotations; default: they are the same",
    )
    check_options.add_subject(parser, required=False)


def main(args: argparse.Namespace) -> int:
    """Reports what the folder holds, also to GitHub if it is told where that is; returns 0 whatever the verdict.

    A workflow that was stopped never came to its own verdict, so it is given here: of what ran until then. What cannot
    be written is told of, and keeps nothing else from being written.
    """
    folder = RunFolder(args.run)
    told, end = _verdict(folder, args.path_prefix)
    print(f"the workflow ended as {printable(args.status)}; {told}")
    if args.github_api:
        _report(args, end)
    if args.run.is_dir():
        body = {"status": args.status, "verdict": told}
        folder.write_report("end.json", json.dumps(body, indent=1, ensure_ascii=True) + "\n")
    return Exit.GREEN


def _verdict(folder: RunFolder, prefix: str) -> tuple[str, Check | None]:
    """Returns the verdict in one line, and as a check: None if the run came to no plan at all."""
    try:
        findings = read(folder)
    except ShardlibError as err:
        told = f"no verdict: {err}"
        return told, checks.unproved(str(err)) if folder.path.is_dir() else None
    try:
        publish(folder, findings)
    except ShardlibError as err:
        print(f"the report cannot be written: {err}")
    return verdict_line(findings.plan, findings.verdict), _check(findings, prefix)


def _check(findings: Findings, prefix: str) -> Check:
    plan, verdict = findings.plan, findings.verdict
    page = summary(plan, verdict, findings.measures)
    found = annotate(plan, verdict, prefix=prefix)
    return checks.judged(verdict, headline(plan, verdict), page, found, stopped=findings.stopped)


def _report(args: argparse.Namespace, end: Check | None) -> None:
    from shardlib.gate.publishing import report  # needs libraries that are not there where nothing is sent

    succeeded = args.status == "Succeeded"
    try:
        decide = partial(checks.at_the_end, uid=args.uid, end=end, succeeded=succeeded, label=args.label)
        print(report(args.github_api, args.credentials, check_options.subject(args), decide))
    except ShardlibError as err:
        print(f"the check is left as it is, for `shardlib sweep`: {err}")
