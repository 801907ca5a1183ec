"""Whether somebody with write access has approved exactly this commit: the rules, on what GitHub was read to say. Pure.

A label approves the head that it was put on. So it must be there, put by a person who may write now, strictly after the
last time that anything moved the head. When that was, three witnesses say, none of them the commit itself, whose dates
are its author's claim:

- check suites, made when GitHub first sees a commit; but a commit that comes back (A, B, label, A again) has old ones;
- the pull request's events, which tell of force pushes, deletions, reopening; but not of a push that only goes forward;
- the repository's activity, which tells of every move of a branch; but old Enterprise Servers have none. There a push that
  goes forward to a commit that GitHub has seen before stays unseen, so no fork is let in: in the repository itself, whoever
  may push may put the label, too.

Times have whole seconds: what happened in the same second is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from shardlib.escape import printable

WRITERS = ("write", "maintain", "admin")
LABELED, UNLABELED = "labeled", "unlabeled"
HEAD_EVENTS = {
    "head_ref_force_pushed": "its branch was force-pushed",
    "head_ref_deleted": "its branch was deleted",
    "head_ref_restored": "its branch was restored",
    "reopened": "it was reopened",  # at what its branch was by then: pushes to a closed one leave no event
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: may this commit of this pull request run?"""

    repository: str
    pr: int
    sha: str
    label: str
    allow_forks: bool = False


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who did something; `kind` is GitHub's: User, Bot, Organization."""

    login: str
    id: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request as it is now; `head_repository` is None if the fork was deleted."""

    is_open: bool
    head_sha: str
    head_ref: str
    head_repository: str | None
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to it; `kind` in GitHub's words, `label` where it is about one, no actor if deleted."""

    id: int
    kind: str
    at: datetime
    actor: Actor | None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Move:
    """One change of the head's branch, and where it was afterwards: nowhere if it was deleted."""

    after: str
    at: datetime
    kind: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that was read.

    Attributes:
        pull: read first of all, so that what moved the head to where it is there is in the rest.
        events: all of its labels and heads.
        suites: when the head's check suites were made.
        moves: of the head's branch, the newest first; None if GitHub does not say.
        enterprise: the version of an Enterprise Server, which may be too old for that; None for github.com.
        permission: of who put the label, now; None if nobody did.
    """

    pull: PullRequest
    events: tuple[Event, ...]
    suites: tuple[datetime, ...]
    moves: tuple[Move, ...] | None
    enterprise: str | None = None
    permission: str | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer; each reason to stay closed says what to do."""

    reasons: tuple[str, ...]

    @property
    def allowed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


def decide(question: Question, facts: Facts) -> Decision:
    """Returns whether the commit may run; every rule that is broken is a reason."""
    reasons = (*_of_pull(question, facts.pull), *_of_label(question, facts))
    return Decision(reasons=tuple(dict.fromkeys(reasons)))


def labelling(events: tuple[Event, ...], label: str) -> Event | None:
    """Returns the event that put the label where it is now; None if it was taken away since, or in the same second."""
    put = [event for event in events if event.kind == LABELED and event.label == label]
    last = max(put, key=lambda event: (event.at, event.id), default=None)
    taken = [event.at for event in events if event.kind == UNLABELED and event.label == label]
    return None if last is None or any(at >= last.at for at in taken) else last


def _of_pull(question: Question, pull: PullRequest) -> Iterator[str]:
    if not pull.is_open:
        yield f"pull request {question.pr} is closed; reopen it, then put the label {question.label} again"
    if pull.head_sha != question.sha:
        yield f"its head is {pull.head_sha} by now, not {question.sha}; the run of that head asks for the label itself"
    if pull.head_repository is None:
        yield "the repository of its head is gone; open a pull request from one that exists"
    elif pull.head_repository.lower() != question.repository.lower() and not question.allow_forks:
        yield (
            f"its head is in the fork {pull.head_repository}; push the branch to {question.repository}, or allow forks "
            "in the settings"
        )


