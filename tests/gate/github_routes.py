"""The endpoints of the stand-in GitHub: a function for each, from what it knows to a page of what it documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode

from tests.gate import github_checks, github_shapes
from tests.gate.github_state import APP_SLUG, Pull, State


@dataclass(frozen=True, kw_only=True)
class Request:
    """One that arrived; `who` is empty without a valid token, else "user" or "app"; `url` is how it reached us."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    who: str
    url: str


@dataclass(kw_only=True)
class Reply:
    """What goes back, faults aside."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Call:
    """A request, what is known, and the repository that it is about."""

    state: State
    request: Request
    repository: str = ""

    def pull(self, number: str) -> Pull | None:
        """Returns a pull request of the one repository, whose name has no case."""
        here = self.repository.lower() == self.state.repository.lower()
        return self.state.pulls.get(int(number)) if here else None

    def page(self, found: list[Any], key: str | None = None, *, cursor: bool = False) -> Reply:
        """Returns one page with its Link header: by number, or by a cursor where GitHub pages so."""
        query = self.request.query
        size = max(1, min(int(query.get("per_page", "30")), 100))
        name = "after" if cursor else "page"
        page = int(query.get(name, "1").removeprefix("cursor"))
        part = found[(page - 1) * size : page * size]
        reply = Reply(status=200, body=part if key is None else {"total_count": len(found), key: part})
        if page * size < len(found):
            following = f"cursor{page + 1}" if cursor else str(page + 1)
            address = f"{self.request.url}{quote(self.request.path)}?{urlencode({**query, name: following})}"
            reply.headers["Link"] = f'<{address}>; rel="next"'
        return reply


def answer(state: State, request: Request) -> Reply:
    """Returns the reply to a request that has a valid token."""
    for method, pattern, route in _ROUTES:
        match = re.fullmatch(pattern, request.path)
        if match and method == request.method:
            repository, *rest = map(unquote, match.groups() or ("",))
            return route(_Call(state=state, request=request, repository=repository), *rest)
    return _missing()


def refuse(status: int, message: str) -> Reply:
    """Returns an error as GitHub words it."""
    body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Reply(status=status, body=body)


def _missing() -> Reply:
    return refuse(404, "Not Found")


def _meta(call: _Call) -> Reply:
    version = {"installed_version": call.state.enterprise} if call.state.enterprise else {}
    return Reply(status=200, body={"verifiable_password_authentication": False, **version})


def _pulls(call: _Call) -> Reply:
    wanted = call.request.query.get("state", "open")
    pulls = [pull for _, pull in sorted(call.state.pulls.items(), reverse=True) if wanted in (pull.state, "all")]
    return call.page([github_shapes.pull(call.state, pull) for pull in pulls])


def _pull(call: _Call, number: str) -> Reply:
    pull = call.pull(number)
    return Reply(status=200, body=github_shapes.pull(call.state, pull)) if pull else _missing()


def _labels(call: _Call, number: str) -> Reply:
    pull = call.pull(number)
    return call.page([{"id": 1, "name": label} for label in pull.labels]) if pull else _missing()


def _events(call: _Call, number: str) -> Reply:
    pull = call.pull(number)
    if pull is None:
        return _missing()
    return call.page([github_shapes.event(call.state, event) for event in call.state.events[pull.number]])


def _permission(call: _Call, login: str) -> Reply:
    user = call.state.users.get(login)
    if user is None:
        return refuse(404, f"{login} is not a user")
    return Reply(status=200, body=github_shapes.permission(call.state, user))


def _suites(call: _Call, head: str) -> Reply:
    wanted = (head, call.repository)
    found = [suite for suite in call.state.suites if (suite["head_sha"], suite["repository"]) == wanted]
    return call.page([github_shapes.suite(suite) for suite in found], "check_suites")


def _activity(call: _Call) -> Reply:
    if not call.state.has_activity:
        return _missing()
    wanted = call.request.query.get("ref")
    found = [
        github_shapes.activity(call.state, entry)
        for entry in reversed(call.state.activity)
        if entry["repository"] == call.repository
        and wanted in (None, entry["ref"], entry["ref"].removeprefix("refs/heads/"))
    ]
    if call.request.query.get("direction") == "asc":
        found.reverse()
    return call.page(found, cursor=True)


def _check_runs(call: _Call, head: str) -> Reply:
    return call.page(github_checks.listed(call.state, head, call.request.query), "check_runs")


def _create_check(call: _Call) -> Reply:
    if call.request.who != "app":
        return refuse(403, "You must authenticate via a GitHub App.")
    status, body = github_checks.create(call.state, call.request.body, APP_SLUG)
    return Reply(status=status, body=body)


def _update_check(call: _Call, number: str) -> Reply:
    if call.request.who != "app":
        return refuse(403, "You must authenticate via a GitHub App.")
    status, body = github_checks.update(call.state, int(number), call.request.body)
    return Reply(status=status, body=body)


_R = r"/repos/([^/]+/[^/]+)"
_ROUTES: list[tuple[str, str, Callable[..., Reply]]] = [
    ("GET", "/meta", _meta),
    ("GET", rf"{_R}/pulls", _pulls),
    ("GET", rf"{_R}/pulls/(\d+)", _pull),
    ("GET", rf"{_R}/issues/(\d+)/labels", _labels),
    ("GET", rf"{_R}/issues/(\d+)/events", _events),
    ("GET", rf"{_R}/collaborators/([^/]+)/permission", _permission),
    ("GET", rf"{_R}/commits/([^/]+)/check-suites", _suites),
    ("GET", rf"{_R}/activity", _activity),
    ("GET", rf"{_R}/commits/([^/]+)/check-runs", _check_runs),
    ("POST", rf"{_R}/check-runs", _create_check),
    ("PATCH", rf"{_R}/check-runs/(\d+)", _update_check),
]
