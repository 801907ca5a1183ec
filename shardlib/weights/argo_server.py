"""Archived logs of workflows through Argo's server, which reads them from its artifact repository (S3, GCS, …) for us.

Needs `archiveLogs: true` and an artifact repository there. HTTP by the standard library; paths as in Argo's OpenAPI
document (WorkflowService, ArchivedWorkflowService, ArtifactService). Redirects are refused: the token is for one host.
"""

from __future__ import annotations

import functools
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from shardlib.errors import WeightsError
from shardlib.fields import short
from shardlib.weights import prefixes
from shardlib.weights.podlogs import LogGoneError, PodLog

LOGS_ARTIFACT = "main-logs"
_PAGE = 100
_LISTED = ",".join(
    f"items.{field}"
    for field in (
        "metadata.name",
        "metadata.uid",
        "metadata.creationTimestamp",
        "status.startedAt",
        "status.finishedAt",
    )
)
_TIMEOUT_SECONDS = 60.0  # of one read from the server (a guess)
_MAX_JSON_BYTES = 256 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Server:
    """An Argo server: its URL, the value of the Authorization header (None: no login), and a CA file of its own."""

    url: str
    authorization: str | None = None
    ca_file: str | None = None

    def open(self, path: str, query: dict[str, str] | None = None) -> Any:
        """Returns the body of a GET as a binary stream; OSError if there is none."""
        if not self.url.startswith(("http://", "https://")):
            raise WeightsError(f"--argo-server {self.url!r}: expected http://HOST or https://HOST")
        request = urllib.request.Request(f"{self.url.rstrip('/')}{path}{'?' if query else ''}{urlencode(query or {})}")
        if self.authorization is not None:
            request.add_header("Authorization", self.authorization)
        context = ssl.create_default_context(cafile=self.ca_file)
        opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
        return opener.open(request, timeout=_TIMEOUT_SECONDS)

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Returns a JSON object; WeightsError naming the address and what is wrong."""
        try:
            with self.open(path, query) as stream:
                body = json.loads(stream.read(_MAX_JSON_BYTES))
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as err:
            raise WeightsError(
                f"{self.url}{path}: {err}; is it Argo's server, and may this token list workflows?"
            ) from err
        if not isinstance(body, dict):
            raise WeightsError(f"{self.url}{path}: {short(body)} where an object should be; is it Argo's server?")
        return body


def pod_logs(server: Server, namespace: str, *, since: float | None = None) -> Iterator[PodLog]:
    """Yields the archived logs of a namespace's finished workflows, in the cluster and in Argo's archive.

    Raises:
        WeightsError: the server cannot be asked, or may not be.
    """
    seen: set[str] = set()
    live = f"/api/v1/workflows/{quote(namespace, safe='')}"
    for kind, path, query in (
        # All in one answer: this list tells of what is beyond a limit only where Argo has an archive (`gate.argo`).
        ("workflows", live, {"fields": _LISTED}),
        ("archived-workflows", "/api/v1/archived-workflows", {"namespace": namespace, "listOptions.limit": str(_PAGE)}),
    ):
        for item in _items(server, path, query):
            meta = _object(item, "metadata")
            name, uid = str(meta.get("name", "")), str(meta.get("uid", ""))
            status = _object(item, "status")
            started = status.get("startedAt") or meta.get("creationTimestamp")
            when = prefixes.seconds(started if isinstance(started, str) else None)
            unfinished = not status.get("finishedAt")
            if not uid or uid in seen or unfinished or (since is not None and when is not None and when < since):
                continue
            seen.add(uid)
            key = quote(name if kind == "workflows" else uid, safe="")
            whole = server.get(f"{live}/{key}" if kind == "workflows" else f"{path}/{key}")
            for node in _pods_with_logs(whole):
                address = f"/artifact-files/{quote(namespace, safe='')}/{kind}/{key}/{quote(node, safe='')}"
                yield PodLog(
                    workflow=name,
                    uid=uid,
                    pod=node,
                    when=when,
                    open=functools.partial(_open_log, server, f"{address}/outputs/{LOGS_ARTIFACT}"),
                )


def _items(server: Server, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        body = server.get(path, {**query, **({"listOptions.continue": token} if token else {})})
        items = body.get("items")
        yield from (item for item in (items if isinstance(items, list) else []) if isinstance(item, dict))
        before, token = token, str(_object(body, "metadata").get("continue") or "")
        if not token or token == before or "listOptions.limit" not in query:
            return


def _pods_with_logs(workflow: dict[str, Any]) -> list[str]:
    """Returns the ids of the nodes whose log was archived."""
    found = []
    for identity, node in _object(_object(workflow, "status"), "nodes").items():
        if not isinstance(node, dict) or node.get("type") != "Pod":
            continue
        artifacts = _object(node, "outputs").get("artifacts")
        names = (
            [each.get("name") for each in artifacts if isinstance(each, dict)] if isinstance(artifacts, list) else []
        )
        if LOGS_ARTIFACT in names:
            found.append(identity)
    return found


def _open_log(server: Server, address: str) -> Any:
    try:
        return server.open(address)
    except (OSError, http.client.HTTPException) as err:
        raise LogGoneError(f"{address}: {err}") from err


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}
