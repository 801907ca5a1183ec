"""What to do so that the cluster's runs fit a pull request as it is now. Pure.

A delivery of a webhook says only that something happened; what to do follows from the state of both sides. So it does not
matter in which order deliveries come, how often, or whether one is lost and the next look repairs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from shardlib.errors import GateError
from shardlib.fields import Fields, short
from shardlib.gate.names import SHA
from shardlib.gate.runs import Run, time_of

_MAX_LABELS = 1000  # GitHub takes 100 on a pull request
_SKEW_SECONDS = 60.0  # of GitHub's clock and the cluster's (a guess)


class Stage(str, Enum):
    """How far a run has come, as the gate sees it."""

    AHEAD = "ahead"  # under way, and not at the gate yet
    WAITING = "waiting"  # suspended at the gate
    VERIFYING = "verifying"  # resumed; verify-gate may have asked before what this look sees
    PAST = "past"  # under way, behind the gate
    STOPPING = "stopping"  # told to stop or refused by verify-gate, and not finished yet
    CLOSED = "closed"  # finished without a verdict: the gate's deadline, refused by verify-gate, stopped anywhere
    DONE = "done"  # past its verdict: green, red, or not needed; at most the tag is still to come

    @property
    def live(self) -> bool:
        """Whether it may still start something."""
        return self in _FURTHEST_FIRST


_FURTHEST_FIRST = (Stage.PAST, Stage.VERIFYING, Stage.WAITING, Stage.AHEAD)
_PASSING = (Stage.AHEAD, Stage.VERIFYING, Stage.STOPPING)


@dataclass(frozen=True, kw_only=True)
class StagedRun:
    """A run and how far it has come; `untagged` is whether it is green, and its tag waits for the merge."""

    run: Run
    stage: Stage
    untagged: bool = False


@dataclass(frozen=True, kw_only=True)
class PullState:
    """A pull request now: whether it is open or merged, its head's commit, its labels' names, its last change by anybody."""

    open: bool
    merged: bool = False
    head: str
    labels: frozenset[str]
    updated: datetime

    @classmethod
    def read(cls, body: object, where: str) -> PullState:
        """Returns what GitHub's answer about a pull request says; GateError if it is not such an answer."""
        fields = Fields(body, where, GateError)
        state = fields.choice("state", ("open", "closed"))
        head: Any = Fields(fields.raw("head"), f"{where}: head", GateError).text("sha", most=40)
        if not SHA.fullmatch(head):
            raise GateError(f"{where}: head.sha is {short(head)}, expected 40 hexadecimal digits; is it GitHub's API?")
        merged = fields.raw("merged")
        if type(merged) is not bool or (merged and state == "open"):
            raise fields.wrong("merged", merged, "true or false, and an open one is not merged")
        labels = [Fields(label, f"{where}: label", GateError) for label in fields.array("labels", most=_MAX_LABELS)]
        named = frozenset(label.text("name", most=1000) for label in labels)
        updated = time_of(fields.raw("updated_at"))
        if updated is None:
            raise fields.wrong("updated_at", fields.raw("updated_at"), "a time")
        return cls(open=state == "open", merged=merged, head=head, labels=named, updated=updated)


@dataclass(frozen=True, kw_only=True)
class Submit:
    """Start a run of this head; one of its name that is there already is as good."""

    sha: str


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Let a run that is suspended at the gate go on, to verify-gate: that decides."""

    name: str


@dataclass(frozen=True, kw_only=True)
class RetryGate:
    """Start a finished run again from the gate on, which suspends again."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Stop a run, saying why."""

    name: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Retag:
    """Start a green run's last step again: it tags now that the pull request is merged."""

    name: str


Action = Submit | Resume | RetryGate | Stop | Retag


def follow(pull: PullState, runs: Sequence[StagedRun], *, label: str) -> list[Action]:
    """Returns what is to be done now, stops first; nothing if the runs fit.

    At most one run of the head stays, the one that came furthest, and none of a closed pull request. What ended behind
    the gate, green or red, is left alone: starting that again is a person's decision.

    Args:
        pull: the pull request.
        runs: all runs of it, in any order.
        label: the label that opens the gate.
    """
    live = [one for one in runs if one.stage.live]
    current = _current(pull.head, runs)
    if not pull.open:
        tags = [Retag(name=current.run.name)] if pull.merged and current and current.untagged else []
        return [*_stops(live, "the pull request is closed"), *tags]
    keep = current.run.name if current else None
    others = [one for one in live if one.run.sha != pull.head]
    twins = [one for one in live if one.run.sha == pull.head and one.run.name != keep]
    actions: list[Action] = [
        *_stops(others, f"the head is {pull.head} now"),
        *_stops(twins, f"{keep} is a run of this head already"),
    ]
    if current is None:
        return [*actions, Submit(sha=pull.head)]
    if label in pull.labels and current.stage is Stage.WAITING:
        return [*actions, Resume(name=current.run.name)]
    if label in pull.labels and current.stage is Stage.CLOSED:
        return [*actions, RetryGate(name=current.run.name)]
    return actions


def must_wait(pull: PullState, runs: Sequence[StagedRun], *, label: str) -> bool:
    """Whether something may be to do for the head's run that cannot be done yet: it must reach the gate, pass it, or end.

    A run that verify-gate is about to refuse for what was so a moment ago would be left red, with the label on. One whose
    check let GitHub merge at once is still ending, and only then says whether its tag waits.
    """
    current = _current(pull.head, runs)
    if current is None:
        return False
    if pull.merged:
        return current.stage is Stage.DONE and not current.run.phase.finished
    return pull.open and label in pull.labels and current.stage in _PASSING


def ended_since(pull: PullState, runs: Sequence[StagedRun]) -> list[str]:
    """Returns the names of runs that ended after anything changed on GitHub, so that nobody there can want them again.

    A run that verify-gate refused, or that a person stopped, still has its label.
    """
    before = pull.updated + timedelta(seconds=_SKEW_SECONDS)
    return [one.run.name for one in runs if one.run.finished is not None and one.run.finished > before]


def _current(head: str, runs: Sequence[StagedRun]) -> StagedRun | None:
    """Returns the run of the head that counts: the live one that came furthest, else one that stops, else the newest."""
    own = sorted((one for one in runs if one.run.sha == head), key=lambda one: one.run.age_key)
    for stage in (*_FURTHEST_FIRST, Stage.STOPPING):
        for one in own:
            if one.stage is stage:
                return one
    return own[-1] if own else None


def _stops(runs: Sequence[StagedRun], message: str) -> list[Action]:
    return [Stop(name=name, message=message) for name in sorted(one.run.name for one in runs)]
