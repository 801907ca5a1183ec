"""What a pull request's check says in each state of its workflow. Pure.

A required check is always concluded, and only a proven run, or one that nothing had to run for, is a success.
"""

from __future__ import annotations

from shardlib.escape import markdown
from shardlib.gate.annotations import Annotations, plain
from shardlib.gate.checkruns import NOT_NEEDED, Check, Conclusion, Shown
from shardlib.verdict import Kind, Verdict

_MAX_TITLE = 250  # GitHub takes 255


def not_needed() -> Check:
    """Returns the check of a commit that changes no GPU code."""
    summary = "No file that the GPU tests are for was changed, so they are not run."
    return Check(conclusion=Conclusion.SUCCESS, title=NOT_NEEDED, summary=summary)


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