def _of_label(question: Question, facts: Facts) -> Iterator[str]:
    again = f"look at the head as it is now, then take the label {question.label} away and put it again"
    if question.label not in facts.pull.labels:
        yield f"the label {question.label} is not there; somebody with write access must put it"
        return
    put = labelling(facts.events, question.label)
    if put is None:
        yield f"no event says who put the label; {again}"
        return
    yield from _of_person(put, facts.permission, again)
    yield from _of_suites(put, facts.suites, again)
    for event in facts.events:
        if event.kind in HEAD_EVENTS and event.at >= put.at:
            yield f"{HEAD_EVENTS[event.kind]} at {clock(event.at)}, not before the label ({clock(put.at)}); {again}"
    yield from _of_moves(question, put, facts, again)


def _of_person(put: Event, permission: str | None, again: str) -> Iterator[str]:
    if put.actor is None:
        yield f"whoever put the label has no account any more; {again}"
    elif put.actor.kind != "User":
        # Labels that a bot puts, it puts for anybody: by the files that changed, or a word in a comment.
        yield f"the label was put by {printable(put.actor.login)}, which is a {printable(put.actor.kind)}, not a person; {again}"
    elif permission not in WRITERS:
        yield (
            f"the label was put by {printable(put.actor.login)}, whose permission is {printable(permission or 'none')}; "
            f"somebody with {', '.join(WRITERS)} must take it away and put it again"
        )


def _of_suites(put: Event, suites: tuple[datetime, ...], again: str) -> Iterator[str]:
    if not suites:
        yield (
            "the head has no check suite, so nothing says when it was pushed; install the GitHub App with the "
            "permission checks: write, and push again"
        )
    elif min(suites) >= put.at:
        yield f"the head was pushed at {clock(min(suites))}, not before the label ({clock(put.at)}); {again}"


def _of_moves(question: Question, put: Event, facts: Facts, again: str) -> Iterator[str]:
    if facts.moves is None:
        own = (facts.pull.head_repository or "").lower() == question.repository.lower()
        if facts.enterprise is None or not own:
            yield (
                "GitHub does not tell how the head's branch moved; give the credentials the permission contents: read "
                "on the head's repository"
            )
        return
    last = max((move.at for move in facts.moves), default=None)
    if last is None or question.sha not in {move.after for move in facts.moves if move.at == last}:
        # GitHub may show a push here later than in the pull request; until then it is unknown when it was.
        yield "the last move of the head's branch that GitHub tells of is not to this commit; retry in a minute, or push again"
    elif last >= put.at:
        yield f"the head's branch moved at {clock(last)}, not before the label ({clock(put.at)}); {again}"


def clock(at: datetime) -> str:
    """Returns a time as GitHub writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def explain(question: Question, facts: Facts) -> list[str]:
    """Returns what was read, a line for each fact with its time; safe for a terminal whatever GitHub's text holds."""
    pull = facts.pull
    put = labelling(facts.events, question.label)
    lines = [
        f"pull request {question.pr} of {question.repository}: {'open' if pull.is_open else 'closed'}",
        f"head: {pull.head_sha}, branch {printable(pull.head_ref)} of {pull.head_repository or 'a deleted repository'}",
        f"labels: {', '.join(map(printable, pull.labels)) or 'none'}",
    ]
    for event in sorted(facts.events, key=lambda event: (event.at, event.id)):
        if event.kind in HEAD_EVENTS or event.label == question.label:
            who = printable(event.actor.login) if event.actor else "a deleted account"
            lines.append(f"{clock(event.at)}  {printable(event.kind)} by {who}")
    if put and put.actor:
        lines.append(f"permission of {printable(put.actor.login)} now: {printable(facts.permission or 'none')}")
    first = clock(min(facts.suites)) if facts.suites else "none"
    lines.append(f"{len(facts.suites)} check suites of the head, the first: {first}")
    if facts.moves is None:
        server = f"Enterprise Server {printable(facts.enterprise)}" if facts.enterprise else "GitHub"
        lines.append(f"moves of the branch: {server} does not tell")
    else:
        lines += [
            f"{clock(move.at)}  branch {printable(move.kind)} to {move.after or 'nothing'}" for move in facts.moves[:3]
        ]
    return lines
