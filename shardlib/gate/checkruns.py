"""A check run, as GitHub's REST API takes it and gives it back, and whose report stands. Pure.

Which workflow a check run belongs to is its `external_id`, the workflow's uid; which of two is newer is `started_at`, when
the workflow was created.

Anybody can open another pull request of the same commit, and its workflow reports on that commit, too. So what a workflow
says of itself *before* a gate let it pass, or without one, never takes the place of what another said behind its gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from shardlib.gate.annotations import Annotation

NOT_NEEDED = "Not needed: no GPU code changed"
"""The title of the one success that no gate let pass."""

MAX_SUMMARY_BYTES = 65_535  # GitHub says characters; counted in bytes it fits either way
ANNOTATIONS_A_REQUEST = 50  # GitHub's limit; each request's are added to those that are there
_CUT = "\n\nMore is in the report's files.\n"
_UNREPORTED = ":unreported"


class Conclusion(str, Enum):
    """How a check ended, in GitHub's words; only SUCCESS lets a pull request be merged."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    ACTION_REQUIRED = "action_required"


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a check says: how it ended (None: it has not), a line, Markdown, and annotations.

    `unreported` marks an end of which it is not sure that it is this commit's: its workflow never reported here before.
    """

    conclusion: Conclusion | None
    title: str
    summary: str
    annotations: tuple[Annotation, ...] = ()
    unreported: bool = False

    @property
    def behind_gate(self) -> bool:
        """Whether only a workflow that a gate let pass says so."""
        return _behind_gate(self.conclusion, self.title, unreported=self.unreported)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a check is about: a commit, and the workflow that reports on it.

    Attributes:
        repository: OWNER/NAME.
        sha: the commit.
        name: the check's.
        uid: the workflow's.
        started: when the workflow was created, in UTC; a retry does not change it.
        url: where a person sees the workflow; None if there is no such place.
    """

    repository: str
    sha: str
    name: str
    uid: str
    started: datetime
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The check run that GitHub shows for a commit and a name now; `conclusion` is None while it is open."""

    id: int
    external_id: str
    started: datetime
    conclusion: str | None
    title: str
    summary: str

    @property
    def uid(self) -> str:
        """The workflow that wrote it."""
        return self.external_id.removesuffix(_UNREPORTED)

    @property
    def behind_gate(self) -> bool:
        """Whether only a workflow that a gate let pass says so; what is no workflow's of ours is not."""
        ours = self.external_id not in ("", f"{self.uid}{_UNREPORTED}")
        return _behind_gate(self.conclusion, self.title, unreported=not ours)

    def stands(self, subject: Subject, check: Check) -> bool:
        """Whether it stays, whatever another workflow has to say.

        What was said behind a gate goes before what was not; of two alike the newer workflow's stays, and of two of the
        same second the uid decides, so that all agree.
        """
        if self.uid == subject.uid:
            return False
        if self.behind_gate != check.behind_gate:
            return self.behind_gate
        return (self.started, self.uid) > (subject.started, subject.uid)

    def says(self, subject: Subject, check: Check) -> bool:
        """Whether it says the same already, so that a repeated step changes nothing."""
        expected = (external_id(subject, check), check.conclusion, check.title, bounded(check.summary).strip())
        return (self.external_id, self.conclusion, self.title, self.summary.strip()) == expected


def external_id(subject: Subject, check: Check) -> str:
    """Returns what ties a check run to its workflow."""
    return f"{subject.uid}{_UNREPORTED if check.unreported else ''}"


def body(subject: Subject, check: Check) -> dict[str, Any]:
    """Returns the body of the request that creates a check run or updates one, without its annotations."""
    result: dict[str, Any] = {
        "name": subject.name,
        "head_sha": subject.sha,
        "external_id": external_id(subject, check),
        "started_at": subject.started.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "status": "in_progress" if check.conclusion is None else "completed",
        "output": _output(check),
    }
    if check.conclusion is not None:
        result["conclusion"] = check.conclusion.value
    if subject.url is not None:
        result["details_url"] = subject.url
    return result


def annotation_bodies(check: Check) -> Iterator[dict[str, Any]]:
    """Yields the bodies of the requests that add a check's annotations, a few each.

    They come after the conclusion, which must not be lost to a path that GitHub does not like.
    """
    for start in range(0, len(check.annotations), ANNOTATIONS_A_REQUEST):
        some = check.annotations[start : start + ANNOTATIONS_A_REQUEST]
        yield {"output": {**_output(check), "annotations": [annotation.to_json() for annotation in some]}}


def bounded(markdown_text: str) -> str:
    """Returns Markdown of at most `MAX_SUMMARY_BYTES`; what is longer is cut after a paragraph, where there is one."""
    data = markdown_text.encode("utf-8", "replace")
    if len(data) <= MAX_SUMMARY_BYTES:
        return data.decode("utf-8")
    kept = data[: MAX_SUMMARY_BYTES - len(_CUT)].decode("utf-8", "ignore")
    return (kept.rpartition("\n\n")[0] or kept) + _CUT


def _behind_gate(conclusion: str | None, title: str, *, unreported: bool) -> bool:
    return conclusion != Conclusion.ACTION_REQUIRED and not unreported and title != NOT_NEEDED


def _output(check: Check) -> dict[str, Any]:
    return {"title": check.title, "summary": bounded(check.summary)}
