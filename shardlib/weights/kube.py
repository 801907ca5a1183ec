"""Logs of Argo's pods that are still there, through the kubernetes client: its configuration and logins, our parser.

The client is imported where it is needed: only who asks for a cluster needs it (the extra `workflows`).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from typing import Any

from shardlib.errors import WeightsError
from shardlib.weights.podlogs import LogGoneError, PodLog

WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
CONTAINER = "main"  # Argo's name for the container of a template
_PAGE = 200
_ENDED = ("Succeeded", "Failed")


def connect(context: str | None = None) -> Any:
    """Returns the client's CoreV1Api: of the pod that this runs in, else of the user's kubeconfig.

    Raises:
        WeightsError: there is no cluster to ask.
    """
    from kubernetes import client, config

    try:
        if context is None:
            config.load_config()
        else:
            config.load_kube_config(context=context)
    except (config.ConfigException, OSError, TypeError) as err:  # TypeError: an empty kubeconfig
        raise WeightsError(f"--from-argo: no cluster to ask: {err}; does `kubectl get pods` work here?") from err
    return client.CoreV1Api()


def pod_logs(api: Any, namespace: str, *, since: float | None = None) -> Iterator[PodLog]:
    """Yields the logs of the namespace's ended pods of workflows; of a running one the log is not whole.

    Raises:
        WeightsError: the pods cannot be listed.
    """
    token: str | None = None
    while True:
        try:
            page = api.list_namespaced_pod(namespace, label_selector=WORKFLOW_LABEL, limit=_PAGE, _continue=token)
        except _errors() as err:
            raise WeightsError(f"cannot list the pods of {namespace}: {_reason(err)}; may you?") from err
        for pod in page.items:
            owners = [owner for owner in pod.metadata.owner_references or [] if owner.kind == "Workflow"]
            when = pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else None
            if (
                not owners
                or pod.status.phase not in _ENDED
                or (since is not None and when is not None and when < since)
            ):
                continue
            yield PodLog(
                workflow=owners[0].name,
                uid=owners[0].uid,
                pod=pod.metadata.name,
                when=when,
                open=functools.partial(_open_log, api, namespace, pod.metadata.name),
            )
        token = page.metadata._continue
        if not token:
            return


def _open_log(api: Any, namespace: str, pod: str) -> Any:
    try:
        response = api.read_namespaced_pod_log(
            pod, namespace, container=CONTAINER, timestamps=True, _preload_content=False
        )
    except _errors() as err:
        raise LogGoneError(_reason(err)) from err
    response.auto_close = False  # urllib3 would close at the end, and reading at the end be an error
    return _Body(response)


class _Body(io.RawIOBase):
    """A response's bytes, whose errors are OSErrors as those of files are."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._some = getattr(response, "read1", response.read)  # what has come, before the error; urllib3 1 lacks it

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._some(len(buffer))
        except _errors() as err:
            raise OSError(f"the log broke off: {err}") from err
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._response.close()
        super().close()


def _errors() -> tuple[type[Exception], ...]:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    return ApiException, HTTPError, OSError


def _reason(err: Exception) -> str:
    status, reason = getattr(err, "status", None), getattr(err, "reason", None)
    return f"{status} {reason}" if status else str(err)
