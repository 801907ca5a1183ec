"""`shardlib conclude`: what a workflow's exit handler does, however the workflow ended."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shardlib.commands.verify import verify
from shardlib.errors import Exit, PlanError, RunFolderError
from shardlib.escape import printable
from shardlib.runfolder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder, which may not exist")
    parser.add_argument(
        "--status", required=True, metavar="STATUS", help="Argo's {{workflow.status}}: Succeeded, Failed"
    )


def main(args: argparse.Namespace) -> int:
    """Reports what the folder holds and records the end in RUN/report/end.json; returns 0 whatever the verdict.

    A workflow that was stopped never came to its own verdict, so it is given here: of what ran until then.
    """
    folder = RunFolder(args.run)
    told: list[str] = []
    try:
        verify(folder, conclude=told.append)
    except (RunFolderError, PlanError) as err:
        told.append(f"no verdict: {err}")
    print(f"the workflow ended as {printable(args.status)}; {told[0]}")
    if args.run.is_dir():
        body = {"status": args.status, "verdict": told[0]}
        folder.write_report("end.json", json.dumps(body, indent=1, ensure_ascii=True) + "\n")
    return Exit.GREEN
