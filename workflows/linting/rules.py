"""Rules about what a workflow must have and must not have; docs/architecture.md has the facts behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from workflows.linting.document import Document, Finding, Template, texts
from workflows.linting.expressions import ExpressionError, names
from workflows.linting.references import references, tasks
from workflows.linting.tokens import links, secrets, tokens

MAX_TASKS = 200  # the API server refuses more in one DAG
TRUSTED_PARAMETERS = frozenset({"pr", "sha", "repo"})  # each matches a strict pattern; all other text of a PR stays out
_LAST_RETRY = {"lastRetry.exitCode", "lastRetry.status", "lastRetry.message", "lastRetry.duration"}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DISPLAY = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-.]{0,61}[a-zA-Z0-9]")  # Argo's own, after substitution
_DISPLAY_KEY = "workflows.argoproj.io/display-name"
_REWRITTEN = re.compile(r"\$\$|\$\([A-Za-z_]\w*\)")
_BOOLEAN = re.compile(r"y|Y|n|N|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")  # of YAML 1.1, beside true and false


def lint(document: Document, *, artifacts: bool = False) -> list[Finding]:
    """Returns all mistakes in one workflow, in its own order of rules; `artifacts` says whether there is a repository."""
    found = [finding for rule in RULES for finding in rule(document)]
    return found if artifacts else [*found, *no_artifacts(document)]


def retry_expressions(document: Document) -> Iterator[Finding]:
    """Yields retry strategies whose expression is broken, which Argo sees when a pod has failed, or has no limit."""
    for template in document.templates:
        strategy = template.body.get("retryStrategy")
        if not strategy:
            continue
        expression = str(strategy.get("expression") or "")
        try:
            unknown = sorted(set(names(expression)) - _LAST_RETRY) if expression else ["no expression"]
        except ExpressionError as err:
            yield _finding("retry", template, f"the retry expression does not parse: {err}: {expression}")
            continue
        for name in unknown:
            yield _finding(
                "retry", template, f"the retry expression has {name}; known: {', '.join(sorted(_LAST_RETRY))}"
            )
        if not str(strategy.get("limit") or "").isdigit():
            yield _finding("retry", template, "the retry strategy has no limit: it would go on for ever")


def task_count(document: Document) -> Iterator[Finding]:
    """Yields DAGs of more tasks than the API server accepts."""
    for template in document.templates:
        count = len((template.body.get("dag") or {}).get("tasks") or [])
        if count > MAX_TASKS:
            yield _finding("task-count", template, f"{count} tasks; the API server takes {MAX_TASKS}: fan out instead")


def literals(document: Document) -> Iterator[Finding]:
    """Yields resources that hold a template: such a manifest cannot be parsed."""
    for template in document.templates:
        mains = [
            template.main or {},
            *(template.body.get("initContainers") or []),
            *(template.body.get("sidecars") or []),
        ]
        for main in mains:
            for place, text in texts(main.get("resources") or {}, f"{template.place}.resources"):
                if "{{" in text:
                    yield Finding(
                        rule="literal", place=place, text=f"{text}: resources take literals only (or podSpecPatch)"
                    )


def object_names(document: Document) -> Iterator[Finding]:
    """Yields names that Kubernetes or Argo refuse, and names given twice."""
    named = [(template.place, template.name) for template in document.templates]
    named += [(f"{t.place}.{name}", name) for t in document.templates for name in t.tasks]
    named.append((document.where, str((document.body.get("metadata") or {}).get("name", ""))))
    for place, name in named:
        if not _NAME.fullmatch(name):
            yield Finding(rule="name", place=place, text=f"{name!r}: lower-case letters, digits and '-', at most 63")
    for template in document.templates:
        if sum(other.name == template.name for other in document.templates) > 1:
            yield _finding("name", template, "there are two templates of this name")


def gate(document: Document) -> Iterator[Finding]:
    """Yields suspends that open by themselves, or hang: only the workflow's deadline may end one."""
    for template in document.templates:
        suspend = template.body.get("suspend")
        if suspend is None:
            continue
        if suspend.get("duration"):
            yield _finding("gate", template, "a suspend's duration ends as success: the gate opens by itself")
        for key in ("timeout", "activeDeadlineSeconds"):
            if template.body.get(key):
                yield _finding("gate", template, f"{key} does nothing on a suspend, or is refused")
        if any("supplied" in (item.get("valueFrom") or {}) for item in template.parameters("outputs").values()):
            yield _finding("gate", template, "supplied outputs hang past the workflow's deadline")
        if not document.spec.get("activeDeadlineSeconds"):
            yield _finding("gate", template, "without the workflow's activeDeadlineSeconds it waits for ever")
    for template in document.templates:
        for name, task in template.tasks.items():
            skipped = [other for other in template.depends_on(task) if f"{other}.Skipped" in str(task.get("depends"))]
            if task.get("template") != "verify-gate" and any(_suspends(document, template, one) for one in skipped):
                yield _finding("gate", template, f"{name} goes on where nobody waited: only verify-gate may")


