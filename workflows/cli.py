"""`python -m workflows`: one sub-command each to print, render, lint, dry-run, preflight and submit the chain."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from shardlib import commandline
from shardlib.commandline import Command, Program

_COMMANDS = {
    "render": Command(help="print the manifests, or write them to a folder for kubectl apply -k"),
    "lint": Command(help="check the manifests by our own rules, the schemas, and `argo lint` where argo is installed"),
    "dry-run": Command(help="say what would run for a checkout, without a cluster"),
    "preflight": Command(help="check a cluster for all that the chain needs"),
    "submit": Command(help="start a run for a pull request"),
    "open-gate": Command(help="make the runs fit a pull request as it is on GitHub: what the webhook does, for CI"),
    "close-gate": Command(
        help="make the runs fit a pull request, as open-gate does; if GitHub says it is closed, stop them"
    ),
}


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", type=Path, default=Path("gpu-ci.toml"), metavar="FILE", help="default: gpu-ci.toml"
    )


# Modules are imported only when their command is called: most need no cluster's client.
PROGRAM = Program(
    name="workflows",
    usage="python -m workflows",
    package="workflows.commands",
    commands={"commands": _COMMANDS},
    extras=dict.fromkeys(("hera", "kubernetes", "yaml", "jwt", "urllib3"), "workflows"),
    declare=_declare,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are shardlib's, with their codes, printed on stderr."""
    return commandline.main(PROGRAM, argv)
