"""The stand-in's answers in the shapes that GitHub documents, with the fields that something of ours reads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.gate.github_state import Pull, State, User

_LEGACY = {"admin": "admin", "maintain": "write", "write": "write", "triage": "read", "read": "read", "none": "none"}


def at(when: datetime) -> str:
    """Returns a time as GitHub writes it: to the second, in UTC."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def user(found: User | None) -> dict[str, Any] | None:
    """Returns an account; None for one that was deleted."""
    return None if found is None else {"login": found.login, "id": found.id, "type": found.kind, "site_admin": False}


def repository(name: str) -> dict[str, Any]:
    """Returns a repository."""
    owner, _, short = name.partition("/")
    return {"id": abs(hash(name)) % 10**9, "name": short, "full_name": name, "owner": {"login": owner}}


def pull(state: State, found: Pull) -> dict[str, Any]:
    """Returns a pull request."""
    head = found.head_repository
    return {
        "id": 10_000 + found.number,
        "number": found.number,
        "state": found.state,
        "locked": False,
        "title": found.title,
        "user": user(state.users.get(found.author)),
        "labels": [{"id": index, "name": name, "color": "ededed"} for index, name in enumerate(found.labels)],
        "created_at": at(found.created_at),
        "updated_at": at(found.updated_at),
        "merged_at": at(found.merged_at) if found.merged_at else None,
        "merged": found.merged_at is not None,
        "draft": False,
        "head": {
            "label": f"{(head or 'unknown').split('/')[0]}:{found.head_ref}",
            "ref": found.head_ref,
            "sha": found.head_sha,
            "repo": repository(head) if head else None,
        },
        "base": {
            "label": f"{state.repository.split('/')[0]}:{found.base_ref}",
            "ref": found.base_ref,
            "sha": found.base_sha,
            "repo": repository(state.repository),
        },
    }


def event(state: State, found: dict[str, Any]) -> dict[str, Any]:
    """Returns an issue event."""
    return {
        **found,
        "actor": user(state.users.get(found["actor"])),
        "created_at": at(found["created_at"]),
        "performed_via_github_app": None,
    }


def permission(state: State, found: User) -> dict[str, Any]:
    """Returns a permission: the legacy role, and the role's name."""
    role = state.permissions.get(found.login, "none")
    return {"permission": _LEGACY.get(role, "read"), "role_name": role, "user": user(found)}


def suite(found: dict[str, Any]) -> dict[str, Any]:
    """Returns a check suite."""
    return {
        "id": found["id"],
        "head_branch": None,
        "head_sha": found["head_sha"],
        "status": "queued",
        "conclusion": None,
        "created_at": at(found["created_at"]),
        "updated_at": at(found["created_at"]),
        "app": {"id": 1, "slug": found["app"], "name": found["app"]},
        "pull_requests": [],
        "latest_check_runs_count": 0,
    }


def activity(state: State, found: dict[str, Any]) -> dict[str, Any]:
    """Returns an entry of a repository's activity."""
    own = {key: value for key, value in found.items() if key != "repository"}
    return {**own, "timestamp": at(found["timestamp"]), "actor": user(state.users.get(found["actor"]))}
