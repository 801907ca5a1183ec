"""What a pull request's check says in each state of its workflow, as GitHub's REST API takes it. Pure.

A required check is always concluded, and only a proven run, or one that nothing had to run for, is a success. Which
workflow a check run belongs to is its `external_id`, the workflow's uid; which of two is newer is `started_at`, when the
workflow was created.

Anybody can open another pull request of the same commit, and its workflow reports on that commit, too. So what a workflow
says of itself *before* a gate let it pass, or without one, never takes the place of what another said behind its gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from shardlib.escape import markdown
from shardlib.gate.annotations import Annotation, Annotations, plain
from shardlib.verdict import Kind, Verdict

MAX_SUMMARY_BYTES = 65_535  # GitHub says characters; counted in bytes it fits either way
ANNOTATIONS_A_REQUEST = 50  # GitHub's limit; each request's are added to those that are there
_MAX_TITLE = 250  # GitHub takes 255
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


def not_needed() -> Check:
    """Returns the check of a commit that changes no GPU code."""
    summary = "No file that the GPU tests are for was changed, so they are not run."
    return Check(conclusion=Conclusion.SUCCESS, title="Not needed: no GPU code changed", summary=summary)


def waiting(label: str) -> Check:
    """Returns the check of a workflow at its gate."""
    summary = (
        f"GPU code changed. Someone with write access starts the tests by putting the label {markdown(label)} on the "
        "pull request, after a look at this commit."
    )
    title = f"Waiting for the label {plain(label, 100)}"
    return Check(conclusion=Conclusion.ACTION_REQUIRED, title=title, summary=summary)


def expired(label: str) -> Check:
    """Returns the check of a workflow that ended at its gate, by its deadline or because someone stopped it."""
    summary = (
        f"The workflow ended before its gate let it pass. Nothing was run. Put the label {markdown(label)} on the pull "
        "request; if it is there, take it away first."
    )
    return Check(conclusion=Conclusion.ACTION_REQUIRED, title="Ended at the gate: nothing was run", summary=summary)


def refused(reason: str) -> Check:
    """Returns the check of a workflow that the gate did not let pass, with the gate's reason."""
    title = f"Refused: {plain(reason, _MAX_TITLE - 20)}" if reason else "Refused by the gate"
    summary = f"The gate let nothing run on this commit: {markdown(reason or 'it gave no reason', 2_000)}"
    return Check(conclusion=Conclusion.ACTION_REQUIRED, title=title, summary=summary)


def running() -> Check:
    """Returns the open check of a workflow that the gate let pass."""
    return Check(
        conclusion=None, title="Running", summary="The image is built and tested; the link shows how far it is."
    )


def judged(verdict: Verdict, headline: str, page: str, annotations: Annotations, *, stopped: bool) -> Check:
    """Returns the check of a run that came to a verdict.

    Args:
        verdict: the run's.
        headline: the verdict in one line, of numbers and our own words.
        page: the report in Markdown, safe for GitHub.
        annotations: of the failed tests.
        stopped: whether a shard was stopped in the middle.
    """
    more = f"\n{annotations.left_out} more failed tests are not annotated.\n" if annotations.left_out else ""
    # Beside a test that failed, whatever kept others from running is no longer the news.
    failed = any(reason.kind is Kind.FAILED for reason in verdict.reasons)
    if verdict.green:
        conclusion, before = Conclusion.SUCCESS, ""
    elif failed:
        conclusion, before = Conclusion.FAILURE, ""
    elif stopped:
        conclusion, before = Conclusion.CANCELLED, "Stopped: "
    else:
        conclusion, before = Conclusion.FAILURE, "Nothing is proved: "
    title = f"{before}{headline}"[:_MAX_TITLE]
    return Check(conclusion=conclusion, title=title, summary=page + more, annotations=annotations.shown)


def unproved(reason: str) -> Check:
    """Returns the check of a workflow that ended without a verdict."""
    summary = f"Nothing is proved about this commit: {markdown(reason, 2_000)}"
    return Check(conclusion=Conclusion.FAILURE, title="Nothing is proved: there is no verdict", summary=summary)


def cancelled() -> Check:
    """Returns the check of a workflow that somebody stopped and that could not say so itself."""
    summary = "Somebody stopped the workflow. Nothing is proved about this commit."
    return Check(conclusion=Conclusion.CANCELLED, title="Stopped", summary=summary)


def passed_unseen() -> Check:
    """Returns the check of a workflow that succeeded, which it could not say itself."""
    summary = "The workflow succeeded, which it does only after a green verdict. Its report is in the run's folder."
    return Check(conclusion=Conclusion.SUCCESS, title="GREEN: the workflow succeeded", summary=summary)


def unreported() -> Check:
    """Returns the check of a workflow that ended, but never said before that it was this commit it would test.

    Its parameters may have been changed by a retry: what it proved, it may have proved of another commit.
    """
    summary = (
        "A workflow for this commit ended, but it never reported here that the gate had let the commit pass. So its "
        "verdict, if there is one, is not taken for this commit's. Submit the commit anew."
    )
    title = "Nothing is proved: the workflow never reported on this commit"
    return Check(conclusion=Conclusion.FAILURE, title=title, summary=summary, unreported=True)


def at_the_end(before: Shown | None, *, uid: str, end: Check | None, succeeded: bool, label: str) -> Check | None:
    """Returns what a workflow's exit handler has to say, None if the check that is there says it already.

    A verdict is put only on a commit for which the same workflow's gate has reported there that it runs: the commit that
    an exit handler is told is a parameter, which `argo retry -p` can change, while the gate reports on what it verified.

    Args:
        before: the check run that is there.
        uid: the workflow's.
        end: its verdict, or that there is none; None if nothing was planned, so that there is no run folder.
        succeeded: whether the workflow did.
        label: the gate's.
    """
    if before is not None and before.uid != uid and before.behind_gate:
        return None  # another workflow's, of the same commit
    if before is None or before.external_id != uid:
        return unreported()
    if before.conclusion == Conclusion.ACTION_REQUIRED:  # it never passed the gate
        return expired(label) if before.title == waiting(label).title else None  # else refused, and it says why
    if end is not None:
        return end
    if succeeded and before.conclusion == Conclusion.SUCCESS:
        return None  # not needed
    return unproved("the workflow ended before the tests were planned; its red step says why")


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
    return conclusion != Conclusion.ACTION_REQUIRED and not unreported and title != not_needed().title


def _output(check: Check) -> dict[str, Any]:
    return {"title": check.title, "summary": bounded(check.summary)}
