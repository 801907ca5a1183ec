"""Argo's server over its REST API, as far as the gate needs it: runs listed and looked at, submitted, resumed, retried, stopped.

Paths and bodies as in Argo's OpenAPI document (WorkflowService). What a call changes is never believed: whoever steers looks
again, so a call that came too early or too late only says why it did nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
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
from shardlib.gate.workflows import (
    ARCHIVING,
    GATE_NODE,
    PERSISTED,
    TAG_NODE,
    TEMPLATE,
    is_of,
    run_of,
    stage_of,
    untagged,
    was_of,
)

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""Where a pod's own token is mounted."""

_TIMEOUT = urllib3.Timeout(connect=10.0, read=60.0)  # seconds; a list of a busy namespace takes the server some
_MAX_BYTES = 64 << 20  # of one answer: a whole workflow has 1.5 MB at most, the list has a kilobyte of each
_LONGEST_RUN = timedelta(days=91)  # the longest `deadline_seconds`, and a day for the exit handler (a guess)
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

    def workflows(self, template: str) -> list[dict[str, Any]]:
        """Returns the workflows of a template that are in the cluster and not archived: names, parameters, phase of each."""
        return [item for item in self._list(f"{ARCHIVING}!={PERSISTED}") if is_of(item, template)]

    def runs(self, template: str, *, repository: str, ended_since: datetime | None = None) -> list[Run]:
        """Returns the runs of a template, oldest first; a workflow whose parameters are no pull request's is none.

        Args:
            template: the WorkflowTemplate.
            repository: the one that a run is of that does not say.
            ended_since: with runs of Argo's archive that ended since then, some that ended before among them, whether
                or not the cluster still has them; without it only those that are not archived.
        """
        found = self.workflows(template)  # first: what is archived meanwhile is in both, and not in neither
        if ended_since is not None:
            started = (ended_since - _LONGEST_RUN).astimezone(timezone.utc)
            selector = f"{ARCHIVING}={PERSISTED},{TEMPLATE}={template}"
            archived = self._list(selector, f"spec.startedAt>{started:%Y-%m-%dT%H:%M:%SZ}")
            found = [*(item for item in archived if was_of(item, template)), *found]
        # A run that was archived and then retried is in the archive as it ended before: what the cluster says counts.
        runs = {run.uid: run for run in (run_of(item, repository) for item in found) if run is not None}
        return sorted(runs.values(), key=lambda run: run.age_key)

    def staged(self, template: str, name: str, *, repository: str) -> StagedRun | None:
        """Returns the run of that name and how far it has come; None if the cluster has no run of it (any more).

        Whether Argo has archived it does not matter: asked for a name, the server looks into the cluster first.
        """
        try:
            workflow = self._ask("GET", f"/{_checked(name)}")
        except _NotFoundError:
            return None
        run = run_of(workflow, repository) if is_of(workflow, template) else None
        return None if run is None else StagedRun(run=run, stage=stage_of(workflow), untagged=untagged(workflow))

    def submit(self, template: str, name: str, parameters: Mapping[str, str]) -> str:
        """Starts a workflow of a template under a fixed name; returns why not, or nothing."""
        values = [{"name": key, "value": value} for key, value in parameters.items()]
        workflow = {
            "metadata": {
                "name": _checked(name),
                "namespace": self._namespace,
                "labels": {TEMPLATE: template},  # as `argo submit --from` does
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

    def _list(self, labels: str, fields: str = "") -> list[dict[str, Any]]:
        """Returns the workflows with these labels, of the cluster and the archive.

        All in one answer: with a limit a server without an archive ends there and says nothing of more, and without one
        a server with an archive always says that there is more. What it has archived it lists from its database alone,
        without the template's reference, even while the cluster has it.
        """
        query = {"fields": _LISTED, "listOptions.labelSelector": labels, "listOptions.fieldSelector": fields}
        items = self._ask("GET", f"?{urlencode(query)}").get("items") or []
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

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
                raw = answer.read(_MAX_BYTES + 1)
            finally:
                answer.release_conn()
        except HTTPError as err:
            raise InfrastructureError(f"{method} {where}: {printable(str(err))}") from err
        text = raw.decode("utf-8", "replace")
        if answer.status != 200:
            raise _error(answer.status, f"{method} {where}: {answer.status} {_message(text)}")
        if len(raw) > _MAX_BYTES:
            raise GateError(
                f"{method} {where}: answered more than {_MAX_BYTES} bytes; is it Argo's server, and do workflows that "
                "ended leave the cluster (ttl_days)?"
            )
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
