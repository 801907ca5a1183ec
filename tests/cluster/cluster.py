"""A cluster as the tests see it: the API server through its client, Argo through its command, the shared volume's folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

LIMIT_SECONDS = 420.0  # for each thing that is waited for; on two idle cores all take well under a minute
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Node:
    """A node of a workflow's status."""

    body: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["displayName"])

    @property
    def template(self) -> str:
        return str(self.body.get("templateName", ""))

    @property
    def phase(self) -> str:
        return str(self.body.get("phase", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def exit_code(self) -> int | None:
        code = self.body.get("outputs", {}).get("exitCode")
        return None if code is None else int(code)

    def output(self, name: str) -> str:
        found = {one["name"]: one.get("value", "") for one in self.body.get("outputs", {}).get("parameters", [])}
        assert name in found, f"{self.name} ({self.phase}: {self.message}) has no output {name}, only {sorted(found)}"
        return str(found[name])

    def input(self, name: str) -> str:
        (value,) = (one["value"] for one in self.body["inputs"]["parameters"] if one["name"] == name)
        return str(value)


@dataclass(frozen=True)
class Workflow:
    """A workflow as it was when it was read."""

    body: dict[str, Any]

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def phase(self) -> str:
        return str(self.body.get("status", {}).get("phase", ""))

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order of their starts."""
        nodes = [Node(body) for body in self.body.get("status", {}).get("nodes", {}).values()]
        return sorted(nodes, key=lambda node: (node.body.get("startedAt") or "9", node.name))

    def node(self, name: str) -> Node:
        """The node of a task or, with a retry strategy, the one around its attempts."""
        found = [node for node in self.nodes if node.name == name]
        assert found, f"no node {name}; there are {[node.name for node in self.nodes]}"
        return found[0]

    def attempts(self, template: str) -> list[Node]:
        """The pods of a template, in the order of their starts."""
        return [node for node in self.nodes if node.template == template and node.body["type"] == "Pod"]

    def shards(self) -> dict[str, list[Node]]:
        """The attempts of each shard of gpu-tests."""
        found: dict[str, list[Node]] = {}
        for node in self.attempts("gpu-tests"):
            found.setdefault(node.input("shard"), []).append(node)
        return dict(sorted(found.items()))

    def tree(self) -> str:
        """What a person looks at first."""
        return "\n".join(f"  {node.name:<40} {node.phase:<10} {node.message}" for node in self.nodes)


class Cluster:
    """The testbed that `run-in` is inside of, or any cluster that the same variables describe."""

    def __init__(self) -> None:
        self.namespace = os.environ["ARGO_NAMESPACE"]
        self.registry = os.environ["TESTBED_REGISTRY"]  # as pods and this process call it
        self.node_address = os.environ["TESTBED_NODE"]  # of this process, for pods
        self.volume = Path(os.environ["TESTBED_VOLUME"])  # what pods see as /mnt/ci
        self.api = config.new_client_from_config()
        self.core = client.CoreV1Api(self.api)
        self.custom = client.CustomObjectsApi(self.api)

    def run(self, *command: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
        assert not check or done.returncode == 0, (
            f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.run("kubectl", *arguments, stdin=stdin).stdout

    def argo(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs the argo command with the rights of a person who may submit, resume, retry and stop."""
        return self.run("argo", *arguments, check=check)

    def apply(self, *documents: dict[str, Any]) -> None:
        body = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))

    def workflow(self, name: str) -> Workflow | None:
        """The workflow; None while the API server does not answer, or if there is none."""
        group = ("argoproj.io", "v1alpha1", self.namespace, "workflows")
        try:
            return Workflow(self.custom.get_namespaced_custom_object(*group, name, _request_timeout=20))
        except (HTTPError, ApiException):
            return None

    def pods(self, workflow: str) -> list[Any]:
        label = f"workflows.argoproj.io/workflow={workflow}"
        return list(self.core.list_namespaced_pod(self.namespace, label_selector=label).items)


