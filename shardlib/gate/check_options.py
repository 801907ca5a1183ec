"""The options by which commands are told which check is meant and where it is written; nothing is sent from here."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from pathlib import Path

from shardlib.errors import UsageError
from shardlib.gate import names
from shardlib.gate.checkruns import Subject

DEFAULT_NAME = "gpu-tests"
DEFAULT_LABEL = "run-gpu-tests"

_UID = re.compile(r"[0-9A-Za-z-]{1,100}")
_URL = re.compile(r"https?://[\x21-\x7e]{1,2000}")


def add_github(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declares the options that say where GitHub is, and which check there."""
    add = parser.add_argument
    add("--github-api", required=required, metavar="URL", help="https://api.github.com, or https://HOST/api/v3")
    add(
        "--credentials",
        type=Path,
        required=required,
        metavar="DIR",
        help="a mounted Secret: a GitHub App's, or a token",
    )
    add("--check-name", default=DEFAULT_NAME, metavar="NAME", help=f"default: {DEFAULT_NAME}")
    add("--label", default=DEFAULT_LABEL, metavar="LABEL", help=f"the gate's; default: {DEFAULT_LABEL}")


def add_subject(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declares the options that say which commit is meant, and which workflow reports."""
    add_github(parser, required=required)
    add = parser.add_argument
    add("--repository", required=required, metavar="OWNER/NAME", help="the commit's")
    add("--sha", required=required, metavar="SHA", help="the commit, all 40 digits")
    add("--uid", required=required, metavar="UID", help="Argo's {{workflow.uid}}")
    add(
        "--started",
        required=required,
        metavar="TIME",
        help="Argo's {{workflow.creationTimestamp}}: of two workflows for a commit the newer one's check stands",
    )
    add("--url", default="", metavar="LINK", help="where a person sees the workflow")


def subject(args: argparse.Namespace) -> Subject:
    """Returns what the options are about; UsageError if one is missing or is not what it must be."""
    for option, value in (("--credentials", args.credentials), ("--uid", args.uid), ("--started", args.started)):
        names.need(option, value, by="--github-api")
    if not _UID.fullmatch(args.uid):
        raise UsageError(f"--uid {args.uid!r}: expected a workflow's uid")
    return Subject(
        repository=names.check("--repository", args.repository, names.REPOSITORY),
        sha=names.check("--sha", args.sha, names.SHA),
        name=check_name(args.check_name),
        uid=args.uid,
        started=_time(args.started),
        url=link(args.url),
    )


def check_name(name: str) -> str:
    """Returns the name if it can be a check's; UsageError otherwise."""
    if not (0 < len(name) <= 100 and name.isprintable()):
        raise UsageError(f"--check-name {name!r}: expected 1 to 100 printable characters")
    return name


def link(url: str) -> str | None:
    """Returns the address if there is one; UsageError if it is none that a browser opens."""
    if url and not _URL.fullmatch(url):
        raise UsageError(f"--url {url!r}: expected http(s)://...")
    return url or None


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 takes no Z
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UsageError(f"--started {text!r}: expected a time with its zone, as 2026-01-31T12:00:00Z")
    return time
