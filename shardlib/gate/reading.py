"""Reads from GitHub what `approval` judges; whatever is not as documented is an error, never a default."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from shardlib.errors import GateError
from shardlib.fields import Fields
from shardlib.gate.approval import (
    HEAD_EVENTS,
    LABELED,
    UNLABELED,
    Actor,
    Event,
    Facts,
    Move,
    PullRequest,
    Question,
    labelling,
)
from shardlib.gate.github import GitHub, StatusError
from shardlib.gate.names import REPOSITORY, SHA

_MAX_ID = 2**63
_MAX_NAME = 1000  # characters of a login, a label, a branch: all are far shorter
_HIDDEN = (403, 404)


def read_facts(github: GitHub, question: Question) -> Facts:
    """Returns all that there is to judge by.

    Raises:
        GateError: GitHub refuses, or says something that cannot be.
        InfrastructureError: GitHub is down, or limits us for too long.
    """
    pull = read_pull(github, question.repository, question.pr)
    events = _events(github, question)
    put = labelling(events, question.label)
    moves = None
    if pull.head_repository is not None:
        moves = _moves(github, pull.head_repository, f"refs/heads/{pull.head_ref}")
    return Facts(
        pull=pull,
        events=events,
        suites=_suites(github, question),
        moves=moves,
        enterprise=_enterprise(github) if moves is None else None,
        permission=_permission(github, question.repository, put.actor) if put and put.actor else None,
    )


def read_pull(github: GitHub, repository: str, number: int) -> PullRequest:
    """Returns a pull request as it is now; errors as in `read_facts`."""
    where = f"/repos/{repository}/pulls/{number}"
    fields = Fields(github.get(where), where, GateError)
    base = Fields(fields.raw("base"), f"{where}: base", GateError)
    if fields.integer("number", 0, _MAX_ID) != number or _name(base, f"{where}: base").lower() != repository.lower():
        raise GateError(f"{where}: the answer is about another pull request")
    head = Fields(fields.raw("head"), f"{where}: head", GateError)
    labels = tuple(
        Fields(label, f"{where}: labels", GateError).text("name", most=_MAX_NAME)
        for label in fields.array("labels", most=1000)
    )
    return PullRequest(
        is_open=fields.choice("state", ("open", "closed")) == "open",
        head_sha=_sha(head, "sha"),
        head_ref=head.text("ref", most=_MAX_NAME),
        head_repository=_name(head, f"{where}: head") if head.has("repo") else None,
        labels=labels,
    )


def _events(github: GitHub, question: Question) -> tuple[Event, ...]:
    where = f"/repos/{question.repository}/issues/{question.pr}/events"
    found = []
    for item in github.pages(where):
        fields = Fields(item, where, GateError)
        kind = fields.text("event", most=_MAX_NAME)
        if kind not in (LABELED, UNLABELED, *HEAD_EVENTS):
            continue
        label = None
        if kind in (LABELED, UNLABELED):
            label = Fields(fields.raw("label"), f"{where}: label", GateError).text("name", most=_MAX_NAME)
        found.append(
            Event(
                id=fields.integer("id", 0, _MAX_ID),
                kind=kind,
                at=_time(fields, "created_at"),
                actor=_actor(fields.raw("actor"), f"{where}: actor"),
                label=label,
            )
        )
    return tuple(found)


def _suites(github: GitHub, question: Question) -> tuple[datetime, ...]:
    where = f"/repos/{question.repository}/commits/{question.sha}/check-suites"
    found = []
    for item in github.pages(where, items="check_suites"):
        fields = Fields(item, where, GateError)
        if _sha(fields, "head_sha") != question.sha:
            raise GateError(f"{where}: the answer is about another commit")
        found.append(_time(fields, "created_at"))
    return tuple(found)


def _moves(github: GitHub, repository: str, ref: str) -> tuple[Move, ...] | None:
    """Returns the newest hundred changes of a branch, the newest first; None if GitHub does not say."""
    where = f"/repos/{repository}/activity"
    try:
        items = github.get(where, ref=ref, direction="desc", per_page=100)
    except StatusError as err:
        if err.status in _HIDDEN:
            return None
        raise
    if not isinstance(items, list):
        raise GateError(f"{where}: no list; is it GitHub?")
    found = []
    for item in items:
        fields = Fields(item, where, GateError)
        if fields.text("ref", most=_MAX_NAME + 20) != ref:
            raise GateError(f"{where}: the answer is about another branch")
        kind = fields.text("activity_type", most=_MAX_NAME)
        # Documented is a text, but of a branch that is gone GitHub's own pages have null here.
        gone = kind == "branch_deletion" and not fields.has("after")
        found.append(Move(after="" if gone else _sha(fields, "after"), at=_time(fields, "timestamp"), kind=kind))
    if any(older.at > newer.at for newer, older in pairwise(found)):
        raise GateError(f"{where}: the newest is not first, so the newest may be missing")
    return tuple(found)


def _enterprise(github: GitHub) -> str | None:
    """Returns the version of an Enterprise Server; github.com says none."""
    fields = Fields(github.get("/meta"), "/meta", GateError)
    return fields.text("installed_version", most=100) if fields.has("installed_version") else None


def _permission(github: GitHub, repository: str, actor: Actor) -> str | None:
    where = f"/repos/{repository}/collaborators/{quote(actor.login, safe='')}/permission"
    try:
        fields = Fields(github.get(where), where, GateError)
    except StatusError as err:
        if err.status == 404:  # no such account any more
            return None
        raise
    user = _actor(fields.raw("user"), f"{where}: user")
    if user is None or user.id != actor.id:  # a login that was given up can be somebody else's
        raise GateError(f"{where}: the answer is about another account than the event")
    return fields.text("permission", most=_MAX_NAME)


def _actor(value: Any, where: str) -> Actor | None:
    if value is None:
        return None
    fields = Fields(value, where, GateError)
    return Actor(
        login=fields.text("login", most=_MAX_NAME),
        id=fields.integer("id", 0, _MAX_ID),
        kind=fields.text("type", most=_MAX_NAME),
    )


def _name(fields: Fields, where: str) -> str:
    """Returns the full name of the `repo` of a head or a base."""
    repo = Fields(fields.raw("repo"), f"{where}.repo", GateError)
    name = repo.text("full_name", most=_MAX_NAME)
    if not REPOSITORY.fullmatch(name):
        raise repo.wrong("full_name", name, "OWNER/NAME")
    return name


def _sha(fields: Fields, key: str) -> str:
    value = fields.text(key, most=100)
    if not SHA.fullmatch(value):
        raise fields.wrong(key, value, "a commit's 40 hexadecimal digits")
    return value


def _time(fields: Fields, key: str) -> datetime:
    """Returns a time in whole seconds: some of GitHub's have more digits, and all are compared."""
    value = fields.text(key, most=100)
    try:
        at = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if at.tzinfo is None:
            raise ValueError("no time zone")
        return at.astimezone(timezone.utc).replace(microsecond=0)
    except (ValueError, OverflowError) as err:
        raise fields.wrong(key, value, "a time with its zone") from err
