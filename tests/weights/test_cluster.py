"""Logs of a cluster against a stand-in server that speaks the paths of Kubernetes and of Argo's server."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from shardlib import cli
from shardlib.errors import WeightsError
from shardlib.weights import argo_server, kube, podlogs
from shardlib.weights.findings import Unread
from tests.weights import reading

STAMP = "2026-09-11T15:05:09.310494700Z "


def block(shard: str, seconds: float = 1.5) -> str:
    lines = [
        'time="2026-09-11T15:05:09Z" level=INFO msg="capturing logs" argo=true',
        f"PYTEST-DURATION-BEGIN v1 shard={shard} attempt=0 group=g1 tests=1",
        f'PYTEST-DURATION {seconds:.3f} passed cpu "a{shard}.py::t"',
        "PYTEST-DURATION-END group=g1",
        "Error: exit status 1",
    ]
    return "".join(f"{line}\n" for line in lines)


def workflow(number: int, nodes: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    finished = {"startedAt": f"2026-09-{number + 10}T00:00:00Z", "finishedAt": f"2026-09-{number + 10}T01:00:00Z"}
    return {
        "metadata": {"name": f"gpu-ci-{number}", "uid": f"uid-{number}"},
        "status": {**finished, **status, **({} if nodes is None else {"nodes": nodes})},
    }


def node(*artifacts: str, kind: str = "Pod") -> dict[str, Any]:
    return {"type": kind, "outputs": {"artifacts": [{"name": name} for name in artifacts]}}


def pod(name: str, number: int, phase: str = "Succeeded") -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Workflow", "name": f"gpu-ci-{number}", "uid": f"uid-{number}"}
    meta = {"name": name, "creationTimestamp": f"2026-09-{number + 10}T00:00:00Z", "ownerReferences": [owner]}
    return {"metadata": meta, "status": {"phase": phase}}


@dataclass
class Cluster:
    """What the stand-in answers: a text, an object, or a list that it hands out page by page (one item each).

    The list of workflows has no pages: without an archive it ends at a limit, with one it always says that there is more.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], str | None]] = field(default_factory=list)
    url: str = ""
    missing_bytes: int = 0  # of a log: promised, and never sent

    def answer(self, target: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        path, query = unquote(parts.path), {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.asked.append((path, query, authorization))
        value = self.answers.get(path)
        if isinstance(value, int):
            return value, {"Location": "http://127.0.0.1:1/elsewhere"}, b"no"
        if value is None:
            return 404, {}, b"{}"
        if isinstance(value, list) and path.startswith("/api/v1/workflows/"):
            limited = "listOptions.limit" in query
            value = {"metadata": {} if limited else {"continue": "9"}, "items": value[:1] if limited else value}
        elif isinstance(value, list):
            at = int(query.get("continue") or query.get("listOptions.continue") or 0)
            more = {"continue": str(at + 1)} if at + 1 < len(value) else {}
            value = {"metadata": more, "items": value[at : at + 1]}
        text = value if isinstance(value, str) else json.dumps(value)
        kind = "text/plain" if isinstance(value, str) else "application/json"
        return 200, {"Content-Type": kind}, text.encode()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    state = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = state.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            length = len(body) + (state.missing_bytes if self.path.partition("?")[0].endswith("/log") else 0)
            for key, value in {**headers, "Content-Length": str(length)}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def archive(cluster: Cluster) -> None:
    """Two workflows in the cluster, one of which runs still, and one that only the archive has."""
    base, archived = "/api/v1/workflows/ci", "/api/v1/archived-workflows"
    logs = {"n1": node("main-logs"), "n2": node("main-logs", "report"), "dag": node(kind="DAG"), "n3": node()}
    cluster.answers = {
        base: [workflow(2, finishedAt=None), workflow(1)],
        f"{base}/gpu-ci-1": workflow(1, logs),
        "/artifact-files/ci/workflows/gpu-ci-1/n1/outputs/main-logs": block("01"),
        "/artifact-files/ci/workflows/gpu-ci-1/n2/outputs/main-logs": block("02", 2.5),
        archived: [workflow(1), workflow(3)],
        f"{archived}/uid-3": workflow(3, {"n1": node("main-logs")}),
        "/artifact-files/ci/archived-workflows/uid-3/n1/outputs/main-logs": block("01", 3.5),
    }


def rows(folder: Path) -> dict[str, dict[str, float]]:
    return {run.run: {sample.id: sample.seconds for sample in run.samples} for run in reading.read_all(folder)}


def test_archived_logs_come_through_argos_server(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(cluster)
    monkeypatch.setenv("ARGO_TOKEN", "Bearer abc")
    call = ["weights", "collect", "--from-argo", "ci", "--argo-server", cluster.url, "-o", str(tmp_path)]
    assert cli.main(call) == 0
    assert rows(tmp_path) == {"uid-1": {"a01.py::t": 1.5, "a02.py::t": 2.5}, "uid-3": {"a01.py::t": 3.5}}
    runs = {run.run: run for run in reading.read_all(tmp_path)}
    assert {sample.pod for sample in runs["uid-1"].samples} == {"01/0", "02/0"}
    assert runs["uid-1"].when == 1789084800  # 2026-09-11T00:00:00Z
    assert {authorization for _, _, authorization in cluster.asked} == {"Bearer abc"}
    assert (
        "/api/v1/archived-workflows",
        {"namespace": "ci", "listOptions.limit": "100"},
        "Bearer abc",
    ) in cluster.asked


def test_a_log_that_is_gone_is_counted_and_the_rest_is_used(cluster: Cluster) -> None:
    archive(cluster)
    del cluster.answers["/artifact-files/ci/workflows/gpu-ci-1/n1/outputs/main-logs"]
    unread = Unread(source="argo")
    server = argo_server.Server(url=cluster.url)
    found = list(podlogs.runs(argo_server.pod_logs(server, "ci"), unread))
    assert [len(run.samples) for run in found] == [1, 1]
    assert unread.total == 1
    assert "n1" in unread.places[0]
    assert "404" in unread.places[0]


def test_older_workflows_are_not_even_asked_for(cluster: Cluster) -> None:
    archive(cluster)
    server = argo_server.Server(url=cluster.url)
    pods = list(argo_server.pod_logs(server, "ci", since=1789171200.0))  # 2026-09-12
    assert {pod.uid for pod in pods} == {"uid-3"}
    assert not any(path.endswith("gpu-ci-1") for path, _, _ in cluster.asked)


@pytest.mark.parametrize("answer", [401, 302, "no json", "[]", {"items": [{"metadata": {"uid": "x"}, "status": 3}]}])
def test_a_server_that_is_not_argos_or_refuses_is_said(cluster: Cluster, answer: Any) -> None:
    cluster.answers = {"/api/v1/workflows/ci": answer}
    with pytest.raises(WeightsError, match=r"http://127\.0\.0\.1.*/api/v1/"):
        list(argo_server.pod_logs(argo_server.Server(url=cluster.url, authorization="Bearer abc"), "ci"))
    assert all("elsewhere" not in path for path, _, _ in cluster.asked)


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(WeightsError, match="expected http"):
        argo_server.Server(url="file:///etc").get("/passwd")


def connected(cluster: Cluster) -> Any:
    client = pytest.importorskip("kubernetes.client", reason="the kubernetes client is not installed")
    configuration = client.Configuration()
    configuration.host = cluster.url
    configuration.retries = 0
    return client.CoreV1Api(client.ApiClient(configuration))


def test_pods_that_are_still_there_are_read_through_the_kubernetes_client(cluster: Cluster) -> None:
    base = "/api/v1/namespaces/ci/pods"
    api = connected(cluster)
    cluster.answers = {
        base: [pod("p1", 1), pod("p2", 1, "Failed"), pod("p3", 1, "Running"), pod("p4", 2), pod("p5", 2)],
        f"{base}/p1/log": "".join(f"{STAMP}{line}\n" for line in block("01").splitlines()),
        f"{base}/p2/log": block("02"),
        f"{base}/p4/log": "============ slowest durations ============\n2.50s call     b.py::t\n\n"
        "(2 durations < 0.005s hidden.  Use -vv to show these durations.)\n",
    }
    unread = Unread(source="cluster")
    found = list(podlogs.runs(kube.pod_logs(api, "ci"), unread))
    assert [(run.run, run.kind, [(row.id, row.pod) for row in run.samples]) for run in found] == [
        ("uid-1", "block", [("a01.py::t", "01/0"), ("a02.py::t", "02/0")]),
        ("uid-2", "durations", [("b.py::t", "p4")]),
    ]
    assert unread.places == ["cluster/gpu-ci-2/p5: 404 Not Found"]
    queries = {path: query for path, query, _ in cluster.asked}
    assert queries[base]["labelSelector"] == kube.WORKFLOW_LABEL
    asked = queries[f"{base}/p1/log"]
    assert (asked["container"], asked["timestamps"].lower()) == ("main", "true")


def test_a_connection_that_breaks_keeps_what_was_read_and_is_counted(cluster: Cluster) -> None:
    cluster.answers = {
        "/api/v1/namespaces/ci/pods": [pod("p1", 1)],
        "/api/v1/namespaces/ci/pods/p1/log": block("01"),
    }
    cluster.missing_bytes = 100
    unread = Unread(source="cluster")
    (run,) = podlogs.runs(kube.pod_logs(connected(cluster), "ci"), unread)
    assert [sample.id for sample in run.samples] == ["a01.py::t"]
    assert "cannot be read on" in unread.places[0]


def test_pods_that_may_not_be_listed_are_an_error(cluster: Cluster) -> None:
    cluster.answers = {"/api/v1/namespaces/ci/pods": 403}
    api = connected(cluster)
    with pytest.raises(WeightsError, match="cannot list the pods of ci: 403"):
        list(kube.pod_logs(api, "ci"))


def test_the_command_asks_the_cluster_of_the_kubeconfig(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kubernetes.client", reason="the kubernetes client is not installed")
    cluster.answers = {
        "/api/v1/namespaces/ci/pods": [pod("p1", 1)],
        "/api/v1/namespaces/ci/pods/p1/log": block("01"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {"token": "abc"}}],
        "contexts": [{"name": "ours", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config), "utf-8")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    call = ["weights", "collect", "--from-argo", "ci", "--context", "ours", "-o", str(tmp_path / "samples")]
    assert cli.main(call) == 0
    assert rows(tmp_path / "samples") == {"uid-1": {"a01.py::t": 1.5}}
    assert {authorization for _, _, authorization in cluster.asked} == {"Bearer abc"}


def test_without_the_client_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert cli.main(["weights", "collect", "--from-argo", "ci", "-o", str(tmp_path / "samples")]) == 11
    assert "`weights` needs kubernetes; install shardlib with its extra `workflows`" in capsys.readouterr().err
