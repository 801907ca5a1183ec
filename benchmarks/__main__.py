"""`python -m benchmarks COMMAND`: measurements of shardlib against its peers."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

_COMMANDS = {
    "packing": "predicted makespans on real duration sets: ours, lpt, round-robin, pytest-split, two-phase",
    "makespan": "the example suite, really run on 12 x 8 simulated GPUs",
    "runner": "the numba suite under plain pytest, pytest-xdist, pytest-split and ours",
    "parse": "reading logs: MB/s and peak memory against a plain regular-expression scan",
    "weights": "predicting the next run: our weights against last, mean, median, P90, EWMA and ratchet; review rules",
}


def main() -> int:
    """Run the named benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, summary in _COMMANDS.items():
        subparsers.add_parser(command, help=summary, add_help=False)
    command = parser.parse_args(sys.argv[1:2]).command
    module = import_module(f"benchmarks.{command}")  # only the one that runs: each needs packages of its own
    own = argparse.ArgumentParser(prog=f"python -m benchmarks {command}", description=_COMMANDS[command])
    module.add_arguments(own)
    return int(module.main(own.parse_args(sys.argv[2:])))


if __name__ == "__main__":
    sys.exit(main())
