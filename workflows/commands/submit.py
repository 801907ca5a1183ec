"""`python -m workflows submit`: starts a run for a pull request, by the cluster that kubectl speaks to."""

from __future__ import annotations

import argparse
from typing import Any

from shardlib.errors import Exit
from shardlib.gate import names
from shardlib.gate.runs import run_name
from workflows import settings
from workflows.cluster import Cluster
from workflows.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--pr", required=True, metavar="NUMBER", help="the pull request")
    parser.add_argument("--sha", required=True, metavar="SHA", help="its head, all 40 digits")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="default: the setting repository")
    parser.add_argument("--context", metavar="NAME", help="kubectl's context; default: the current one")


def main(args: argparse.Namespace) -> int:
    """Submits and prints the run's name; a run of this head that exists already is success."""
    own = settings.load(args.settings)
    body = workflow(own, pr=args.pr, sha=args.sha, repository=args.repository or own.repository)
    name = body["metadata"]["name"]
    created = Cluster.connect(args.context).create_workflow(own.namespace, body)
    print(f"{name}: {'submitted' if created else 'is there already; argo resubmit, or argo retry, starts it again'}")
    print(f"watch it: argo watch -n {own.namespace} {name}")
    if created and own.gate:
        selector = "--node-field-selector displayName=wait-for-label"
        print(f"it waits at the gate; to let it pass: argo resume -n {own.namespace} {name} {selector}")
    return Exit.GREEN


def workflow(settings: Settings, *, pr: str, sha: str, repository: str) -> dict[str, Any]:
    """Returns the Workflow of a pull request's head, whose name makes a second one impossible.

    Raises:
        UsageError: a value that is not exactly what it must be; each becomes part of manifests.
    """
    values = {
        "pr": names.check("--pr", pr, names.NUMBER),
        "sha": names.check("--sha", sha, names.SHA),
        "repo": names.check("--repository", repository, names.REPOSITORY),
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": run_name(settings.name, pr, sha),
            "namespace": settings.namespace,
            "labels": {"workflows.argoproj.io/workflow-template": settings.name},  # as `argo submit --from` does
        },
        "spec": {
            "workflowTemplateRef": {"name": settings.name},
            "arguments": {"parameters": [{"name": name, "value": value} for name, value in values.items()]},
        },
    }
