"""Rules about what a workflow's texts refer to: each `{{...}}` must be known where it stands, or the run hangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.linting.document import Document, Finding, Tag, Template, tags

_PREFIXES = ("workflow", "inputs", "outputs", "tasks", "item", "pod", "node", "retries", "lastRetry")
_WORKFLOW = {
    "name",
    "namespace",
    "uid",
    "status",
    "duration",
    "serviceAccountName",
    "creationTimestamp",
    "priority",
    "failures",
}
_ANYWHERE = _WORKFLOW - {"status", "duration", "failures"}
RESULTS = frozenset({"Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed"})


def references(document: Document) -> Iterator[Finding]:
    """Yields every `{{...}}` that Argo could not resolve where it stands."""
    for template in document.templates:
        body = {key: value for key, value in template.body.items() if key != "dag"}
        for tag in tags(body, template.place):
            yield from _check_tag(document, template, None, tag)
        for name, task in template.tasks.items():
            for tag in tags(task, f"{template.place}.{name}"):
                yield from _check_tag(document, template, task, tag)


def _check_tag(document: Document, template: Template, task: Mapping[str, Any] | None, tag: Tag) -> Iterator[Finding]:
    if tag.error:
        yield Finding(rule="expression", place=tag.place, text=f"{tag.text} does not parse: {tag.error}")
    for name in tag.names:
        complaint = _complaint(document, template, task, name)
        if complaint:
            rule = complaint[0]
            yield Finding(rule=rule, place=tag.place, text=f"{tag.text}: {complaint[1]}")


def _complaint(
    document: Document, template: Template, task: Mapping[str, Any] | None, name: str
) -> tuple[str, str] | None:
    prefix, _, rest = name.partition(".")
    if prefix not in _PREFIXES:
        return "prefix", f"{prefix!r} is no prefix that Argo knows: {', '.join(_PREFIXES)}"
    if prefix == "tasks":
        return _task_complaint(document, template, task, rest)
    if (
        prefix == "inputs"
        and rest.startswith("parameters.")
        and rest.split(".")[1] not in template.parameters("inputs")
    ):
        return "undeclared", f"{template.name} has no such input; declare it"
    if prefix == "workflow":
        return _workflow_complaint(document, template, rest)
    if prefix == "item" and not (task and (task.get("withParam") or task.get("withItems"))):
        return "undeclared", "there is no item without withParam"
    if prefix in ("retries", "lastRetry") and not template.body.get("retryStrategy"):
        return "undeclared", f"{template.name} has no retryStrategy"
    return None


def _workflow_complaint(document: Document, template: Template, rest: str) -> tuple[str, str] | None:
    if rest.startswith("parameters."):
        known = rest.split(".")[1] in document.parameters
        return None if known else ("undeclared", "the workflow has no such parameter; declare it in its arguments")
    exit_handler = template.name == document.spec.get("onExit")
    if rest.split(".")[0] in (_WORKFLOW if exit_handler else _ANYWHERE):
        return None
    return "undeclared", "Argo has no such variable here"


def _task_complaint(
    document: Document, template: Template, task: Mapping[str, Any] | None, rest: str
) -> tuple[str, str] | None:
    name, _, what = rest.partition(".")
    if task is None:
        return "ancestor", "tasks are known in a DAG's tasks only; pass it as an argument"
    if name not in template.ancestors(task["name"]):
        return "ancestor", f"{task['name']} does not depend on {name}, so this hangs for ever; add it to depends"
    other = template.tasks.get(name, {})
    if what.startswith("outputs") and (other.get("withParam") or other.get("withItems")):
        return "aggregated", f"{name} is a fan-out: its failed items vanish here, and it hangs if all fail"
    target = document.by_name.get(str(other.get("template")))
    if what.startswith("outputs.parameters.") and target and what.split(".")[2] not in target.parameters("outputs"):
        return "undeclared", f"template {target.name} has no such output"
    if what == "outputs.result" and target and not target.body.get("script"):
        return "undeclared", f"template {target.name} is no script, so its stdout is no result"
    return None


def tasks(document: Document) -> Iterator[Finding]:
    """Yields tasks that name no template, give it wrong arguments, or depend on what does not exist."""
    for template in document.templates:
        for name, task in template.tasks.items():
            place = f"{template.place}.{name}"
            yield from (Finding(rule="task", place=place, text=text) for text in _task_texts(document, template, task))
            if name in template.ancestors(name):
                yield Finding(rule="cycle", place=place, text="it depends on itself")


def _task_texts(document: Document, template: Template, task: Mapping[str, Any]) -> Iterator[str]:
    target = document.by_name.get(str(task.get("template")))
    if target is None:
        yield f"there is no template {task.get('template')!r}"
    else:
        given = {item["name"] for item in (task.get("arguments") or {}).get("parameters") or []}
        declared = target.parameters("inputs")
        needed = {name for name, item in declared.items() if item.get("value") is None and item.get("default") is None}
        yield from (f"template {target.name} needs the argument {name!r}" for name in sorted(needed - given))
        yield from (f"template {target.name} has no input {name!r}" for name in sorted(given - declared.keys()))
    for name in sorted(template.depends_on(task) - template.tasks.keys()):
        yield f"it depends on {name!r}, which is no task here"
    for part in str(task.get("depends") or "").replace("(", " ").replace(")", " ").replace("!", " ").split():
        if "." in part and part.split(".")[1] not in RESULTS:
            yield f"depends says {part!r}; a task's results are {', '.join(sorted(RESULTS))}"
