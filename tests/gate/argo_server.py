"""A stand-in for Argo's server over real HTTP: paths, bodies and answers of WorkflowService as Argo 4.0.5 gives them.

It leaves out the controller (a test says when a run comes to its gate, or ends), validation, rights other than one token's,
the archive, and all that the gate does not ask for. A request that is not as Argo's OpenAPI document has it is a 400 here.
"""

from __future__ import annotations

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
_FIELDS = {
    "resume": {"namespace", "name", "nodeFieldSelector"},
    "stop": {"namespace", "name", "nodeFieldSelector", "message"},
    "retry": {"namespace", "name", "restartSuccessful", "nodeFieldSelector"},
}


@dataclass
class Workflows:
    """The workflows by name, as a test changes them; `calls` is what was asked for and changed something."""

    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    page: int = 1000
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
                assert query["fields"][0].startswith("metadata,items.metadata.name,")
                first = int(query.get("listOptions.continue", ["0"])[0])
                last = first + min(state.page, int(query["listOptions.limit"][0]))
                more = {"continue": str(last)} if last < len(state.items) else {}
                self._answer(200, {"metadata": more, "items": list(state.items.values())[first:last] or None})
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
            state.add(name, **values)["spec"]["workflowTemplateRef"] = workflow["spec"]["workflowTemplateRef"]
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
        found = self.server.workflows.items.get(name)
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
