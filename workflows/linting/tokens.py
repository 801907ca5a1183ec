"""Rules about who may get at a token or a Secret: never code of a pull request, by no detour."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.linting.document import Document, Finding, Template

_BUILD_LOGIN = "/kaniko/.docker"


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


def secrets(document: Document) -> Iterator[Finding]:
    """Yields Secrets that code of a pull request could read: only a build has one, the login of what it pushes."""
    for template in document.templates:
        main = template.main or {}
        if not _runs_foreign_code(main):
            continue
        volumes = template.body.get("volumes") or []
        held = {str(one["name"]) for one in volumes if any("secret" in source for source in (one, *_projected(one)))}
        read = [str(one["mountPath"]) for one in main.get("volumeMounts") or [] if one["name"] in held]
        read += [str(one["name"]) for one in main.get("env") or [] if "secretKeyRef" in (one.get("valueFrom") or {})]
        read += ["envFrom"] if main.get("envFrom") else []
        for place in read:
            if place != _BUILD_LOGIN:
                yield _finding("secret", template, f"{place}: code of the pull request can read it")


def links(document: Document) -> Iterator[Finding]:
    """Yields what Argo's wait container, which has a token, would read through a link that code of a pull request made."""
    for template in document.templates:
        main = template.main or {}
        if not _runs_foreign_code(main):
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


def _runs_foreign_code(main: Mapping[str, Any]) -> bool:
    """Whether it is an image that is made up at run time, or Kaniko's, where a Dockerfile's code runs."""
    return "{{" in str(main.get("image")) or main.get("command") == ["/kaniko/executor"]


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
