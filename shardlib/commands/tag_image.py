"""`shardlib tag-image`: lets a tag name a digest, without a rebuild; the digest may come from another repository."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardlib import ledger
from shardlib.errors import Exit, UsageError
from shardlib.gate import names
from shardlib.gate.following import PullState
from shardlib.parameters import write_parameters
from shardlib.registry import Reference, Registry, login_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--source", required=True, metavar="IMAGE", help="REGISTRY/PATH@sha256:...")
    parser.add_argument("--target", required=True, metavar="IMAGE", help="REGISTRY/PATH:TAG, in the same registry")
    parser.add_argument("--docker-config", type=Path, metavar="FILE", help="Docker's config.json with the login")
    parser.add_argument("--insecure", action="store_true", help="speak plain HTTP")
    parser.add_argument(
        "--if-merged", action="store_true", help="do nothing unless GitHub says that the pull request is merged"
    )
    parser.add_argument(
        "--github-api", metavar="URL", help="with --if-merged: https://api.github.com, or an Enterprise's"
    )
    parser.add_argument("--credentials", type=Path, metavar="DIR", help="with --if-merged: a mounted Secret for GitHub")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="with --if-merged: the one that is merged into")
    parser.add_argument("--pr", metavar="NUMBER", help="with --if-merged: the pull request")
    parser.add_argument(
        "--sha", metavar="SHA", help="with --if-merged: the commit that was tested, which must be its head"
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="DIR", help="remember who moved the tag; an older run never does"
    )
    parser.add_argument("--uid", default="", metavar="UID", help="with --ledger: the workflow's uid")
    parser.add_argument(
        "--created", default="", metavar="TIME", help="with --ledger: Argo's {{workflow.creationTimestamp}}"
    )
    parser.add_argument(
        "--parameters",
        type=Path,
        metavar="DIR",
        help="write tagged: true, false (it waits for the merge), or overtaken (by a newer run)",
    )


def main(args: argparse.Namespace) -> int:
    """Copies and tags, unless that waits for a merge or a newer run did so; returns 0 either way."""
    if args.ledger:
        names.need("--uid", args.uid, by="--ledger")
        names.need("--created", args.created, by="--ledger")
    tagged = "true"
    if args.if_merged and not _merged(args):
        tagged = "false"
    elif args.ledger and _is_overtaken(args):
        tagged = "overtaken"
    else:
        _tag(args)
    if args.parameters:
        write_parameters(args.parameters, {"tagged": tagged})
    return Exit.GREEN


def _merged(args: argparse.Namespace) -> bool:
    """Returns whether GitHub merged exactly this head."""
    repository = names.check("--repository", args.repository, names.REPOSITORY)
    pr, sha = names.check("--pr", args.pr, names.NUMBER), names.check("--sha", args.sha, names.SHA)
    names.need("--github-api", args.github_api, by="--if-merged")
    names.need("--credentials", args.credentials, by="--if-merged")
    from shardlib.gate.github import connect  # needs libraries that are not there where nothing is asked

    path = f"/repos/{repository}/pulls/{pr}"
    pull = PullState.read(connect(args.github_api, args.credentials).get(path), path)
    if pull.merged and pull.head == sha:
        return True
    told = f"was merged as {pull.head}" if pull.merged else "is not merged"
    print(f"nothing is tagged: pull request {pr} {told}, and {sha} was tested")
    return False


def _is_overtaken(args: argparse.Namespace) -> bool:
    """Returns whether a newer run has moved the tag; if not, notes this one, before it does."""
    digest = Reference.parse(args.source).digest
    entry = ledger.Entry(image=args.target, digest=str(digest), run=args.uid, created=args.created)
    last = ledger.read(args.ledger, args.target)
    if last is not None and entry.is_older_than(last):
        print(f"nothing is tagged: {args.target} is {last.digest} since the newer run {last.run} of {last.created}")
        return True
    ledger.write(args.ledger, entry)
    return False


def _tag(args: argparse.Namespace) -> None:
    source, target = Reference.parse(args.source), Reference.parse(args.target)
    login = None
    if args.docker_config:
        try:
            login = login_of(args.docker_config.read_text("utf-8"), source.host)
        except (OSError, UnicodeDecodeError) as err:
            raise UsageError(f"--docker-config {args.docker_config}: cannot be read: {err}") from err
    digest = Registry(source.host, login=login, insecure=args.insecure).copy(source, target)
    print(f"{args.target} is {digest}")
