"""Rules about event bindings: what of a payload gets in, and what a delivery is answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.linting.document import Finding

NUMBER = "string(int(payload.pull_request.number))"
"""The one thing that may be taken from a payload. Without `int` a number of seven digits would be 1.2e+06."""

_DEEP = re.compile(r"payload\??\.\w+\.\w+")


def lint_binding(document: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Yields mistakes in one WorkflowEventBinding."""
    place = f"{where}: {(document.get('metadata') or {}).get('name')}"
    spec = document.get("spec") or {}
    selector, submit = str((spec.get("event") or {}).get("selector")), spec.get("submit") or {}
    for match in _DEEP.finditer(selector):
        text = f"{match[0]}: where a payload lacks it, the delivery is answered by 500; use `?.`"
        yield Finding(rule="binding", place=place, text=text)
    for parameter in (submit.get("arguments") or {}).get("parameters") or []:
        expression = (parameter.get("valueFrom") or {}).get("event")
        if expression != NUMBER:
            text = f"parameter {parameter.get('name')} is {expression}: only {NUMBER} may be taken from a payload"
            yield Finding(rule="binding", place=place, text=text)
    metadata = submit.get("metadata") or {}
    if metadata.get("name"):
        text = "a fixed name: the same delivery again would be answered by 500; use generateName"
        yield Finding(rule="binding", place=place, text=text)
    texts = [str(metadata.get("generateName")), *(str(metadata.get(key)) for key in ("labels", "annotations"))]
    if any("payload" in text.replace(NUMBER, "") for text in texts):
        yield Finding(rule="binding", place=place, text=f"only {NUMBER} may be taken from a payload")
