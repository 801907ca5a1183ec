"""Argo's server over its REST API, as far as the gate needs it: runs listed and looked at, submitted, resumed, retried, stopped.

Paths and bodies as in Argo's OpenAPI document (WorkflowService). What a call changes is never believed: whoever steers looks
again, so a call that came too early or too late only says why it did nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError

from shardlib.errors import GateError, InfrastructureError, UsageError
from shardlib.escape import printable
from shardlib.fields import parse, short
from shardlib.gate.following import StagedRun
from shardlib.gate.runs import Run
from shardlib.gate.workflows import GATE_NODE, TAG_NODE, is_of, object_at, run_of, stage_of, untagged

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""Where a pod's own token is mounted."""

_TIMEOUT = urllib3.Timeout(connect=10.0, read=60.0)  # seconds; a list of a busy namespace takes the server some
_MAX_BYTES = 64 << 20  # of one answer: a whole workflow has 1.5 MB at most, the list has a kilobyte of each
_MAX_PAGES = 1000
_PAGE = 500
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LISTED = ",".join(
    f"items.{field}"
    for field in (
        "metadata.name",
        "metadata.uid",
        "metadata.labels",
        "metadata.creationTimestamp",
        "spec.arguments",
        "spec.workflowTemplateRef",
        "status.phase",
        "status.finishedAt",
        "status.message",
    )
)


