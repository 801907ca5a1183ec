"""`shardlib weights`: from logs of past runs to the durations file, in four steps with a person between the last two."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from types import ModuleType

from shardlib.commands import weights_accept, weights_collect, weights_fit, weights_review


@dataclass(frozen=True, kw_only=True)
class _Step:
    module: ModuleType  # with add_arguments and main, as a command has; what is heavy it imports in main
    help: str


_STEPS = {
    "collect": _Step(module=weights_collect, help="gather what tests took from runs and logs into a samples folder"),
    "fit": _Step(module=weights_fit, help="propose a weight for each test, with its reasons"),
    "review": _Step(module=weights_review, help="show what a person must look at before the weights are used"),
    "accept": _Step(module=weights_accept, help="write the weights that a person let through into the durations file"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the steps and their options."""
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    for name, step in _STEPS.items():
        described = f"{step.help[0].upper()}{step.help[1:]}."
        step.module.add_arguments(steps.add_parser(name, help=step.help, description=described, allow_abbrev=False))


def main(args: argparse.Namespace) -> int:
    """Runs one step and returns its exit code."""
    return int(_STEPS[args.step].module.main(args))
