"""A burst of deliveries for one pull request costs a few looks, not one each.

Each delivery is a small workflow, and only a few of them run at once. The one that begins its look takes over from all that
have not begun: whatever they were sent for has happened by now, so this look sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    for template in templates:
        for workflow in list(argo.workflows(template)):
            name = str(object_at(workflow, "metadata").get("name"))
            waits = object_at(workflow, "status").get("phase") in (None, "", "Pending")
            # One that has begun meanwhile may be stopped in its middle: this look comes later, and ends its work.
            if waits and name != this and parameter_of(workflow, "pr") == pr and not argo.stop(name):
                yield name