@dataclass(frozen=True)
class Run:
    """A submitted workflow."""

    cluster: Cluster
    name: str

    def now(self) -> Workflow:
        return self.wait("there", lambda _: True)

    def wait(self, what: str, condition: Callable[[Workflow], bool], seconds: float = LIMIT_SECONDS) -> Workflow:
        """The workflow once the condition holds; fails with its tree if that takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            workflow = self.cluster.workflow(self.name)
            if workflow is not None and condition(workflow):
                return workflow
            tree = workflow.tree() if workflow else "  (not readable)"
            assert time.monotonic() < deadline, f"{self.name} is not {what} after {seconds:.0f} s:\n{tree}"
            time.sleep(_POLL_SECONDS)

    def end(self, phase: str, seconds: float = LIMIT_SECONDS) -> Workflow:
        """The workflow once it has ended, which must be in that phase."""
        workflow = self.wait("ended", lambda one: bool(one.body.get("status", {}).get("finishedAt")), seconds)
        assert workflow.phase == phase, f"{self.name} is {workflow.phase}:\n{workflow.tree()}"
        return workflow

    def suspended(self) -> Workflow:
        return self.wait("at the gate", lambda one: _phase(one, "wait-for-label") == "Running")

    def resume(self) -> None:
        self.cluster.argo("resume", self.name, "--node-field-selector", "displayName=wait-for-label")

    def retry(self, *options: str) -> None:
        self.cluster.argo("retry", self.name, *options)

    @property
    def folder(self) -> Path:
        """The run's folder, on the shared volume."""
        return self.cluster.volume / "runs" / self.now().uid

    def report(self) -> dict[str, Any]:
        """run.json, the aggregation's."""
        report: dict[str, Any] = json.loads((self.folder / "report" / "run.json").read_text())
        return report

    def events(self, kind: str, shard: str | None = None, attempt: int | None = None) -> list[str]:
        """The node ids of the events of a kind, e.g. `start`, in the order of attempts."""
        found = []
        for path in self._event_files(shard):
            if attempt is None or path.stem == str(attempt):
                lines = (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))
                found += [str(line["id"]) for line in lines if line.get("event") == kind]
        return found

    def _event_files(self, shard: str | None) -> Iterator[Path]:
        folders = sorted((self.folder / "shards").glob(shard or "*"))
        for folder in folders:
            yield from sorted((folder / "events").glob("*.jsonl"), key=lambda path: int(path.stem))

    def log(self, node: Node) -> str:
        """The log of a pod's main container, of the last attempt if there are several, without Argo's own lines."""
        if node.body["type"] == "Retry":
            node = [one for one in self.now().nodes if one.body["id"] in node.body["children"]][-1]
        text = self.cluster.argo("logs", self.name, self.pod_name(node), "--no-color", "-c", "main").stdout
        lines = (re.sub(r"^\S+: ", "", line) for line in text.splitlines())
        return "\n".join(line for line in lines if not line.startswith("time="))

    def pod_name(self, node: Node) -> str:
        for pod in self.cluster.pods(self.name):
            if pod.metadata.annotations.get("workflows.argoproj.io/node-id") == node.body["id"]:
                return str(pod.metadata.name)
        raise AssertionError(f"{node.name} has no pod")

    def living_pods(self) -> list[str]:
        return [pod.metadata.name for pod in self.cluster.pods(self.name) if pod.status.phase in ("Pending", "Running")]


def _phase(workflow: Workflow, name: str) -> str:
    return next((node.phase for node in workflow.nodes if node.name == name), "")


def running(template: str, count: int = 1) -> Callable[[Workflow], bool]:
    """Returns the condition that so many pods of a template run."""

    def condition(workflow: Workflow) -> bool:
        return sum(node.phase == "Running" for node in workflow.attempts(template)) >= count

    return condition


def names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]
