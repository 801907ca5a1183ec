"""Check runs of the stand-in GitHub: what it takes, what it refuses with 422, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.gate.github_shapes import at
from tests.gate.github_state import State

MAX_ANNOTATIONS = 50  # of one request
_MAX_TEXT = 65535
_STATUSES = ("queued", "in_progress", "completed")
_CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")
_TEXTS = ("name", "head_sha", "details_url", "external_id", "started_at", "completed_at")
_LEVELS = ("notice", "warning", "failure")

Found = tuple[int, dict[str, Any]]


def create(state: State, body: Any, app: str) -> Found:
    """Makes a check run and, for the first of an app on a commit, its suite; returns status and answer."""
    wrong = _wrong(body, ("name", "head_sha"))
    if wrong:
        return _refused(wrong)
    number = state.next_id()
    run = {"id": number, "app": app, "status": "queued", "conclusion": None, "output": {}, "created": state.now}
    run["suite"] = state.add_suite(body["head_sha"], app)["id"]
    state.check_runs[number], state.annotations[number] = run, []
    return 201, _apply(state, run, body)


def update(state: State, number: int, body: Any) -> Found:
    """Changes a check run; annotations are added to those that are there."""
    run = state.check_runs.get(number)
    if run is None:
        return 404, {"message": "Not Found"}
    wrong = _wrong(body, ())
    return _refused(wrong) if wrong else (200, _apply(state, run, body))


def listed(state: State, head: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the check runs of a commit, the newest first; of each app and name the newest alone, unless all are asked for."""
    found = [run for run in state.check_runs.values() if run["head_sha"] == head]
    found = [run for run in found if query.get("check_name") in (None, run["name"])]
    found = [run for run in found if query.get("status") in (None, run["status"])]
    if query.get("filter", "latest") == "latest":
        found = list({(run["app"], run["name"]): run for run in found}.values())
    return [shape(state, run) for run in sorted(found, key=lambda run: -int(run["id"]))]


def shape(state: State, run: dict[str, Any]) -> dict[str, Any]:
    """Returns a check run as GitHub shows it."""
    output = {"title": None, "summary": None, "text": None, **run["output"]}
    return {
        "id": run["id"],
        "name": run["name"],
        "head_sha": run["head_sha"],
        "external_id": run.get("external_id", ""),
        "details_url": run.get("details_url"),
        "status": run["status"],
        "conclusion": run["conclusion"],
        "started_at": run.get("started_at", at(run["created"])),
        "completed_at": run.get("completed_at"),
        "output": {**output, "annotations_count": len(state.annotations[run["id"]])},
        "app": {"id": 4711, "slug": run["app"], "name": run["app"]},
        "check_suite": {"id": run["suite"]},
        "pull_requests": [],
    }


def _apply(state: State, run: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    run.update({key: body[key] for key in _TEXTS if key in body})
    if "conclusion" in body:
        run.update(
            status="completed", conclusion=body["conclusion"], completed_at=body.get("completed_at", at(state.now))
        )
    elif "status" in body:
        run.update(status=body["status"], conclusion=None, completed_at=None)
    if "output" in body:
        output = dict(body["output"])
        state.annotations[run["id"]] += [{"blob_href": "", **entry} for entry in output.pop("annotations", [])]
        run["output"] = output
    return shape(state, run)


def _wrong(body: Any, needed: tuple[str, ...]) -> str | None:
    """Returns what GitHub would refuse, if anything."""
    if not isinstance(body, dict):
        return "body is no object"
    texts = [key for key in (*needed, *_TEXTS) if key in needed or key in body]
    bad = [key for key in texts if not isinstance(body.get(key), str)]
    if bad or not all(body[key] for key in needed):
        return f"{bad or needed} must be texts"
    if body.get("status", "queued") not in _STATUSES:
        return f"status {body['status']!r}"
    if "conclusion" in body and body["conclusion"] not in _CONCLUSIONS:
        return f"conclusion {body['conclusion']!r}"
    if body.get("status") == "completed" and "conclusion" not in body:
        return "a completed check run needs a conclusion"
    return _wrong_output(body["output"]) if "output" in body else None


def _wrong_output(output: Any) -> str | None:
    if not isinstance(output, dict) or not {"title", "summary"} <= output.keys():
        return "output needs a title and a summary"
    for key in ("title", "summary", "text"):
        if key in output and (not isinstance(output[key], str) or len(output[key]) > _MAX_TEXT):
            return f"output.{key} is no text of at most {_MAX_TEXT} characters"
    annotations = output.get("annotations", [])
    if len(annotations) > MAX_ANNOTATIONS:
        return f"{len(annotations)} annotations; at most {MAX_ANNOTATIONS} in a request"
    for entry in annotations:
        lines = (entry.get("start_line"), entry.get("end_line"))
        if not all(type(line) is int and line > 0 for line in lines) or entry.get("annotation_level") not in _LEVELS:
            return f"annotation {entry}"
        if not entry.get("path") or not entry.get("message") or len(entry["message"].encode()) > 64 << 10:
            return f"annotation {entry}"
    return None


def _refused(wrong: str) -> Found:
    return 422, {"message": "Validation Failed", "errors": [wrong]}
