"""Argo's schema, as Hera's models have it (generated from Argo's own): a field that no model knows is a typo.

Argo refuses such a field itself, but only where there is an Argo; `kubectl apply --validate=ignore` drops it in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hera.workflows import models as m
from pydantic import BaseModel, ValidationError

from workflows.linting.document import Finding

_MODELS: Mapping[str, type[BaseModel]] = {
    "WorkflowTemplate": m.WorkflowTemplate,
    "Workflow": m.Workflow,
    "CronWorkflow": m.CronWorkflow,
    "WorkflowEventBinding": m.WorkflowEventBinding,
}
CHECKED_KINDS = frozenset(_MODELS)
WORKFLOW_KINDS = CHECKED_KINDS - {"WorkflowEventBinding"}
"""Those that hold a workflow's spec."""


def check(document: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Yields what the schema refuses: wrong types, missing fields, and fields that it does not have."""
    model = _MODELS.get(str(document.get("kind")))
    if model is None:
        return
    try:
        read = model.model_validate(document)
    except ValidationError as err:
        for error in err.errors():
            place = ".".join(str(part) for part in error["loc"])
            yield Finding(rule="schema", place=f"{where}: {place}", text=error["msg"])
        return
    kept = read.model_dump(by_alias=True, exclude_unset=True, mode="json")
    for place in _lost(document, kept, ""):
        yield Finding(rule="schema", place=f"{where}: {place}", text="Argo's schema has no such field")


def _lost(given: Any, kept: Any, place: str) -> Iterator[str]:
    """Yields the places of keys that did not survive the models."""
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for key, value in given.items():
            inner = f"{place}.{key}".lstrip(".")
            if key not in kept:
                yield inner
            else:
                yield from _lost(value, kept[key], inner)
    elif isinstance(given, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=False)):
            name = one.get("name", index) if isinstance(one, Mapping) else index
            yield from _lost(one, other, f"{place}.{name}")
