"""Workflows as Argo's API shows them: which pull request one is for, and how far it has come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardlib.gate.following import Stage
from shardlib.gate.names import NUMBER, REPOSITORY, SHA
from shardlib.gate.runs import Phase, Run, time_of

GATE_NODE, VERIFY_NODE = "wait-for-label", "verify-gate"
VERDICT_NODE, TAG_NODE = "gpu-tests-passed", "tag-image"

TEMPLATE = "workflows.argoproj.io/workflow-template"
"""The label of what was submitted from a template: by us, `argo submit --from`, the server's page, a binding."""
ARCHIVING, PERSISTED = "workflows.argoproj.io/workflow-archiving-status", "Persisted"
"""The label, and what it says of a workflow that the server has from its archive; of one in the cluster it never does."""

_ENDED = ("Failed", "Error")


def run_of(workflow: Mapping[str, Any], repository: str) -> Run | None:
    """Returns the run that a workflow is; None if its parameters are not what a run's are.

    `repository` is that of a run which does not say: the template has a default, which Argo does not copy.
    """
    metadata, status = object_at(workflow, "metadata"), object_at(workflow, "status")
    wanted = (("pr", NUMBER), ("sha", SHA), ("repo", REPOSITORY))
    texts = {key: parameter_of(workflow, key) for key, _ in wanted}
    texts["repo"] = texts["repo"] or repository
    started = time_of(metadata.get("creationTimestamp"))
    if started is None or not all(pattern.fullmatch(texts[key]) for key, pattern in wanted):
        return None
    phase = str(status.get("phase") or Phase.PENDING.value)
    return Run(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        pr=texts["pr"],
        sha=texts["sha"],
        repository=texts["repo"],
        phase=Phase(phase) if phase in list(Phase) else Phase.ERROR,
        started=started,
        finished=time_of(status.get("finishedAt")),
        message=str(status.get("message") or ""),
    )


def stage_of(workflow: Mapping[str, Any]) -> Stage:
    """Returns how far a whole workflow has come."""
    status = object_at(workflow, "status")
    name = object_at(workflow, "metadata").get("name")
    nodes = {node.get("name"): str(node.get("phase")) for node in object_at(status, "nodes").values()}
    gate, verify = nodes.get(f"{name}.{GATE_NODE}"), nodes.get(f"{name}.{VERIFY_NODE}")
    phase, shutdown = status.get("phase"), bool(object_at(workflow, "spec").get("shutdown"))
    if phase in ("Succeeded", *_ENDED):
        passed = phase == "Succeeded" or (gate in ("Succeeded", "Skipped") and verify not in _ENDED)
        stopped = shutdown or str(status.get("message") or "").startswith("Stopped with strategy")
        return Stage.DONE if passed and not stopped else Stage.CLOSED
    if shutdown or gate in _ENDED or verify in _ENDED:
        return Stage.STOPPING
    if nodes.get(f"{name}.{VERDICT_NODE}") == "Succeeded":
        return Stage.DONE
    if gate == "Running":
        return Stage.WAITING
    if verify in ("Pending", "Running"):
        return Stage.VERIFYING
    return Stage.AHEAD if gate in (None, "Pending") else Stage.PAST


def untagged(workflow: Mapping[str, Any]) -> bool:
    """Whether a workflow ended green without a tag, because its pull request was not merged then."""
    name, status = object_at(workflow, "metadata").get("name"), object_at(workflow, "status")
    for node in object_at(status, "nodes").values():
        if node.get("name") == f"{name}.{TAG_NODE}" and status.get("phase") == "Succeeded":
            outputs = object_at(node, "outputs").get("parameters") or []
            return {"name": "tagged", "value": "false"}.items() <= next(
                (one for one in outputs if one.get("name") == "tagged"), {}
            ).items()
    return False


def is_of(workflow: Mapping[str, Any], template: str) -> bool:
    """Whether a workflow is of a template, and in the cluster."""
    named = object_at(object_at(workflow, "spec"), "workflowTemplateRef").get("name")
    return named == template and _label(workflow, ARCHIVING) != PERSISTED


def was_of(workflow: Mapping[str, Any], template: str) -> bool:
    """Whether a listed workflow is an archived one of a template, by its label: the list has no more of these."""
    return _label(workflow, TEMPLATE) == template and _label(workflow, ARCHIVING) == PERSISTED


def parameter_of(workflow: Mapping[str, Any], name: str) -> str:
    """Returns the value of a workflow's parameter, as it was submitted; empty if there is none."""
    given = object_at(object_at(workflow, "spec"), "arguments").get("parameters")
    found = [item.get("value") for item in given or [] if isinstance(item, dict) and item.get("name") == name]
    return "" if not found or found[0] is None else str(found[0])  # an unquoted number is no text in JSON


def object_at(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns an object in an object; an empty one if there is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _label(workflow: Mapping[str, Any], name: str) -> object:
    return object_at(object_at(workflow, "metadata"), "labels").get(name)
