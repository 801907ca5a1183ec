"""Rendered chains for the tests, and ways to look at and damage them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from workflows.linting.document import Document, Finding
from workflows.linting.rules import lint
from workflows.render import template_document
from workflows.settings import Settings

ROOT = Path(__file__).parent.parent.parent
DIGEST = "sha256:" + "1" * 64
REQUIRED: dict[str, Any] = {
    "tools_image": f"registry.example.com/tools@{DIGEST}",
    "kaniko_image": f"registry.example.com/kaniko@{DIGEST}",
    "repository": "example/training",
    "image": "registry.example.com/ml/training",
}


def make_settings(**values: Any) -> Settings:
    return Settings.from_mapping({**REQUIRED, **values}, "test.toml")


def make_chain(**values: Any) -> dict[str, Any]:
    return template_document(make_settings(**values))


def template(chain: dict[str, Any], name: str) -> dict[str, Any]:
    """The template of that name, to look at or to change."""
    found: dict[str, Any] = next(one for one in chain["spec"]["templates"] if one["name"] == name)
    return found


def task(chain: dict[str, Any], name: str, dag: str = "main") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in template(chain, dag)["dag"]["tasks"] if one["name"] == name)
    return found


def damaged(chain: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(chain)


def findings(chain: dict[str, Any]) -> list[Finding]:
    return lint(Document(chain, "chain.yaml"))


def rules(chain: dict[str, Any]) -> set[str]:
    return {finding.rule for finding in findings(chain)}
