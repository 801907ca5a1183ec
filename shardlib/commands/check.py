"""`shardlib check`: says on GitHub how far a workflow is with a commit; `shardlib conclude` says how it ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib import safefiles
from shardlib.errors import Exit, UsageError
from shardlib.gate import check_options, checks
from shardlib.gate.checks import Check
from shardlib.gate.publishing import report

STATES = ("waiting", "not-needed", "refused", "running")

_MAX_REASON_BYTES = 64 << 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    check_options.add_subject(parser, required=True)
    parser.add_argument("--state", choices=STATES, required=True, help="what to say")
    parser.add_argument(
        "--reason-file", type=Path, metavar="FILE", help="with `refused`: the gate's reason, as verify-gate wrote it"
    )


def main(args: argparse.Namespace) -> int:
    """Writes the check and prints what was done; returns 0, also if a newer workflow's check was left as it is."""
    check = _check(args)
    print(report(args.github_api, args.credentials, check_options.subject(args), lambda before: check))
    return Exit.GREEN


def _check(args: argparse.Namespace) -> Check:
    if args.reason_file is not None and args.state != "refused":
        raise UsageError(f"--reason-file goes with --state refused, not {args.state}")
    if args.state == "waiting":
        return checks.waiting(args.label)
    if args.state == "not-needed":
        return checks.not_needed()
    if args.state == "refused":
        return checks.refused(_reason(args.reason_file))
    return checks.running()


def _reason(path: Path | None) -> str:
    """Returns what the gate wrote; empty if it came to no reason, which must not keep the check from being concluded."""
    data = safefiles.read_bytes(path.parent, (path.name,), limit=_MAX_REASON_BYTES) if path is not None else None
    return "" if data is None else data.decode("utf-8", "replace").strip()
