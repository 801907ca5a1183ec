"""`python -m workflows open-gate`: makes the cluster's runs fit a pull request, from CI where GitHub cannot reach Argo."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from shardlib.commands import open_gate
from shardlib.errors import UsageError
from workflows import settings
from workflows.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--pr", required=True, metavar="NUMBER", help="the pull request; all else is asked from GitHub")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="default: the setting repository")
    parser.add_argument(
        "--credentials", type=Path, metavar="DIR", help="of a GitHub App, or a token; default: $GITHUB_TOKEN"
    )
    parser.add_argument("--argo-server", metavar="URL", help="default: $ARGO_SERVER; its token is $ARGO_TOKEN")


def main(args: argparse.Namespace) -> int:
    """Acts and prints what was done, as `shardlib open-gate` does; returns its code."""
    return open_gate.main(arguments(args, settings.load(args.settings)))


def arguments(args: argparse.Namespace, own: Settings) -> argparse.Namespace:
    """Returns what `shardlib open-gate` takes; UsageError where nothing says who we are to GitHub."""
    credentials = args.credentials or os.environ.get("GITHUB_TOKEN")
    if not credentials:
        raise UsageError("--credentials is missing, and there is no $GITHUB_TOKEN: who may read the pull request?")
    return argparse.Namespace(
        pr=args.pr,
        lately=False,
        repository=args.repository or own.repository,
        github_api=own.github_api,
        credentials=credentials,
        label=own.label,
        argo_server=args.argo_server,
        argo_token=None,
        namespace=own.namespace,
        template=own.name,
        take_over=None,
    )
