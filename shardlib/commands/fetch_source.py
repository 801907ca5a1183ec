"""`shardlib fetch-source`: makes a checkout of one commit, so that the build that follows needs no token."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from shardlib.errors import Exit
from shardlib.gate import clone_options, names
from shardlib.git import fetch_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    clone_options.add(parser, required=True)
    parser.add_argument("--sha", required=True, metavar="SHA", help="the commit: all 40 digits")
    parser.add_argument("--submodules", action="store_true", help="fetch submodules, too")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="an empty folder, or none yet")


def main(args: argparse.Namespace) -> int:
    """Fetches; returns 0."""
    url, sha = clone_options.address(args), names.check("--sha", args.sha, names.SHA)
    token = clone_options.token(args, os.environ.get(clone_options.TOKEN_VARIABLE))
    fetch_files(url, args.output, sha=sha, token=token, submodules=args.submodules, wait=wait)
    print(f"{url} at {sha}: {args.output}")
    return Exit.GREEN


def wait(why: str, seconds: float) -> None:
    """Says why, and waits."""
    print(why, flush=True)
    time.sleep(seconds)
