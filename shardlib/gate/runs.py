"""A run of the chain as Argo shows it: one workflow of the template, for one head of one pull request. Pure.

Whoever lists workflows (`argo.runs`) makes these; `following` decides from them what to submit, resume or stop, and
`sweep` which checks were left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

SHA_DIGITS = 32
"""How much of a commit is in its run's name: two commits that agree in 128 bits take 2^64 hashes, as any two of git do."""


def run_name(template: str, pr: str, sha: str) -> str:
    """Returns the name of the run of a pull request's head, which makes a second one impossible.

    Argo takes 63 characters: a template's name of 20 fits whatever the number is (`workflows.setting_checks`).
    """
    return f"{template}-{pr}-{sha[:SHA_DIGITS]}"


class Phase(str, Enum):
    """Argo's `status.phase`, in Argo's words; a workflow that no controller has seen yet has none, which is PENDING."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ERROR = "Error"

    @property
    def finished(self) -> bool:
        """Whether the workflow has ended, its exit handler included; `argo retry` may still start it again."""
        return self not in (Phase.PENDING, Phase.RUNNING)


def time_of(text: object) -> datetime | None:
    """Returns the time that Argo or GitHub wrote; None if it is none, or says no zone."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One workflow.

    Attributes:
        name: the workflow's name, that of `run_name` if the gate submitted it.
        uid: the workflow's uid: the name of its run folder, and its check's `external_id`. `argo retry` keeps it.
        pr: its parameter of that name, as submitted: a number.
        sha: likewise: the head's 40 hexadecimal digits.
        repository: likewise (`repo`): OWNER/NAME; the one that is set up if it was not submitted.
        phase: Argo's `status.phase`.
        started: `metadata.creationTimestamp`, in UTC. Not `status.startedAt`, which a retry sets anew: which of two
            runs is the newer one must never change.
        finished: `status.finishedAt`, in UTC; None while it is not finished.
        message: `status.message`, Argo's own words (`Stopped with strategy 'Terminate'`); empty if there is none.
    """

    name: str
    uid: str
    pr: str
    sha: str
    repository: str
    phase: Phase
    started: datetime
    finished: datetime | None = None
    message: str = ""

    @property
    def age_key(self) -> tuple[datetime, str]:
        """What runs are ordered by: of two that started in the same second the uid decides, so that all agree."""
        return self.started, self.uid

    @property
    def stopped(self) -> bool:
        """Whether somebody ended it by `argo stop` or `argo terminate`."""
        return self.phase.finished and self.message.startswith("Stopped with strategy")
