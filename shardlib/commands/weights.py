"""`shardlib weights`: from logs of past runs to the durations file, in four steps with a person between the last two."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from types import ModuleType

from shardlib.commands import weights_collect


@dataclass(frozen=True, kw_only=True)
class _Step:
    module: ModuleType  # with add_arguments and main, as a command has; what is heavy it imports in main
    help: str


_STEPS = {
    "collect": _Step(module=weights_collect, help="gather what tests took from runs and logs into a samples folder"),
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
