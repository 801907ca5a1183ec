"""`shardlib weights review`: shows what a person must look at before proposed weights are used."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from shardlib import durations as durations_file
from shardlib import safefiles
from shardlib.collecting import document as collected_document
from shardlib.errors import Exit, UsageError
from shardlib.settings import Settings
from shardlib.weights import proposal as proposals
from shardlib.weights.review import compare, page, terminal
from shardlib.weights.review.shards import Nodes, effects
from shardlib.weights.review.summary import Sheet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the step's options."""
    parser.add_argument("proposal", type=Path, metavar="PROPOSAL", help="what `weights fit` wrote")
    parser.add_argument("--current", type=Path, metavar="FILE", help="the durations in use; default: there are none")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page with the pictures here")
    parser.add_argument("--collected", type=Path, metavar="FILE", help="collect.json: each test's mode and GPUs")
    parser.add_argument("--shards", type=int, metavar="N", help="nodes (default: those of the fit)")
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs of each (default: the setting gpus_per_node)")


def main(args: argparse.Namespace) -> int:
    """Prints the review and writes the page; returns 0."""
    proposal = proposals.load(args.proposal)
    current = durations_file.load(args.current) if args.current else {}
    shards = args.shards if args.shards is not None else int(proposal.settings.get("shards", 12))
    for name, value in (("--shards", shards), ("--gpus", args.gpus)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: at least 1")
    collection = collected_document.load(args.collected) if args.collected else None
    settings = collection.settings if collection else Settings()
    nodes = Nodes(
        shards=shards,
        gpus=args.gpus or settings.gpus_per_node,
        cpu_slots=settings.cpu_slots,
        startup_seconds=settings.startup_seconds,
        unknown_seconds=settings.unknown_seconds,
        widths={test.id: (test.mode, test.gpus) for test in collection.tests} if collection else {},
    )
    sheet = Sheet(
        proposal=proposal,
        review=compare.compare(proposal, current, shards=shards),
        effects=effects(proposal, current, nodes),
        now=time.time(),
        current_name=str(args.current) if args.current else None,
        nodes_known=collection is not None,
    )
    for line in terminal.lines(sheet):
        print(line)
    if args.html:
        safefiles.replace(args.html.parent, (args.html.name,), page.page(sheet).encode("utf-8"))
        print(f"page: {args.html}")
    return Exit.GREEN
