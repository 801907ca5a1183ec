"""`shardlib weights accept`: writes reviewed weights into the durations file; nothing else does."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib import durations as durations_file
from shardlib import safefiles
from shardlib.errors import Exit
from shardlib.weights import proposal as proposals
from shardlib.weights.accept import Choices, accept, dumps, summary
from shardlib.weights.review.compare import compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the step's options."""
    parser.add_argument("proposal", type=Path, metavar="PROPOSAL", help="what `weights fit` wrote, and you reviewed")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the durations in use, which this updates"
    )
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="take these keys only")
    parser.add_argument("--except", action="append", default=[], dest="without", metavar="GLOB", help="but not these")
    parser.add_argument(
        "--yes", action="append", default=[], metavar="KEY", help="take an implausible weight after all"
    )
    unknown = parser.add_mutually_exclusive_group()
    unknown.add_argument("--keep-unknown", action="store_true", help="keep keys of the file that no run has")
    unknown.add_argument("--drop-unknown", action="store_true", help="drop them: their tests are gone")


def main(args: argparse.Namespace) -> int:
    """Updates the durations file and prints a commit message; returns 0."""
    proposal = proposals.load(args.proposal)
    target = args.output.resolve()  # a link stays one, and the file it leads to is replaced
    current = durations_file.load(target) if target.exists() else {}
    review = compare(proposal, current, shards=int(proposal.settings.get("shards", 12)))
    choices = Choices(
        only=args.only,
        without=args.without,
        yes=args.yes,
        keep_unknown=True if args.keep_unknown else False if args.drop_unknown else None,
    )
    accepted = accept(proposal, current, review, choices)
    safefiles.replace(target.parent, (target.name,), dumps(accepted.durations).encode("ascii"))
    print(summary(accepted, current, proposal))
    return Exit.GREEN
