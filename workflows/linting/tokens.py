"""Rules about who may get at a service account's token: never code of a pull request, by no detour."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.linting.document import Document, Finding, Template


def tokens(document: Document) -> Iterator[Finding]:
    """Yields what would put a service account's token beside code of a pull request."""
    spec = document.spec
    if spec.get("automountServiceAccountToken") is not False:
        yield Finding(rule="token", place=document.where, text="automountServiceAccountToken must be false")
    if not (spec.get("executor") or {}).get("serviceAccountName"):
        yield Finding(
            rule="token", place=document.where, text="executor.serviceAccountName must name Argo's own account"
        )
    for template in document.templates:
        if template.body.get("automountServiceAccountToken") or template.body.get("serviceAccountName"):
            yield _finding("token", template, "a template of ours takes no account of its own")
        images = {str(other.main.get("image")) for other in document.templates if other.main}
        if _holds_token(template) and len(images) > 1:
            text = f"it mounts a token in a workflow of {len(images)} images: only one that all runs in may have it"
            yield _finding("token", template, text)


def _holds_token(template: Template) -> bool:
    sources = [one for volume in template.body.get("volumes") or [] for one in _projected(volume)]
    return any("serviceAccountToken" in source for source in sources)


def _projected(volume: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return (volume.get("projected") or {}).get("sources") or []


def links(document: Document) -> Iterator[Finding]:
    """Yields what Argo's wait container, which has a token, would read through a link that code of a pull request made.

    That code runs in images that are made up at run time, and in Kaniko's.
    """
    for template in document.templates:
        main = template.main or {}
        if "{{" not in str(main.get("image")) and main.get("command") != ["/kaniko/executor"]:
            continue
        files = {one["mountPath"] for one in main.get("volumeMounts") or [] if one.get("subPath")}
        for name, parameter in template.parameters("outputs").items():
            path = (parameter.get("valueFrom") or {}).get("path")
            if path not in files:
                yield _finding(
                    "link", template, f"output {name}: {path} must be a mount of its own, or a link is followed"
                )
        if not _reads_safe_progress(str(template.body.get("podSpecPatch") or ""), files):
            yield _finding(
                "link", template, "podSpecPatch must move wait's ARGO_PROGRESS_FILE to a mount, or its tick to 0s"
            )
        archived = (template.body.get("archiveLocation") or {}).get("archiveLogs", document.spec.get("archiveLogs"))
        if archived:
            yield _finding(
                "link", template, "archiveLocation.archiveLogs must be false: wait follows a link to the log"
            )


def _reads_safe_progress(patch: str, files: set[str]) -> bool:
    try:
        containers = json.loads(patch or "{}").get("containers") or []
    except ValueError:
        return False
    found = {
        one["name"]: one["value"] for item in containers if item["name"] == "wait" for one in item.get("env") or []
    }
    tick, file = found.get("ARGO_PROGRESS_FILE_TICK_DURATION"), found.get("ARGO_PROGRESS_FILE", "")
    return tick == "0s" or file in {f"/mainctrfs{one}" for one in files}


def _finding(rule: str, template: Template, text: str) -> Finding:
    return Finding(rule=rule, place=template.place, text=text)
