"""A rendered workflow as the rules look at it: templates by name, tasks with their ancestors, every `{{...}}` with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workflows.linting.expressions import ExpressionError, names

_TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One mistake: the rule that it breaks, its place in the document, and what to do."""

    rule: str
    place: str
    text: str

    def __str__(self) -> str:
        """Returns one line for a person."""
        return f"{self.place}: {self.text} [{self.rule}]"


@dataclass(frozen=True, kw_only=True)
class Tag:
    """One `{{...}}`: its place, and the dotted names that it refers to; `error` if it is an expression that is broken."""

    place: str
    text: str
    names: tuple[str, ...]
    error: str = ""


def tags(value: Any, place: str) -> Iterator[Tag]:
    """Yields every `{{...}}` in the texts of a value."""
    for where, text in texts(value, place):
        for match in _TAG.finditer(text):
            body = match[1]
            if not body.startswith("="):
                yield Tag(place=where, text=match[0], names=(body.strip(),))
                continue
            try:
                yield Tag(place=where, text=match[0], names=tuple(names(body[1:])))
            except ExpressionError as err:
                yield Tag(place=where, text=match[0], names=(), error=str(err))


def texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yields every text in a value, keys of mappings included, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(key, place)
            yield from texts(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, Mapping) else None
            yield from texts(item, f"{place}.{name}" if isinstance(name, str) else f"{place}[{index}]")


@dataclass(frozen=True)
class Template:
    """One template of a workflow."""

    body: Mapping[str, Any]
    where: str

    @property
    def name(self) -> str:
        """Its name; empty if it has none, which the schema refuses."""
        return str(self.body.get("name", ""))

    @property
    def place(self) -> str:
        """Its place, for findings."""
        return f"{self.where}: {self.name}"

    @property
    def main(self) -> Mapping[str, Any] | None:
        """Its container or script; None if it makes no pod."""
        main = self.body.get("container") or self.body.get("script")
        return main if isinstance(main, Mapping) else None

    def parameters(self, side: str) -> dict[str, Mapping[str, Any]]:
        """Returns its parameters, `side` being inputs or outputs, by name."""
        return {item["name"]: item for item in (self.body.get(side) or {}).get("parameters") or []}

    @cached_property
    def tasks(self) -> dict[str, Mapping[str, Any]]:
        """Its tasks by name, if it is a DAG."""
        return {task["name"]: task for task in (self.body.get("dag") or {}).get("tasks") or []}

    def depends_on(self, task: Mapping[str, Any]) -> set[str]:
        """Returns the tasks that a task names as its dependencies, whether they exist or not."""
        named = _TASK.findall(re.sub(r"\.[A-Za-z]+", "", str(task.get("depends") or "")))
        return {*named, *(task.get("dependencies") or [])}

    def ancestors(self, name: str) -> set[str]:
        """Returns all tasks that a task comes after; itself among them if there is a cycle."""
        found: set[str] = set()
        ahead = [name]
        while ahead:
            for parent in self.depends_on(self.tasks.get(ahead.pop(), {})) - found:
                found.add(parent)
                ahead.append(parent)
        return found


@dataclass(frozen=True)
class Document:
    """One rendered object that holds a workflow's spec."""

    body: Mapping[str, Any]
    where: str

    @property
    def spec(self) -> Mapping[str, Any]:
        """The workflow's spec; in a CronWorkflow it lies one deeper."""
        spec = self.body.get("spec") or {}
        found = spec.get("workflowSpec", spec)
        return found if isinstance(found, Mapping) else {}

    @cached_property
    def templates(self) -> list[Template]:
        """Its templates in their order."""
        return [Template(template, self.where) for template in self.spec.get("templates") or []]

    @cached_property
    def by_name(self) -> dict[str, Template]:
        """Its templates by name."""
        return {template.name: template for template in self.templates}

    @property
    def parameters(self) -> set[str]:
        """The names of the workflow's own parameters."""
        return {item["name"] for item in (self.spec.get("arguments") or {}).get("parameters") or []}
