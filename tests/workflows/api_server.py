"""A stand-in for a Kubernetes API server: answers the paths that a cluster set up for the chain would, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes import client

from workflows.cluster import Cluster

ARGO = "/apis/argoproj.io/v1alpha1/namespaces/gpu-ci"
CORE = "/api/v1/namespaces/gpu-ci"
ALLOWED = {("gpu-ci-executor", "create", "workflowtaskresults"), ("gpu-ci-executor", "patch", "workflowtaskresults")}


class ApiServer(ThreadingHTTPServer):
    """Objects by path; `posted` is what was created."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = good_cluster()
        self.allowed = set(ALLOWED)
        self.posted: dict[str, Any] = {}
        self.forbidden: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in self.server.forbidden:
            self._answer(403, {"message": f"{path} is forbidden"})
        elif path in self.server.objects:
            self._answer(200, self.server.objects[path])
        else:
            self._answer(404, {"message": "not found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/subjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            who = body["spec"]["user"].rpartition(":")[2]
            body["status"] = {"allowed": (who, asked["verb"], asked["resource"]) in self.server.allowed}
            self._answer(201, body)
        elif self.path in self.server.forbidden:
            self._answer(403, {"message": "no"})
        else:
            name = f"{self.path}/{body['metadata']['name']}"
            fresh = name not in self.server.posted
            self.server.posted.setdefault(name, body)
            self._answer(201 if fresh else 409, body)

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving() -> Iterator[tuple[ApiServer, Cluster]]:
    with ApiServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with client.ApiClient(client.Configuration(host=server.url)) as api:
            yield server, Cluster(api)
        server.shutdown()
        thread.join()


def good_cluster() -> dict[str, Any]:
    """What a cluster must have for the settings of the repository's gpu-ci.toml."""
    crds = [_crd(name) for name in ("workflows", "workflowtemplates", "workflowtaskresults")]
    container = {"name": "c", "image": "quay.io/argoproj/workflow-controller:v4.0.5"}
    template = {"metadata": {}, "spec": {"containers": [container]}}
    controller = {"metadata": {"name": "c"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    claim = {"metadata": {}, "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    docker = {"metadata": {}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}
    token = {"metadata": {}, "type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}}
    gates = [f"workflowtemplates/gpu-ci-{name}" for name in ("open-gate", "close-gate")]
    gates += [f"workfloweventbindings/gpu-ci-{name}" for name in ("submit", "open-gate", "close-gate")]
    opaque = {"metadata": {}, "type": "Opaque"}
    return {
        **{f"{ARGO}/{path}": {"metadata": {}} for path in (*gates, "cronworkflows/gpu-ci-sweep")},
        f"{CORE}/serviceaccounts/gpu-ci-gate": {"metadata": {}},
        f"{CORE}/serviceaccounts/gpu-ci-webhook": {"metadata": {}},
        f"{CORE}/secrets/gpu-ci-github": {**opaque, "data": {"app-id": "eA==", "private-key": "eA=="}},
        f"{CORE}/secrets/argo-workflows-webhook-clients": {**opaque, "data": {"gpu-ci-webhook": "eA=="}},
        f"{CORE}/secrets/gpu-ci-webhook.service-account-token": token,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {"items": crds},
        "/apis/apps/v1/namespaces/gpu-ci/deployments": {"items": []},
        "/apis/apps/v1/namespaces/argo/deployments": {"items": [controller]},
        "/api/v1/namespaces/gpu-ci": {"metadata": {"name": "gpu-ci", "labels": {}}},
        f"{CORE}/serviceaccounts/gpu-ci": {"metadata": {}},
        f"{CORE}/serviceaccounts/gpu-ci-executor": {"metadata": {}},
        f"{CORE}/configmaps/gpu-ci-semaphore": {"metadata": {}},
        f"{ARGO}/workflowtemplates/gpu-ci": {"metadata": {}},
        f"{CORE}/secrets/gpu-ci-executor.service-account-token": token,
        f"{CORE}/secrets/gpu-ci-build-registry": docker,
        f"{CORE}/secrets/gpu-ci-tag-registry": docker,
        f"{CORE}/persistentvolumeclaims/mnt-ci": claim,
        "/v2/": {},  # a registry beside it
        "/api/v1/nodes": {"items": [node] * 12},
    }


def _crd(name: str) -> dict[str, Any]:
    names = {"kind": name, "plural": name}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    spec = {"group": "argoproj.io", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{name}.argoproj.io"}, "spec": spec}
