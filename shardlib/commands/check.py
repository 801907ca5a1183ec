"""`shardlib check`: says on GitHub how far a workflow is with a commit; `shardlib conclude` says how it ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib import safefiles
from shardlib.errors import Exit, UsageError
from shardlib.gate import check_options, checks
from shardlib.gate.checkruns import Check
from shardlib.gate.publishing import report

STATES = ("waiting", "not-needed", "refused", "running")

_MAX_REASON_BYTES = 64 << 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    check_options.add_subject(parser, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--state", choices=STATES, help="what to say")
    what.add_argument(
        "--outputs", type=Path, metavar="DIR", help="instead: what find-changed or verify-gate wrote, which says it"
    )
    parser.add_argument(
        "--reason-file", type=Path, metavar="FILE", help="with `refused`: the gate's reason, as verify-gate wrote it"
    )


def main(args: argparse.Namespace) -> int:
    """Writes the check and prints what was done; returns 0, also if a newer workflow's check was left as it is."""
    check = _check(args)
    print(report(args.github_api, args.credentials, check_options.subject(args), lambda before: check))
    return Exit.GREEN


def _check(args: argparse.Namespace) -> Check | None:
    state, reason = args.state, args.reason_file
    if args.outputs is not None:
        state, reason = _state(args.outputs), args.outputs / "reason"
    elif reason is not None and state != "refused":
        raise UsageError(f"--reason-file goes with --state refused, not {state}")
    if state == "waiting":
        return checks.waiting(args.label)
    if state == "not-needed":
        return checks.not_needed()
    if state == "refused":
        return checks.refused(_text(reason))
    return checks.running() if state == "running" else None


def _state(outputs: Path) -> str | None:
    """Returns what a step's outputs mean: find-changed says what is needed, verify-gate passes the commit on or not.

    None if it failed before it wrote any.
    """
    needed = _text(outputs / "gpu-code")
    if needed == "false":
        return "not-needed"
    if needed:  # `labelled` is there where there is a gate; what that finds it says itself, in seconds
        return "waiting" if _text(outputs / "labelled") else "running"
    if not _text(outputs / "reason"):
        return None
    return "running" if _text(outputs / "sha") else "refused"


def _text(path: Path | None) -> str:
    """Returns a small file's text; empty if there is none, which must not keep the check from being concluded."""
    data = safefiles.read_bytes(path.parent, (path.name,), limit=_MAX_REASON_BYTES) if path is not None else None
    return "" if data is None else data.decode("utf-8", "replace").strip()
