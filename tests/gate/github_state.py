"""What the stand-in GitHub knows, and what people can do there: every action leaves all its traces, as GitHub's does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

ZERO = "0" * 40
APP_SLUG = "shardlib-gate"
_START = datetime(2026, 3, 2, 9, 0, tzinfo=timezone.utc)


def sha(name: str) -> str:
    """Returns the sha of a made-up commit."""
    return hashlib.sha1(name.encode()).hexdigest()


@dataclass(kw_only=True)
class User:
    """An account; `kind` is User, Bot or Organization."""

    login: str
    id: int
    kind: str = "User"


@dataclass(kw_only=True)
class Pull:
    """A pull request of the one repository; a `head_repository` of None is a fork that was deleted."""

    number: int
    author: str
    head_ref: str
    head_sha: str
    head_repository: str | None
    base_ref: str = "main"
    base_sha: str = field(default_factory=lambda: sha("main"))
    title: str = "A change"
    state: str = "open"
    merged_at: datetime | None = None
    labels: list[str] = field(default_factory=list)
    created_at: datetime = _START
    updated_at: datetime = _START


@dataclass(kw_only=True)
class State:
    """One repository with its pull requests; tests may change anything, the methods are what people do.

    Every action first moves the clock on by `step`; with a step of zero, things happen in the same second.
    """

    repository: str = "org/training"
    now: datetime = _START
    step: timedelta = timedelta(seconds=60)
    users: dict[str, User] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)  # by login: admin, maintain, write, triage, read, none
    pulls: dict[int, Pull] = field(default_factory=dict)
    branches: dict[tuple[str, str], str] = field(default_factory=dict)  # (repository, branch) -> sha
    events: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # of issues, oldest first
    suites: list[dict[str, Any]] = field(default_factory=list)
    activity: list[dict[str, Any]] = field(default_factory=list)  # of all repositories, oldest first
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    apps_with_checks: tuple[str, ...] = (APP_SLUG,)  # get a suite for each new commit of the repository itself
    enterprise: str | None = None  # the version of an Enterprise Server
    has_activity: bool = True
    last_id: int = 1000

    def __post_init__(self) -> None:
        for login, role in (("maintainer", "maintain"), ("writer", "write"), ("triager", "triage"), ("reader", "read")):
            self.user(login, role)
        self.user("stranger")
        self.user("labeler[bot]", "write", kind="Bot")
        self.branches[self.repository, "main"] = sha("main")

    def user(self, login: str, role: str = "none", *, kind: str = "User") -> User:
        """Makes an account with a role in the repository."""
        self.users[login] = User(login=login, id=self.next_id(), kind=kind)
        self.permissions[login] = role
        return self.users[login]

    def open(self, branch: str, *, by: str = "writer", repository: str | None = None, head: str | None = None) -> Pull:
        """Opens a pull request for a branch, which is pushed first where it is not there."""
        owner = repository or self.repository
        if (owner, branch) not in self.branches:
            self.push(branch, head or sha(branch), by=by, repository=owner)
        self._tick()
        number = max(self.pulls, default=0) + 1
        pull = Pull(
            number=number,
            author=by,
            head_ref=branch,
            head_sha=self.branches[owner, branch],
            head_repository=owner,
            created_at=self.now,
            updated_at=self.now,
        )
        self.pulls[number], self.events[number] = pull, []
        self._arrive(pull.head_sha)  # with the pull request a fork's commit is in the repository, too
        return pull

    def push(self, branch: str, head: str, *, by: str = "writer", repository: str | None = None) -> None:
        """Moves a branch forward, or makes it; open pull requests follow."""
        self._move(branch, head, by, repository, "push")

    def force_push(self, branch: str, head: str, *, by: str = "writer", repository: str | None = None) -> None:
        """Moves a branch anywhere; open pull requests follow and say so."""
        self._move(branch, head, by, repository, "force_push")

    def delete_branch(self, branch: str, *, by: str = "writer", repository: str | None = None) -> None:
        """Deletes a branch, which closes its pull requests."""
        owner = repository or self.repository
        self._tick()
        self._acted(owner, branch, self.branches.pop((owner, branch)), ZERO, "branch_deletion", by)
        for pull in self._of(owner, branch):
            if pull.state == "open":
                pull.state = "closed"
                self._event(pull.number, "closed", by)
            self._event(pull.number, "head_ref_deleted", by)

    def label(self, number: int, name: str = "run-gpu-tests", *, by: str = "maintainer") -> None:
        """Puts a label; where it is already, nothing happens."""
        self._tick()
        if name not in self.pulls[number].labels:
            self.pulls[number].labels.append(name)
            self._event(number, "labeled", by, label={"name": name, "color": "ededed"})

    def unlabel(self, number: int, name: str = "run-gpu-tests", *, by: str = "maintainer") -> None:
        """Takes a label away; where there is none, nothing happens."""
        self._tick()
        if name in self.pulls[number].labels:
            self.pulls[number].labels.remove(name)
            self._event(number, "unlabeled", by, label={"name": name, "color": "ededed"})

    def close(self, number: int, *, by: str = "writer") -> None:
        """Closes a pull request; it no longer follows its branch."""
        self._tick()
        self.pulls[number].state = "closed"
        self._event(number, "closed", by)

    def reopen(self, number: int, *, by: str = "writer") -> None:
        """Opens it again, at what its branch is by now."""
        self._tick()
        pull = self.pulls[number]
        pull.state = "open"
        pull.head_sha = self.branches[str(pull.head_repository), pull.head_ref]
        self._event(number, "reopened", by)
        self._arrive(pull.head_sha)

    def merge(self, number: int, *, by: str = "maintainer") -> None:
        """Merges a pull request into its base."""
        self._tick()
        pull = self.pulls[number]
        pull.state, pull.merged_at = "closed", self.now
        self._event(number, "merged", by, commit_id=sha(f"merge {number}"))
        self._event(number, "closed", by)
        before = self.branches[self.repository, pull.base_ref]
        after = self.branches[self.repository, pull.base_ref] = sha(f"merge {number}")
        self._acted(self.repository, pull.base_ref, before, after, "pr_merge", by)

    def retarget(self, number: int, base: str, *, by: str = "writer") -> None:
        """Gives a pull request another base branch."""
        self._tick()
        self.pulls[number].base_ref = base
        self._event(number, "base_ref_changed", by)

    def next_id(self) -> int:
        """Returns an id that nothing has."""
        self.last_id += 1
        return self.last_id

    def add_suite(self, head: str, app: str, repository: str | None = None) -> dict[str, Any]:
        """Returns the suite of an app for a commit, made now if there is none."""
        owner = repository or self.repository
        for suite in self.suites:
            if (suite["repository"], suite["head_sha"], suite["app"]) == (owner, head, app):
                return suite
        suite = {"id": self.next_id(), "repository": owner, "head_sha": head, "app": app, "created_at": self.now}
        self.suites.append(suite)
        return suite

    def _move(self, branch: str, head: str, by: str, repository: str | None, kind: str) -> None:
        owner = repository or self.repository
        self._tick()
        before = self.branches.get((owner, branch), ZERO)
        self.branches[owner, branch] = head
        self._acted(owner, branch, before, head, "branch_creation" if before == ZERO else kind, by)
        if owner == self.repository:
            self._arrive(head)
        for pull in self._of(owner, branch):
            if pull.state == "open":
                pull.head_sha, pull.updated_at = head, self.now
                self._arrive(head)
                if kind == "force_push":
                    self._event(pull.number, "head_ref_force_pushed", by)

    def _arrive(self, head: str) -> None:
        """A commit is in the repository: each app gets a suite for it the first time, and never again."""
        for app in self.apps_with_checks:
            self.add_suite(head, app)

    def _of(self, repository: str, branch: str) -> list[Pull]:
        return [pull for pull in self.pulls.values() if (pull.head_repository, pull.head_ref) == (repository, branch)]

    def _acted(self, repository: str, branch: str, before: str, after: str, kind: str, by: str) -> None:
        self.activity.append(
            {
                "id": self.next_id(),
                "repository": repository,
                "ref": f"refs/heads/{branch}",
                "before": before,
                "after": after,
                "timestamp": self.now,
                "activity_type": kind,
                "actor": by,
            }
        )

    def _event(self, number: int, event: str, by: str, **more: Any) -> None:
        entry = {"id": self.next_id(), "event": event, "actor": by, "created_at": self.now, "commit_id": None, **more}
        self.events[number].append(entry)
        self.pulls[number].updated_at = self.now

    def _tick(self) -> None:
        self.now += self.step
