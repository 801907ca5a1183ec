"""`python -m workflows lint`: our rules, the schemas, and Argo's own lint where argo is installed."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from shardlib.errors import Exit, UsageError
from workflows import gate, settings
from workflows.linting.bindings import lint_binding
from workflows.linting.document import Document, Finding
from workflows.linting.rules import lint, yaml_booleans
from workflows.linting.schema import CHECKED_KINDS, WORKFLOW_KINDS, check
from workflows.render import dumps, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="manifests to check instead of those of the settings"
    )


def main(args: argparse.Namespace) -> int:
    """Prints every finding; returns 0 if there is none, else 1."""
    own = settings.load(args.settings) if not args.files or args.settings.exists() else None
    texts = _read(args.files) if args.files else render(settings.load(args.settings))
    findings = lint_texts(texts, artifacts=own is not None and own.artifacts)
    for finding in findings:
        print(finding)
    if own is not None and own.gate and not gate.verifies(own):
        print("note: github_secret is not set, so nothing asks GitHub: whoever may update workflows is the gate")
    argo = argo_lint(texts)
    print(
        f"{len(texts)} files, {len(findings)} findings by our rules and Argo's schema; argo lint: {argo or 'no complaint'}"
    )
    return Exit.RED if findings or (argo and not argo.startswith("not installed")) else Exit.GREEN


def _read(paths: Sequence[Path]) -> dict[str, str]:
    """Returns the texts of files; UsageError if one cannot be read."""
    try:
        return {str(path): path.read_text(encoding="utf-8") for path in paths}
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"cannot read a manifest: {err}") from err


def lint_texts(texts: Mapping[str, str], *, artifacts: bool) -> list[Finding]:
    """Returns the findings in the texts of manifest files; UsageError if one is no YAML."""
    found: list[Finding] = []
    for where, text in texts.items():
        try:
            found += yaml_booleans(text, where)
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError as err:
            raise UsageError(f"{where}: is not valid YAML: {err}") from err
        for document in documents:
            if isinstance(document, dict) and document.get("kind") in CHECKED_KINDS:
                schema = list(check(document, where))
                # A document of another shape than the schema's would trip the rules, so they come second.
                found += schema or _rules(document, where, artifacts=artifacts)
    return found


def _rules(document: Mapping[str, Any], where: str, *, artifacts: bool) -> list[Finding]:
    if document["kind"] in WORKFLOW_KINDS:
        return lint(Document(document, where), artifacts=artifacts)
    return list(lint_binding(document, where))


def argo_lint(texts: Mapping[str, str]) -> str:
    """Returns what `argo lint --offline` complains of, empty if nothing; says so where argo is not installed.

    Argo checks a template's use of workflow parameters only with a Workflow beside it, so one is put there.
    """
    argo = shutil.which("argo")
    if argo is None:
        return "not installed here, so not asked"
    documents = [item for text in texts.values() for item in yaml.safe_load_all(text) if isinstance(item, dict)]
    own = [item for item in documents if item.get("kind") in WORKFLOW_KINDS]
    own += [_example(item) for item in own if item.get("kind") == "WorkflowTemplate"]
    with tempfile.TemporaryDirectory(prefix="shardlib-") as folder:
        file = Path(folder, "workflows.yaml")
        file.write_text(dumps(own), encoding="utf-8")
        done = subprocess.run([argo, "lint", "--offline", str(file)], capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    return done.stdout.strip() or done.stderr.strip() or "failed" if done.returncode else ""


def _example(template: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Workflow that uses the template with a value for each parameter."""
    parameters = (template["spec"].get("arguments") or {}).get("parameters") or []
    values = [{"name": item["name"], "value": item.get("value") or "1"} for item in parameters]
    metadata = {"name": f"{template['metadata']['name'][:50]}-example", "namespace": template["metadata"]["namespace"]}
    spec = {"workflowTemplateRef": {"name": template["metadata"]["name"]}, "arguments": {"parameters": values}}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec}
