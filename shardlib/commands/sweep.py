"""`shardlib sweep`: concludes the checks that finished workflows left open."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone

from shardlib.commands.open_gate import add_argo, argo_of
from shardlib.errors import Exit, UsageError
from shardlib.gate import check_options, names
from shardlib.gate.checkruns import Subject
from shardlib.gate.github import connect
from shardlib.gate.publishing import app_id
from shardlib.gate.runs import Run
from shardlib.gate.sweeping import sweep

DEFAULT_HOURS = 24.0
"""How long ago a workflow may have finished; one request each (a guess: a day without a sweep is noticed)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    check_options.add_github(parser, required=True)
    add_argo(parser)
    parser.add_argument(
        "--repository", required=True, metavar="OWNER/NAME", help="that of a workflow whose parameters do not say"
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=DEFAULT_HOURS,
        metavar="N",
        help=f"look at workflows that finished in the last N hours; default: {DEFAULT_HOURS:g}",
    )


def main(args: argparse.Namespace) -> int:
    """Prints a line for each check that it concludes or cannot; returns 1 if GitHub refused one, else 0."""
    if not 0 < args.hours <= 24 * 365:
        raise UsageError(f"--hours {args.hours}: expected more than 0, and at most a year's")
    name = check_options.check_name(args.check_name)
    repository = names.check("--repository", args.repository, names.REPOSITORY)
    github, argo = connect(args.github_api, args.credentials), argo_of(args)

    def subject(run: Run) -> Subject:
        return Subject(repository=run.repository, sha=run.sha, name=name, uid=run.uid, started=run.started)

    since = datetime.now(timezone.utc) - timedelta(hours=args.hours)
    refused = False
    runs = argo.runs(args.template, repository=repository, ended_since=since)
    for swept in sweep(github, runs, subject, since=since, app_id=app_id(args.credentials)):
        print(swept.line, flush=True)
        refused = refused or swept.refused
    return Exit.RED if refused else Exit.GREEN
