"""`shardlib tag-image`: lets a tag name a digest, without a rebuild; the digest may come from another repository."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib.errors import Exit, UsageError
from shardlib.registry import Reference, Registry, login_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--source", required=True, metavar="IMAGE", help="REGISTRY/PATH@sha256:...")
    parser.add_argument("--target", required=True, metavar="IMAGE", help="REGISTRY/PATH:TAG, in the same registry")
    parser.add_argument("--docker-config", type=Path, metavar="FILE", help="Docker's config.json with the login")
    parser.add_argument("--insecure", action="store_true", help="speak plain HTTP")


def main(args: argparse.Namespace) -> int:
    """Copies and tags; returns 0."""
    source, target = Reference.parse(args.source), Reference.parse(args.target)
    login = None
    if args.docker_config:
        try:
            login = login_of(args.docker_config.read_text("utf-8"), source.host)
        except (OSError, UnicodeDecodeError) as err:
            raise UsageError(f"--docker-config {args.docker_config}: cannot be read: {err}") from err
    digest = Registry(source.host, login=login, insecure=args.insecure).copy(source, target)
    print(f"{args.target} is {digest}")
    return Exit.GREEN
