"""A burst of deliveries for one pull request costs a few looks, not one each.

Each delivery is a small workflow, and only a few of them run at once. The one that begins its look takes over from all
younger ones that have not begun: whatever they were sent for has happened by now, so this look sees it. The server's list
may be seconds old, so two that begin together may each see the other waiting: of two, only the younger one is stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shardlib.gate.argo import ArgoServer
from shardlib.gate.workflows import object_at, parameter_of


def take_over(argo: ArgoServer, templates: Iterable[str], *, pr: str, this: str) -> Iterator[str]:
    """Stops the workflows of a pull request that wait for their turn, and yields their names; to be called before a look.

    Args:
        argo: the server.
        templates: the WorkflowTemplates that look at pull requests.
        pr: the pull request's number.
        this: the workflow's own name.
    """
    looks = [one for template in templates for one in argo.workflows(template) if parameter_of(one, "pr") == pr]
    own = [_age_key(one) for one in looks if _age_key(one)[1] == this]  # none if the list is older than this workflow
    for workflow in looks:
        name = _age_key(workflow)[1]
        waits = object_at(workflow, "status").get("phase") in (None, "", "Pending")
        # One that has begun meanwhile may be stopped in its middle: this look comes later, and ends its work.
        if waits and own and _age_key(workflow) > own[0] and not argo.stop(name):
            yield name


def _age_key(workflow: Mapping[str, Any]) -> tuple[str, str]:
    """Returns what looks are ordered by; Argo writes all times alike, to the second and in UTC."""
    metadata = object_at(workflow, "metadata")
    return str(metadata.get("creationTimestamp")), str(metadata.get("name"))