class ArgoServer:
    """One namespace of one Argo server, as one account may see it; every method raises the errors of `_ask`."""

    def __init__(self, url: str, *, namespace: str, token: str) -> None:
        self._url = url
        self._namespace = namespace
        self._path = f"/api/v1/workflows/{quote(namespace, safe='')}"
        self._token = token.removeprefix("Bearer ")  # the argo command has it in $ARGO_TOKEN
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT)

    def workflows(self, template: str) -> Iterator[dict[str, Any]]:
        """Yields the workflows of a template that are in the cluster: names, labels, parameters and phase of each."""
        token = ""
        for _ in range(_MAX_PAGES):
            query = {"fields": f"metadata,{_LISTED}", "listOptions.limit": str(_PAGE)}
            body = self._ask("GET", f"?{urlencode({**query, 'listOptions.continue': token} if token else query)}")
            items = body.get("items") or []
            for item in items if isinstance(items, list) else []:
                if isinstance(item, dict) and is_of(item, template):
                    yield item
            before, token = token, str(object_at(body, "metadata").get("continue") or "")
            if not token or token == before:
                return
        raise GateError(f"{self._url}: a list of more than {_MAX_PAGES} pages; is it Argo's server?")

    def runs(self, template: str) -> list[Run]:
        """Returns the runs of a template, oldest first; a workflow whose parameters are no pull request's is none."""
        found = [run_of(item) for item in self.workflows(template)]
        return sorted((run for run in found if run is not None), key=lambda run: run.age_key)

    def staged(self, run: Run) -> StagedRun | None:
        """Returns how far a run has come; None if it is gone."""
        try:
            workflow = self._ask("GET", f"/{_checked(run.name)}")
        except _NotFoundError:
            return None
        return StagedRun(run=run, stage=stage_of(workflow), untagged=untagged(workflow))

    def submit(self, template: str, name: str, parameters: Mapping[str, str]) -> str:
        """Starts a workflow of a template under a fixed name; returns why not, or nothing."""
        values = [{"name": key, "value": value} for key, value in parameters.items()]
        workflow = {
            "metadata": {
                "name": _checked(name),
                "namespace": self._namespace,
                "labels": {"workflows.argoproj.io/workflow-template": template},  # as `argo submit --from` does
            },
            "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": values}},
        }
        return self._tell("POST", "", {"namespace": self._namespace, "workflow": workflow})

    def resume(self, name: str) -> str:
        """Resumes a run at the gate, and nothing if it is not there yet; returns why not, or nothing."""
        return self._act(name, "resume", nodeFieldSelector=f"displayName={GATE_NODE}")

    def retry_gate(self, name: str) -> str:
        """Starts a finished run again from the gate on; returns why not, or nothing."""
        return self._act(name, "retry", restartSuccessful=True, nodeFieldSelector=f"displayName={GATE_NODE}")

    def retag(self, name: str) -> str:
        """Starts a green run's tag-image again, and nothing else; returns why not, or nothing."""
        return self._act(name, "retry", restartSuccessful=True, nodeFieldSelector=f"displayName={TAG_NODE}")

    def stop(self, name: str, message: str = "") -> str:
        """Stops a workflow; its exit handler runs. Returns why not, or nothing.

        At the gate the message becomes the node's; elsewhere Argo takes none.
        """
        if message and not self._act(name, "stop", nodeFieldSelector=f"displayName={GATE_NODE}", message=message):
            return ""
        return self._act(name, "stop")

    def _act(self, name: str, verb: str, **options: str | bool) -> str:
        body = {"namespace": self._namespace, "name": _checked(name), **options}
        return self._tell("PUT", f"/{name}/{verb}", body)

    def _tell(self, method: str, path: str, body: Mapping[str, Any]) -> str:
        """Returns nothing if the server did it; else its words, if they can mean that the workflow is elsewhere by now."""
        try:
            self._ask(method, path, body)
        except _RefusedError as err:
            return str(err)
        return ""

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns an answer.

        Raises:
            _RefusedError: the server does not do this to a workflow as it is now.
            GateError: the account may not, or the answer is not Argo's.
            InfrastructureError: the server is down or overloaded.
        """
        where = f"{self._url}{self._path}{path.partition('?')[0]}"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode("ascii")
        try:
            answer = self._pool.request(
                method,
                f"{self._url}{self._path}{path}",
                headers=headers,
                body=data,
                redirect=False,  # it would take the token along to wherever it points
                retries=False,
                preload_content=False,
            )
            try:
                text = answer.read(_MAX_BYTES + 1).decode("utf-8", "replace")
            finally:
                answer.release_conn()
        except HTTPError as err:
            raise InfrastructureError(f"{method} {where}: {printable(str(err))}") from err
        if answer.status != 200:
            raise _error(answer.status, f"{method} {where}: {answer.status} {_message(text)}")
        if len(text) > _MAX_BYTES:
            raise GateError(f"{method} {where}: answered more than {_MAX_BYTES} bytes; is it Argo's server?")
        value = parse(text, where, GateError)
        if not isinstance(value, dict):
            raise GateError(f"{method} {where}: {short(value)}, expected an object; is it Argo's server?")
        return value


class _RefusedError(GateError):
    """The server does not do what it is asked for to a workflow as it is now."""


class _NotFoundError(_RefusedError):
    """There is no such workflow."""


def _error(status: int, told: str) -> Exception:
    if status in (401, 403):
        return GateError(f"{told}; is it the token of an account that the manifests gave these rights?")
    if status == 404:
        return _NotFoundError(told)
    if status in (400, 409, 500):  # 500: Argo's word for "no suspend nodes" and "already shutdown"
        return _RefusedError(told)
    if status == 429 or status > 500:
        return InfrastructureError(told)
    return GateError(f"{told}; is it Argo's server?")


def _message(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    told = value.get("message") if isinstance(value, dict) else None
    return printable(told, 300) if isinstance(told, str) else ""


def server_address(address: str, *, secure: bool = True) -> str:
    """Returns the URL of a server; HOST:PORT, as the argo command has it in $ARGO_SERVER, is HTTPS unless not `secure`."""
    url = address.rstrip("/")
    if re.fullmatch(r"[A-Za-z0-9.-]+:[0-9]{1,5}", url):
        url = f"{'https' if secure else 'http'}://{url}"
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9_./-]*)?", url):
        raise UsageError(f"--argo-server {address!r}: expected https://HOST:PORT, or HOST:PORT")
    return url


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{short(name)} is no name of a workflow")
    return name
