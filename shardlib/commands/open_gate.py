"""`shardlib open-gate`: makes the cluster's runs fit a pull request as it is now, which a label may want to pass the gate."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from shardlib.errors import Exit, GateError, InfrastructureError, UsageError
from shardlib.gate import names
from shardlib.gate.argo import TOKEN_FILE, ArgoServer, server_address
from shardlib.gate.bursts import take_over
from shardlib.gate.github import GitHub, connect
from shardlib.gate.publishing import app_id, is_reported
from shardlib.gate.steering import PATIENCE_SECONDS, Steering, lately_changed

DEFAULT_LABEL = "run-gpu-tests"
DEFAULT_NAME = "gpu-ci"
GATES = ("open-gate", "close-gate")
"""The WorkflowTemplates that webhooks submit are TEMPLATE-open-gate and TEMPLATE-close-gate."""

SWEEP_PATIENCE_SECONDS = 30.0
"""How long a sweep stays with a pull request whose runs do not come to fit: many wait behind it (a guess)."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAX_TOKEN_CHARACTERS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--repository", required=True, metavar="OWNER/NAME", help="the pull request's")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--pr", metavar="NUMBER", help="the pull request; all else is asked from GitHub")
    which.add_argument(
        "--lately",
        action="store_true",
        help="those with a run under way, and those that changed last; waits for nothing",
    )
    parser.add_argument(
        "--github-api", required=True, metavar="URL", help="https://api.github.com, or https://HOST/api/v3"
    )
    parser.add_argument(
        "--credentials", type=Path, required=True, metavar="DIR", help="a mounted Secret: of a GitHub App, or a token"
    )
    parser.add_argument(
        "--check-name",
        metavar="NAME",
        help="with --lately: a head that has this check had its run, and gets no other; without, none gets one",
    )
    parser.add_argument("--label", default=DEFAULT_LABEL, metavar="LABEL", help=f"default: {DEFAULT_LABEL}")
    add_argo(parser)
    parser.add_argument(
        "--take-over",
        metavar="WORKFLOW",
        help="this workflow's own name: stop those of TEMPLATE-open-gate and TEMPLATE-close-gate that wait for their turn",
    )


def add_argo(parser: argparse.ArgumentParser) -> None:
    """Declares the options that say where the runs are."""
    parser.add_argument("--argo-server", metavar="URL", help="Argo's server; default: $ARGO_SERVER")
    parser.add_argument(
        "--argo-token", type=Path, metavar="FILE", help="default: $ARGO_TOKEN, else the pod's own service account's"
    )
    parser.add_argument("--namespace", default=DEFAULT_NAME, metavar="NAME", help=f"default: {DEFAULT_NAME}")
    parser.add_argument(
        "--template", default=DEFAULT_NAME, metavar="NAME", help=f"the WorkflowTemplate; default: {DEFAULT_NAME}"
    )


def main(args: argparse.Namespace) -> int:
    """Acts and prints what was done; returns 0, or of several pull requests the worst: 1 if one is refused, 75 if one is stuck.

    A webhook says only which pull request to look at. What it was about may be over by now, so the same is done for all.
    """
    repository = names.check("--repository", args.repository, names.REPOSITORY)
    template = _named("--template", args.template)
    pr = None if args.lately else names.check("--pr", args.pr, names.NUMBER)
    github, argo = connect(args.github_api, args.credentials), argo_of(args)

    def settle(pr: str) -> None:
        Steering(
            github=github,
            argo=argo,
            template=template,
            repository=repository,
            pr=pr,
            label=args.label,
            say=_say,
            patience_seconds=SWEEP_PATIENCE_SECONDS if args.lately else PATIENCE_SECONDS,
            waits=not args.lately,
            had_run=partial(_had_run, args, github),
        ).settle()

    if pr is None:
        return _sweep(lately_changed(github, repository, argo.runs(template, repository=repository)), settle)
    if args.take_over is not None:
        for name in take_over(argo, [f"{template}-{one}" for one in GATES], pr=pr, this=args.take_over):
            _say(f"take over from {name}")
    settle(pr)
    return Exit.GREEN


def _sweep(pulls: Iterable[str], settle: Callable[[str], None]) -> int:
    """Returns the exit code; one pull request that cannot be looked at, or whose runs do not fit, keeps no other from it."""
    refused: list[str] = []
    stuck: list[str] = []
    for pr in pulls:
        try:
            settle(pr)
        except (GateError, InfrastructureError) as err:
            (stuck if isinstance(err, InfrastructureError) else refused).append(pr)
            _say(f"pull request {pr}: {err}")
    for what, found in (("refused", refused), ("to be looked at again", stuck)):
        if found:
            _say(f"{what}: pull requests {', '.join(found)}")
    return InfrastructureError.exit_code if stuck else Exit.RED if refused else Exit.GREEN


def _had_run(args: argparse.Namespace, github: GitHub, sha: str) -> bool:
    if args.check_name is None:  # nothing tells, and a run of nobody's wish may take all GPUs
        return True
    return is_reported(github, args.repository, sha, args.check_name, app_id=app_id(args.credentials))


def argo_of(args: argparse.Namespace) -> ArgoServer:
    """Returns the server that the options or the environment name; UsageError if none is."""
    address = args.argo_server or os.environ.get("ARGO_SERVER")
    if not address:
        raise UsageError("--argo-server is missing, and there is no $ARGO_SERVER: https://HOST:PORT of Argo's server")
    secure = os.environ.get("ARGO_SECURE", "true").lower() != "false"
    namespace = _named("--namespace", args.namespace)
    return ArgoServer(server_address(address, secure=secure), namespace=namespace, token=_token(args.argo_token))


def _token(file: Path | None) -> str:
    if file is None and os.environ.get("ARGO_TOKEN"):
        text = os.environ["ARGO_TOKEN"]
    else:
        path = file or TOKEN_FILE
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as err:
            raise UsageError(f"--argo-token {path}: cannot be read; name a file, or set $ARGO_TOKEN") from err
    token = text.strip()
    if not re.fullmatch(r"(Bearer )?[\x21-\x7e]+", token) or len(token) > _MAX_TOKEN_CHARACTERS:
        raise UsageError("--argo-token: holds no token; `argo auth token` prints one")
    return token


def _named(option: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise UsageError(f"{option} {value!r}: expected a name of lower-case letters, digits and '-'")
    return value


def _say(line: str) -> None:
    print(line, flush=True)
