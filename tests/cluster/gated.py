"""A project behind its gate: pull requests on a stand-in GitHub, their commits on the git server, deliveries to Argo's server.

What people do there changes both, and returns the delivery that GitHub makes of it; whether, when and how often that
arrives is the test's to say. Left out: GitHub's own sending (its limit of 10 seconds, its page of recent deliveries), and
all fields of a payload that nothing of ours reads.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from shardlib.gate.runs import run_name
from tests.cluster.cluster import LIMIT_SECONDS, Cluster, Run, Workflow
from tests.cluster.installation import Installation
from tests.cluster.repositories import Repository
from tests.gate import github_shapes
from tests.gate.github_server import INSTALLATION, GitHubServer

CLIENTS = "argo-workflows-webhook-clients"  # where Argo's server looks, one for the whole namespace

Payload = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What Argo's server says to a delivery."""

    status: int
    body: str


@dataclass(frozen=True, kw_only=True)
class GatedProject:
    """A repository, what GitHub knows of it, and the chain that its deliveries start."""

    installation: Installation
    repository: Repository
    github: GitHubServer
    secret: str  # what GitHub and Argo's server share
    head: str  # of the branch `pr`, which changes GPU code

    @property
    def cluster(self) -> Cluster:
        return self.installation.cluster

    @property
    def name(self) -> str:
        return self.installation.name

    # What people do. Each returns the payload of GitHub's delivery.

    def opened(
        self, branch: str = "pr", files: Mapping[str, str] | None = None, *, by: str = "writer", fork: str | None = None
    ) -> Payload:
        """Opens a pull request of the branch `pr`, or of a new one with these files; `fork` is OWNER/NAME."""
        head = self.head if files is None else self.repository.push(branch, files, base="main")
        with self.github.lock:
            self.github.state.push(branch, head, by=by, repository=fork)
            pull = self.github.state.open(branch, by=by, repository=fork)
        return self.payload(pull.number, "opened")

    def pushed(self, number: int, files: Mapping[str, str], *, by: str = "writer") -> Payload:
        """Puts one commit more on its branch."""
        pull = self.github.state.pulls[number]
        before = pull.head_sha
        head = self.repository.push(pull.head_ref, files, base=before)
        with self.github.lock:
            self.github.state.push(pull.head_ref, head, by=by, repository=pull.head_repository)
        return self.payload(number, "synchronize", before=before, after=head)

    def force_pushed(self, number: int, head: str, *, by: str = "writer") -> Payload:
        """Moves its branch to any commit that is there."""
        pull = self.github.state.pulls[number]
        before = pull.head_sha
        self.repository.point(pull.head_ref, head)
        with self.github.lock:
            self.github.state.force_push(pull.head_ref, head, by=by, repository=pull.head_repository)
        return self.payload(number, "synchronize", before=before, after=head)

    def labelled(self, number: int, name: str = "run-gpu-tests", *, by: str = "maintainer") -> Payload:
        with self.github.lock:
            self.github.state.label(number, name, by=by)
        return self.payload(number, "labeled", label=_label(name))

    def unlabelled(self, number: int, name: str = "run-gpu-tests", *, by: str = "maintainer") -> Payload:
        with self.github.lock:
            self.github.state.unlabel(number, name, by=by)
        return self.payload(number, "unlabeled", label=_label(name))

    def closed(self, number: int, *, by: str = "writer") -> Payload:
        with self.github.lock:
            self.github.state.close(number, by=by)
        return self.payload(number, "closed")

    def reopened(self, number: int, *, by: str = "writer") -> Payload:
        with self.github.lock:
            self.github.state.reopen(number, by=by)
        return self.payload(number, "reopened")

    def merged(self, number: int, *, by: str = "maintainer") -> Payload:
        """Merges it by moving the base branch to its head."""
        pull = self.github.state.pulls[number]
        self.repository.point(pull.base_ref, pull.head_sha)
        with self.github.lock:
            self.github.state.merge(number, by=by)
            self.github.state.branches[self.github.state.repository, pull.base_ref] = pull.head_sha
        return self.payload(number, "closed")

    def payload(self, number: int, action: str, **more: Any) -> Payload:
        """Returns a delivery about the pull request as it is now, as GitHub's "Webhook events and payloads" has it."""
        with self.github.lock:
            state = self.github.state
            return {
                "action": action,
                "number": number,
                "pull_request": github_shapes.pull(state, state.pulls[number]),
                "repository": github_shapes.repository(state.repository),
                "sender": {"login": "somebody", "id": 1, "type": "User"},
                "installation": {"id": int(INSTALLATION)},
                **more,
            }

    # What GitHub does.

    def deliver(
        self, event: str, payload: object, *, signature: str | None = None, delivery: str | None = None
    ) -> Answer:
        """Sends a delivery to Argo's server as GitHub does and returns the answer.

        Args:
            event: what X-GitHub-Event says.
            payload: sent as JSON; bytes as they are.
            signature: instead of the right one; "" for none.
            delivery: its GUID, which a redelivery keeps.
        """
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        signed = f"sha256={hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}"
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/044aadd",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
            "X-GitHub-Hook-ID": "292430182",
        }
        if signature != "":
            headers["X-Hub-Signature-256"] = signed if signature is None else signature
        request = urllib.request.Request(f"{argo_server()}/api/v1/events/{self.cluster.namespace}/", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as err:
            with err:
                return Answer(err.code, err.read().decode())

    def tell(self, payload: Payload) -> None:
        """Sends a pull request's delivery, which must be taken."""
        answer = self.deliver("pull_request", payload)
        assert answer.status == 200, answer

    # What came of it.

    def run(self, number: int = 1, head: str | None = None) -> Run:
        """The run of a head; by default of the branch `pr`."""
        return Run(self.cluster, run_name(self.name, str(number), head or self.head))

    def looks(self) -> list[Workflow]:
        """The workflows that deliveries started."""
        return _of(self.cluster, f"{self.name}-open-gate", f"{self.name}-close-gate")

    def looked(self, seconds: float = LIMIT_SECONDS) -> list[Workflow]:
        """The same, once all of them have ended."""
        deadline = time.monotonic() + seconds
        looks = self.looks()
        while any(map(is_live, looks)):
            assert time.monotonic() < deadline, [(one.body["metadata"]["name"], one.phase) for one in looks]
            time.sleep(0.5)
            looks = self.looks()
        return looks

    def runs(self) -> list[Workflow]:
        """The runs of all its pull requests."""
        return _of(self.cluster, self.name)

    def swept(self) -> Run:
        """One run of the sweep, which the tests start themselves."""
        done = self.cluster.argo("submit", "--from", f"cronwf/{self.name}-sweep", "-o", "name")
        return Run(self.cluster, done.stdout.strip())

    def check(self, head: str | None = None) -> dict[str, Any] | None:
        """The check run that GitHub shows for a head; None if there is none."""
        with self.github.lock:
            found = [one for one in self.github.state.check_runs.values() if one["head_sha"] == (head or self.head)]
        return found[-1] if found else None


def is_live(workflow: Workflow) -> bool:
    """Whether it has not ended."""
    return not workflow.body.get("status", {}).get("finishedAt")


def argo_server() -> str:
    """Argo's server as pods and GitHub reach it."""
    return f"http://{os.environ['ARGO_SERVER']}"


def settings_of(cluster: Cluster, name: str, github: GitHubServer, folder: Path) -> dict[str, Any]:
    """Makes the Secret with the App's credentials and returns the settings that make a project a gated one."""
    github.write_credentials(folder, app=True)
    values = {path.name: path.read_text() for path in folder.iterdir()}
    metadata = {"name": f"{name}-github", "namespace": cluster.namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
    return {
        "github_api": f"http://{cluster.node_address}:{github.server_address[1]}",
        "github_secret": f"{name}-github",
        "argo_server": argo_server(),
        "webhook": True,
    }


def accept(cluster: Cluster, name: str) -> str:
    """Lets Argo's server take deliveries for a project that was just installed, and returns the secret of them.

    The sweep is suspended: the tests run it when they mean to.
    """
    secret = secrets.token_hex(20)
    _set_client(cluster, name, f"type: github\nsecret: {secret}\n")
    cluster.kubectl(
        "wait", "--for=jsonpath={.data.token}", f"secret/{name}-webhook.service-account-token", "-n", cluster.namespace
    )
    _patch(cluster, f"cronworkflow/{name}-sweep", {"spec": {"suspend": True}})
    return secret


def refuse(cluster: Cluster, name: str) -> None:
    """Ends it again, with all that would go on by itself."""
    _set_client(cluster, name, None)
    parts = [*(f"workfloweventbinding/{name}-{one}" for one in ("submit", "open-gate", "close-gate"))]
    cluster.kubectl("delete", "-n", cluster.namespace, "--ignore-not-found", *parts, f"cronworkflow/{name}-sweep")
    left = [one for one in _of(cluster, name, f"{name}-open-gate", f"{name}-close-gate") if is_live(one)]
    for workflow in left:
        cluster.argo("terminate", str(workflow.body["metadata"]["name"]), check=False)  # it may end by itself


def _of(cluster: Cluster, *templates: str) -> list[Workflow]:
    items = cluster.custom.list_namespaced_custom_object("argoproj.io", "v1alpha1", cluster.namespace, "workflows")[
        "items"
    ]
    return [Workflow(item) for item in items if item["spec"].get("workflowTemplateRef", {}).get("name") in templates]


def _set_client(cluster: Cluster, name: str, text: str | None) -> None:
    """Changes one key of the Secret that all installations of the namespace share."""
    try:
        metadata = client.V1ObjectMeta(name=CLIENTS)
        cluster.core.create_namespaced_secret(cluster.namespace, client.V1Secret(metadata=metadata))
    except ApiException as err:
        if err.status != 409:  # it is there
            raise
    value = None if text is None else base64.b64encode(text.encode()).decode()
    _patch(cluster, f"secret/{CLIENTS}", {"data": {f"{name}-webhook": value}})


def _patch(cluster: Cluster, what: str, patch: object) -> None:
    command = ("patch", what, "-n", cluster.namespace, "--type=merge", "--patch-file=/dev/stdin")
    cluster.kubectl(*command, stdin=json.dumps(patch))


def _label(name: str) -> dict[str, Any]:
    return {"id": 1, "name": name, "color": "ededed"}
