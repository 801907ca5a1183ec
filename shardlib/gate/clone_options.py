"""The options by which commands are told which repository to clone, and with whose token git asks for it."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from shardlib.errors import UsageError
from shardlib.gate import names

TOKEN_VARIABLE = "SHARDLIB_GIT_TOKEN"  # its value comes from a Secret


def add(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declares them."""
    instead = "" if required else "instead: "
    parser.add_argument(
        "--clone",
        required=required,
        metavar="URL",
        help=f"{instead}clone URL/REPOSITORY.git, with the token in {TOKEN_VARIABLE} or one of --credentials",
    )
    parser.add_argument("--repository", required=required, metavar="OWNER/NAME", help="what --clone clones")
    parser.add_argument("--github-api", metavar="URL", help="https://api.github.com, or https://HOST/api/v3")
    parser.add_argument("--credentials", type=Path, metavar="DIR", help="as verify-gate's; --github-api needs it")


def address(args: argparse.Namespace) -> str:
    """Returns the repository's address; UsageError if it is none."""
    parts = urlsplit(args.clone)
    if parts.username or parts.password:
        raise UsageError(f"--clone: the address holds a login; give the token by {TOKEN_VARIABLE} instead")
    return f"{args.clone.rstrip('/')}/{names.check('--repository', args.repository, names.REPOSITORY)}.git"


def token(args: argparse.Namespace, given: str | None) -> str | None:
    """Returns the token that git sends: the one that is given, else GitHub's own for its own repositories, else none.

    Raises:
        UsageError: the credentials are none.
        GateError: GitHub refuses them.
        InfrastructureError: GitHub is down.
    """
    if given or args.github_api is None or not belongs(args.github_api, args.clone):
        return given
    names.need("--credentials", args.credentials, by="--github-api")
    # Imported here: a machine that only looks at changed files needs nothing for GitHub.
    from shardlib.gate.github import connect

    return connect(args.github_api, args.credentials).token()


def belongs(api: str, clone: str) -> bool:
    """Whether a token for the API is one for the git server, too: no other server may see it."""
    asked, cloned = urlsplit(api), urlsplit(clone)
    return asked.scheme == cloned.scheme and asked.hostname in (cloned.hostname, f"api.{cloned.hostname}")
