"""A stand-in for Argo's server over real HTTP: paths, bodies and answers of WorkflowService as Argo 4.0.5 gives them.

It leaves out the controller (a test says when a run comes to its gate, ends, or is archived), validation, rights other than
one token's, and all that the gate does not ask for. A request that is not as Argo's OpenAPI document has it is a 400 here.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token"
ROOT = "/api/v1/workflows/ns"
_NO_SUSPEND = "currently, set only targets suspend nodes: no suspend nodes matching nodeFieldSelector: "
_TEMPLATE = "workflows.argoproj.io/workflow-template"
_ARCHIVING = "workflows.argoproj.io/workflow-archiving-status"
_FIELDS = {
    "resume": {"namespace", "name", "nodeFieldSelector"},
    "stop": {"namespace", "name", "nodeFieldSelector", "message"},
    "retry": {"namespace", "name", "restartSuccessful", "nodeFieldSelector"},
}


@dataclass
class Workflows:
    """The workflows by name, as a test changes them; `calls` is what was asked for and changed something."""

    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    archived: dict[str, dict[str, Any]] = field(default_factory=dict)  # by uid: the database of Argo's archive
    calls: list[str] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)  # statuses of the next answers
    body: bytes | None = None  # instead of any answer
    labelled_early: bool = False  # find-changed sees the label, so that the suspend is skipped

    def add(self, name: str, **parameters: str) -> dict[str, Any]:
        number = len(self.items)
        values = [{"name": key, "value": value} for key, value in parameters.items()]
        self.items[name] = {
            "metadata": {
                "name": name,
                "uid": f"uid-{number}",
                "creationTimestamp": f"2030-01-01T00:{number // 60:02}:{number % 60:02}Z",
                "labels": {_TEMPLATE: "gpu-ci"},
            },
            "spec": {"workflowTemplateRef": {"name": "gpu-ci"}, "arguments": {"parameters": values}},
            "status": {},
        }
        return self.items[name]

    def node(self, name: str, task: str, phase: str, message: str = "") -> None:
        nodes = self.items[name]["status"].setdefault("nodes", {})
        nodes[f"{name}-{task}"] = {"name": f"{name}.{task}", "displayName": task, "phase": phase, "message": message}

    def reach_the_gate(self, name: str) -> None:
        self.items[name]["status"]["phase"] = "Running"
        self.node(name, "wait-for-label", "Skipped" if self.labelled_early else "Running")

    def end(self, name: str, phase: str, message: str = "") -> None:
        self.items[name]["status"] |= {"phase": phase, "message": message, "finishedAt": "2030-01-01T01:00:00Z"}

    def archive(self, name: str) -> None:
        """What a controller with an archive does once a workflow has ended; the object stays until its time is over."""
        labels = self.items[name]["metadata"]["labels"]
        labels[_ARCHIVING] = "Persisted"
        self.archived[self.items[name]["metadata"]["uid"]] = copy.deepcopy(self.items[name])
        labels[_ARCHIVING] = "Archived"

    def listed(self, labels: str, after: str, *, limit: int, offset: int) -> dict[str, Any]:
        """Returns a list as the server makes it: of its cache, which has nothing that is archived, and of the database."""
        live = [one for one in self.items.values() if one["metadata"]["labels"].get(_ARCHIVING) != "Archived"]
        live = [one for one in live if _fits(one, labels)]
        rows = [one for one in self.archived.values() if _fits(one, labels) and _started(one) >= after]
        found = [*live, *map(_row, rows)]
        page = found[offset : offset + limit] if limit else found
        # Only the archive is asked whether there is more, and without a limit it always has.
        more = {"continue": str(offset + len(page))} if len(rows) > offset + limit else {}
        return {"metadata": more, "items": page or None}

    def named(self, name: str) -> dict[str, Any] | None:
        """Returns what the server has under a name: the object, else the newest of the archive."""
        rows = [one for one in self.archived.values() if one["metadata"]["name"] == name]
        return self.items.get(name) or max(rows, key=_started, default=None)

    def waiting(self, name: str, selector: str) -> dict[str, Any] | None:
        found = (self.items[name]["status"].get("nodes") or {}).get(f"{name}-wait-for-label")
        suits = selector == "displayName=wait-for-label" and found and found["phase"] == "Running"
        return found if suits else None

    def act(self, name: str, verb: str, body: dict[str, Any]) -> tuple[int, str]:
        workflow, selector = self.items[name], body.get("nodeFieldSelector", "")
        over = workflow["status"].get("phase") in ("Succeeded", "Failed", "Error")
        if verb == "retry":
            if not over:
                return 400, f"Cannot retry a workflow in phase {workflow['status'].get('phase')}"
            workflow["status"] = (
                {"nodes": {}} if "wait-for-label" in selector else {**workflow["status"], "phase": None}
            )
            workflow["spec"].pop("shutdown", None)
            workflow["metadata"]["labels"].pop(_ARCHIVING, None)
            if "tag-image" in selector:
                self.calls.append(f"tag {name}")
                return 200, ""
        elif selector:
            gate = self.waiting(name, selector)
            if gate is None:
                return 500, _NO_SUSPEND + selector
            gate |= {"phase": "Succeeded" if verb == "resume" else "Failed", "message": body.get("message", "")}
        elif verb == "stop":
            if over:
                return 500, f"cannot stop a workflow that is already finished: {name}"
            workflow["spec"]["shutdown"] = "Stop"
        else:
            return 400, "the gate never resumes without a selector: too early, it would do nothing and say nothing"
        self.calls.append(": ".join(text for text in (f"{verb} {name}", body.get("message")) if text))
        return 200, ""


class ArgoStandIn(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.workflows = Workflows()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ArgoStandIn
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one piece: in two, the second waits 40 ms for an acknowledgement

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        state, (path, query) = self.server.workflows, self._asked()
        if not self._refused():
            if path == ROOT:
                assert query["fields"][0].startswith("items.metadata.name,")
                asked = {name: values[0] for name, values in query.items()}
                after = asked.get("listOptions.fieldSelector", "").removeprefix("spec.startedAt>")
                limit, offset = (int(asked.get(f"listOptions.{name}", "0")) for name in ("limit", "continue"))
                labels = asked.get("listOptions.labelSelector", "")
                self._answer(200, state.listed(labels, after, limit=limit, offset=offset))
            else:
                self._one(path.removeprefix(f"{ROOT}/"))

    def do_POST(self) -> None:
        path, _ = self._asked()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        workflow, state = body["workflow"], self.server.workflows
        name = workflow["metadata"]["name"]
        if path != ROOT or body.keys() != {"namespace", "workflow"}:
            self._answer(400, {"message": "bad request"})
        elif name in state.items:
            self._answer(409, {"code": 6, "message": f'workflows.argoproj.io "{name}" already exists'})
        else:
            values = {item["name"]: item["value"] for item in workflow["spec"]["arguments"]["parameters"]}
            made = state.add(name, **values)
            made["spec"]["workflowTemplateRef"] = workflow["spec"]["workflowTemplateRef"]
            made["metadata"]["labels"] = dict(workflow["metadata"]["labels"])
            state.calls.append(f"submit {name}")
            self._answer(200, state.items[name])

    def do_PUT(self) -> None:
        path, _ = self._asked()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, _, verb = path.removeprefix(f"{ROOT}/").partition("/")
        if self._refused():
            return
        if not body.keys() <= _FIELDS.get(verb, set()) or (body["name"], body["namespace"]) != (name, "ns"):
            self._answer(400, {"code": 3, "message": f"unknown field, or another name: {body}"})
        elif name not in self.server.workflows.items:
            self._answer(404, {"code": 5, "message": f'workflows.argoproj.io "{name}" not found'})
        else:
            status, message = self.server.workflows.act(name, verb, body)
            self._answer(status, {"code": 13, "message": message} if message else self.server.workflows.items[name])

    def _one(self, name: str) -> None:
        found = self.server.workflows.named(name)
        self._answer(200 if found else 404, found or {"code": 5, "message": "not found"})

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query)

    def _refused(self) -> bool:
        state = self.server.workflows
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, {"code": 16, "message": "token not valid"})
            return True
        if state.broken:
            self._answer(state.broken.pop(0), {"message": "broken\x1b[31m"})
            return True
        return False

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode() if self.server.workflows.body is None else self.server.workflows.body
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _fits(workflow: dict[str, Any], labels: str) -> bool:
    for one in filter(None, labels.split(",")):
        differs = "!=" in one
        name, _, value = one.partition("!=" if differs else "=")
        if (workflow["metadata"]["labels"].get(name) == value) is differs:
            return False
    return True


def _started(workflow: dict[str, Any]) -> str:
    return str(workflow["status"].get("startedAt") or workflow["metadata"]["creationTimestamp"])


def _row(workflow: dict[str, Any]) -> dict[str, Any]:
    """Returns what lists show of an archived workflow: columns of the database, and no reference to its template."""
    status = {key: value for key, value in workflow["status"].items() if key != "nodes"}
    return {"metadata": workflow["metadata"], "spec": {"arguments": workflow["spec"]["arguments"]}, "status": status}


@contextmanager
def serving_argo() -> Iterator[ArgoStandIn]:
    with ArgoStandIn() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
