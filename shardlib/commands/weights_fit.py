"""`shardlib weights fit`: proposes a weight for each test of a samples folder. Needs numpy (the extra `weights`)."""

from __future__ import annotations

import argparse
from collections import Counter
from importlib import import_module
from pathlib import Path

from shardlib.errors import Exit, UsageError
from shardlib.weights import proposal as document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the step's options."""
    parser.add_argument("samples", type=Path, metavar="SAMPLES", help="the folder that `weights collect` wrote")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the proposal to write")
    parser.add_argument(
        "--half-life-runs", type=float, metavar="N", help="a run this old counts half (default: the history chooses)"
    )
    parser.add_argument("--shift-up-runs", type=int, default=2, metavar="N", help="runs that prove a rise (default: 2)")
    parser.add_argument("--shift-down-runs", type=int, default=4, metavar="N", help="and a fall (default: 4)")
    parser.add_argument(
        "--margin", action="store_true", help="weigh tests that are some percent of a shard by their P90 (total: +8 %%)"
    )
    parser.add_argument("--shards", type=int, default=12, metavar="N", help="what a shard is a part of (default: 12)")


def main(args: argparse.Namespace) -> int:
    """Writes the proposal and prints a summary; returns 0."""
    for name, value in (("--half-life-runs", args.half_life_runs), ("--shards", args.shards)):
        if value is not None and not 0 < value < 1e6:
            raise UsageError(f"{name} {value}: must be above 0")
    for name, value in (("--shift-up-runs", args.shift_up_runs), ("--shift-down-runs", args.shift_down_runs)):
        if value < 1:
            raise UsageError(f"{name} {value}: at least 1")
    fitting, matrices, proposing = (import_module(f"shardlib.weights.{m}") for m in ("fit", "matrix", "propose"))
    settings = fitting.FitSettings(
        half_life_runs=args.half_life_runs,
        shift_up_runs=args.shift_up_runs,
        shift_down_runs=args.shift_down_runs,
        margin=args.margin,
        shards=args.shards,
    )
    matrix = matrices.load(args.samples)
    proposal: document.Proposal = proposing.propose(matrix, fitting.fit(matrix, settings), settings)
    document.write(proposal, args.output)
    print(summary(proposal))
    print(f"proposal: {args.output}; next: shardlib weights review {args.output}")
    return Exit.GREEN


def summary(proposal: document.Proposal) -> str:
    """Returns what was fitted, in a few lines."""
    setups = sum(1 for test in proposal.tests if test.is_setup)
    total = sum(test.weight for test in proposal.tests)
    tuned = "as this history wants it" if proposal.settings["half_life_tuned"] else "as asked"
    counts = Counter(flag for test in proposal.tests for flag in test.flags)
    flags = ", ".join(f"{counts[flag]} {flag.value.replace('_', ' ')}" for flag in document.Flag if counts[flag])
    return "\n".join(
        [
            f"{len(proposal.tests) - setups} tests and {setups} file setups, {len(proposal.runs)} runs: {total:.0f} s",
            f"half-life {proposal.settings['half_life_runs']:g} runs, {tuned}",
            f"flags: {flags or 'none'}; slow pods: {len(proposal.slow_pods)}",
        ]
    )
