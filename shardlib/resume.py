"""What an attempt of a shard has to run, from what earlier attempts recorded. Pure.

The state of a test is folded over the attempts in order: each attempt first reopens what its `rerun` says, then closes
every test that it finished. So a killed attempt loses nothing, and a retry of a retry agrees with both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from shardlib.model import Outcome


class Rerun(str, Enum):
    """Which tests an attempt runs."""

    ALL = "all"
    UNFINISHED = "unfinished"  # what no attempt finished: an automatic retry gives no second chance
    FAILED = "failed"  # what did not pass, and what is unfinished: a person's retry
    NONE = "none"  # nothing: only the missing result files are written again


@dataclass(frozen=True, kw_only=True)
class PastAttempt:
    """One attempt as its files tell it; `end` is None when it was killed."""

    number: int
    rerun: Rerun
    end: str | None
    finished: Iterable[dict[str, Any]]


@dataclass
class TestState:
    """A test's finish events, one for each attempt that finished it, and whether it has to run (again)."""

    history: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    open: bool = True

    def finish(self, attempt: int, event: dict[str, Any]) -> None:
        """Records how an attempt finished the test; a later word of the same attempt replaces the earlier one."""
        if self.history and self.history[-1][0] == attempt:
            self.history.pop()
        self.history.append((attempt, event))
        self.open = False

    def reopen(self, rerun: Rerun) -> None:
        """Opens the test again if an attempt with `rerun` runs it."""
        if rerun is Rerun.ALL or (rerun is Rerun.FAILED and not self.passed):
            self.open = True

    @property
    def passed(self) -> bool:
        """Whether it has finished, and its latest outcome is one of a green run."""
        return bool(self.history) and Outcome(self.history[-1][1]["outcome"]).ok

    def counted(self) -> dict[str, Any]:
        """Returns the test's entry in its group's result: the latest outcome, and the earlier ones beside it."""
        attempt, event = self.history[-1]
        kept = ("outcome", "seconds", "shared_seconds", "reason", "detail", "reruns", "note")
        entry = {"id": event["id"], "attempt": attempt, **{key: event[key] for key in kept if key in event}}
        if earlier := [event["outcome"] for _, event in self.history[:-1]]:
            entry["earlier"] = earlier
        return entry


def choose(past: Sequence[PastAttempt], *, retries: int = 0) -> Rerun:
    """Returns what the next attempt runs when nobody says it by hand.

    Args:
        past: the attempts before, in order.
        retries: Argo's `{{retries}}`: above 0, this start is its automatic retry. Without Argo, an attempt that was
            killed or stopped makes the next one automatic; one that finished makes it a person's.
    """
    if not past:
        return Rerun.ALL
    if retries > 0 or past[-1].end != "finished":
        return Rerun.UNFINISHED
    return Rerun.FAILED


def fold(ids: Iterable[str], past: Sequence[PastAttempt]) -> dict[str, TestState]:
    """Returns the state of each test after all attempts in `past`; events of other tests are ignored."""
    states = {test: TestState() for test in ids}
    for attempt in past:
        for state in states.values():
            state.reopen(attempt.rerun)
        for event in attempt.finished:
            if (state_of := states.get(event["id"])) is not None:
                state_of.finish(attempt.number, event)
    return states
