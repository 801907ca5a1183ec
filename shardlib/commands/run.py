"""`shardlib run`: runs one shard of a plan in this pod."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from shardlib.commandline import at_least_one
from shardlib.errors import ShardlibError
from shardlib.parameters import write_in_place
from shardlib.resume import Rerun
from shardlib.runfolder import RunFolder
from shardlib.running.attempt import RunOptions, run_shard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--shard", required=True, metavar="NAME", help="the shard's name in the plan: 01, 02, ... or cpu"
    )
    parser.add_argument(
        "--rerun",
        choices=[rerun.value for rerun in Rerun],
        help="which tests run; by default all at first, what is unfinished after a killed or stopped attempt, "
        "and what did not pass after a finished one",
    )
    parser.add_argument(
        "--retries", type=int, default=0, metavar="N", help="Argo's {{retries}}: above 0, only finish what is open"
    )
    parser.add_argument(
        "--summary-file", type=Path, metavar="FILE", help="also write in one line how the shard ended, failures first"
    )
    parser.add_argument(
        "--max-workers", type=at_least_one, metavar="N", help="at most N living workers (default: the slots)"
    )
    parser.add_argument("--simulated-gpus", action="store_true", help="run without GPUs: as if the node had them")


def main(args: argparse.Namespace) -> int:
    """Runs the shard; returns 0 if everything passed, 1 if not, 75 if the node failed or the shard was stopped."""
    progress = os.environ.get("ARGO_PROGRESS_FILE")

    def conclude(line: str) -> None:
        if args.summary_file:
            write_in_place(args.summary_file, line)

    options = RunOptions(
        rerun=Rerun(args.rerun) if args.rerun else None,
        retries=args.retries,
        max_workers=args.max_workers,
        simulated_gpus=args.simulated_gpus,
        progress_file=Path(progress) if progress else None,
        environment=dict(os.environ),
        say=_say,
        conclude=conclude,
    )
    try:
        return int(run_shard(RunFolder(args.run), args.shard, options))
    except ShardlibError as err:
        conclude(f"shard {args.shard}: {err}")
        raise


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
