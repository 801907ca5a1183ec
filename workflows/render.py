"""The settings as files of plain YAML in a stable order, for `kubectl apply -k`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from shardlib.errors import UsageError
from shardlib.safefiles import replace
from workflows import objects, webhook
from workflows.chain import semaphore_data, workflow_template
from workflows.settings import Settings

HEADER = "# Rendered by `python -m workflows render`; change the settings, not this file.\n"
_FIRST = ["apiVersion", "kind", "metadata", "name", "namespace"]  # what a person looks for first
_BOOLEANS = {"y", "n", "yes", "no", "on", "off", "true", "false"}  # to a YAML 1.1 parser, such as Argo's


def render(settings: Settings) -> dict[str, str]:
    """Returns the text of each file by its name; equal settings give equal texts."""
    limits = {**semaphore_data(settings), **(webhook.limits() if settings.webhook else {})}
    files = {
        f"{settings.name}.yaml": [template_document(settings)],
        "accounts.yaml": objects.accounts(settings),
        "roles.yaml": objects.roles(settings),
        "network.yaml": objects.network_policies(settings),
        "semaphore.yaml": objects.config_maps(settings, limits),
        "webhook.yaml": webhook.documents(settings) if settings.webhook else [],
    }
    texts = {name: HEADER + dumps(documents) for name, documents in files.items() if documents}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": settings.namespace,
        "resources": sorted(texts),
    }
    return {**texts, "kustomization.yaml": HEADER + dumps([kustomization])}


def template_document(settings: Settings) -> dict[str, Any]:
    """Returns the WorkflowTemplate as plain values."""
    document: dict[str, Any] = workflow_template(settings).to_dict()
    return document


def write(texts: dict[str, str], folder: Path) -> None:
    """Writes each file whole, in the place of an older one.

    Raises:
        UsageError: the folder holds YAML that is not among them, which `kubectl apply -f` would install too.
        RunFolderError: it cannot be written.
    """
    strangers = sorted({path.name for path in folder.glob("*.y*ml")} - texts.keys()) if folder.is_dir() else []
    if strangers:
        raise UsageError(
            f"{folder}: holds {', '.join(strangers)}, which are not rendered; remove them or name another folder"
        )
    for name, text in texts.items():
        replace(folder, (name,), text.encode("utf-8"))


def dumps(documents: Iterable[Any]) -> str:
    """Returns YAML in which no text can be taken for anything else, by YAML 1.1 either; keys sorted, names first."""
    return "---\n".join(
        yaml.dump(_ordered(document), Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
        for document in documents
    )


class _Dumper(yaml.SafeDumper):
    """PyYAML's, but it quotes `y`, `n` and their kin, and shares no nodes by anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Says that no value is written as a reference to another."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if text.lower() in _BOOLEANS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _ordered(value: Any) -> Any:
    """Returns the value with plain types and the keys of every mapping in our order."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
        return {str(key): _ordered(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [_ordered(item) for item in value]
    return value