def _suspends(document: Document, template: Template, task: str) -> bool:
    target = document.by_name.get(str(template.tasks.get(task, {}).get("template")))
    return target is not None and "suspend" in target.body


def endings(document: Document) -> Iterator[Finding]:
    """Yields what keeps the verdict from coming, a retry from working, or a pod from ending."""
    for template in document.templates:
        if template.body.get("failFast"):
            yield _finding("ending", template, "failFast on a template: the aggregation never runs")
        for name, task in template.tasks.items():
            if task.get("hooks") or task.get("onExit"):
                yield _finding(
                    "ending", template, f"task {name} has a hook: a green one keeps `argo retry` from working"
                )
        if template.body.get("retryStrategy") and template.name == document.spec.get("onExit"):
            yield _finding(
                "ending", template, "a retryStrategy: past the workflow's deadline Argo fails the exit handler"
            )
        if template.body.get("timeout"):
            yield _finding("ending", template, "timeout counts the waiting for a lock; use activeDeadlineSeconds")
        if template.main and not template.body.get("activeDeadlineSeconds"):
            yield _finding(
                "ending", template, "no activeDeadlineSeconds: `argo stop` kills nothing, its GPUs stay held"
            )


def display_names(document: Document) -> Iterator[Finding]:
    """Yields display names that Argo does not see, or may refuse at run time, which leaves the workflow running for ever."""
    for template in document.templates:
        if _DISPLAY_KEY in ((template.body.get("metadata") or {}).get("annotations") or {}):
            yield _finding("display-name", template, "the pod's annotations name no node: annotate the template itself")
        text = (template.body.get("annotations") or {}).get(_DISPLAY_KEY)
        if text is None:
            continue
        sample = re.sub(r"\{\{.*?\}\}", "999.9", text)
        if not _DISPLAY.fullmatch(sample):
            yield _finding("display-name", template, f"{text!r}: letters, digits, '-' and '.' only, at most 63")


def untrusted_text(document: Document) -> Iterator[Finding]:
    """Yields ways for text of a pull request, or of Argo's rewriting, into a program."""
    for name in sorted(document.parameters - TRUSTED_PARAMETERS):
        text = f"parameter {name!r}: templates in its value would be evaluated; only {', '.join(sorted(TRUSTED_PARAMETERS))}"
        yield Finding(rule="untrusted", place=document.where, text=text)
    for template in document.templates:
        main = template.main or {}
        source = str(main.get("source") or "")
        if "{{" in source:
            yield _finding("untrusted", template, "a template in a script's source is code: pass it through env")
        if "\n" in source.strip():
            yield _finding("untrusted", template, "a script of more than one line belongs into shardlib")
        for place, text in texts([source, *(main.get("args") or []), *(main.get("command") or [])], template.place):
            if _REWRITTEN.search(text):
                yield Finding(rule="untrusted", place=place, text=f"{text!r}: Argo rewrites `$$` and `$(NAME)`")


def no_artifacts(document: Document) -> Iterator[Finding]:
    """Yields what turns a green node red where the controller has no artifact repository."""
    if document.spec.get("archiveLogs"):
        yield Finding(
            rule="artifact", place=document.where, text="archiveLogs needs an artifact repository (artifacts = true)"
        )
    for template in document.templates:
        if (template.body.get("outputs") or {}).get("artifacts"):
            yield _finding("artifact", template, "an output artifact needs an artifact repository (artifacts = true)")


def yaml_booleans(text: str, where: str) -> Iterator[Finding]:
    """Yields plain scalars that Argo's YAML 1.1 parser takes for booleans, with their lines; keys too."""
    for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
        for node in _scalars(document):
            if node.style is None and _BOOLEAN.fullmatch(node.value):
                place = f"{where}:{node.start_mark.line + 1}"
                yield Finding(rule="yaml", place=place, text=f"{node.value}: is a boolean in YAML 1.1; quote it")


def _scalars(node: Any) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item)
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            for item in pair:
                yield from _scalars(item)


def _finding(rule: str, template: Template, text: str) -> Finding:
    return Finding(rule=rule, place=template.place, text=text)


RULES: tuple[Callable[[Document], Iterator[Finding]], ...] = (
    references,
    tasks,
    retry_expressions,
    task_count,
    literals,
    object_names,
    gate,
    endings,
    tokens,
    secrets,
    links,
    display_names,
    untrusted_text,
)
