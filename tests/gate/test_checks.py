"""What checks say, what GitHub is sent of them, and whose report stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.gate import checkruns, checks
from shardlib.gate.annotations import Annotation
from shardlib.gate.checkruns import (
    MAX_SUMMARY_BYTES,
    Check,
    Conclusion,
    Shown,
    Subject,
    annotation_bodies,
    body,
    bounded,
)
from shardlib.gate.publishing import publish, shown
from tests.gate import github_checks
from tests.gate.github_state import State
from tests.gate.reported import GREEN, HEAD, RED, STARTED, SUBJECT

# What the bodies are.


@given(st.text(), st.text(), st.sampled_from([None, *Conclusion]), st.booleans())
def test_github_takes_every_body(title: str, summary: str, conclusion: Conclusion | None, unreported: bool) -> None:
    check = Check(conclusion=conclusion, title=title, summary=summary, unreported=unreported)
    status, answer = github_checks.create(State(), body(SUBJECT, check), "app")
    assert (status, answer["conclusion"]) == (201, conclusion)
    assert answer["status"] == ("completed" if conclusion else "in_progress")
    assert (answer["started_at"], answer["details_url"]) == ("2026-03-02T12:00:00Z", "http://a/b")


@given(st.text(max_size=300), st.text(max_size=300))
def test_text_of_others_is_no_markdown_and_no_mention(label: str, reason: str) -> None:
    for check in (checks.waiting(label), checks.expired(label), checks.refused(reason), checks.unproved(reason)):
        outside = re.sub(r"<code>[^<>]*</code>", "", check.summary)
        assert not re.search(r"[<>@\[\]`#]|://", outside)
        assert not re.search(r"@\w|<\w|://\w", check.title)
        assert len(check.title) <= 255


@given(st.integers(0, 70_000), st.sampled_from(["x", "é", "𝄞", "word\n\n"]))
def test_a_summary_fits_whatever_it_is_of(length: int, unit: str) -> None:
    text = unit * (length // len(unit))
    cut = bounded(text)
    assert len(cut.encode()) <= MAX_SUMMARY_BYTES
    assert cut == text or cut.endswith("More is in the report's files.\n")
    assert (cut == text) is (len(text.encode()) <= MAX_SUMMARY_BYTES)


@pytest.mark.parametrize(
    ("check", "conclusion"),
    [
        (checks.not_needed(), "success"),
        (checks.waiting("l"), "action_required"),
        (checks.expired("l"), "action_required"),
        (checks.refused("r"), "action_required"),
        (checks.running(), None),
        (checks.unproved("r"), "failure"),
        (checks.unreported(), "failure"),
        (checks.cancelled(), "cancelled"),
    ],
)
def test_every_state_has_its_conclusion(check: Check, conclusion: str | None) -> None:
    assert body(SUBJECT, check).get("conclusion") == conclusion


@given(st.integers(0, 201))
def test_annotations_go_out_fifty_at_a_time_each_once_in_order(count: int) -> None:
    some = tuple(Annotation(path="a.py", line=index + 1, title="t", message="m") for index in range(count))
    check = Check(conclusion=Conclusion.FAILURE, title="t", summary="s", annotations=some)
    parts = [request["output"]["annotations"] for request in annotation_bodies(check)]
    assert all(0 < len(part) <= 50 for part in parts)
    assert [entry["start_line"] for part in parts for entry in part] == list(range(1, count + 1))
    assert "annotations" not in body(SUBJECT, check)["output"]


# Who may write what over what.


def existing(subject: Subject, check: Check) -> Shown:
    return Shown(
        id=7,
        external_id=checkruns.external_id(subject, check),
        started=subject.started,
        conclusion=check.conclusion,
        title=check.title,
        summary=check.summary,
    )


@pytest.mark.parametrize(
    ("before", "end", "succeeded", "expected"),
    [
        (checks.running(), GREEN, True, GREEN),
        (checks.running(), RED, False, RED),
        (RED, GREEN, True, GREEN),  # a retry
        (
            checks.running(),
            None,
            False,
            checks.unproved("the workflow ended before the tests were planned; its red step says why"),
        ),
        (checks.not_needed(), None, True, None),
        (checks.waiting("l"), None, False, checks.expired("l")),
        (checks.refused("r"), None, False, None),
        (checks.refused("r"), GREEN, True, None),
        (checks.waiting("l"), GREEN, True, checks.expired("l")),
        (checks.expired("l"), GREEN, True, None),
        (checks.unreported(), GREEN, True, checks.unreported()),
        (None, GREEN, True, checks.unreported()),
        (None, None, True, checks.unreported()),
    ],
)
def test_a_verdict_counts_only_where_the_gate_said_that_it_runs(
    before: Check | None, end: Check | None, succeeded: bool, expected: Check | None
) -> None:
    there = None if before is None else existing(SUBJECT, before)
    assert checks.at_the_end(there, uid="uid-1", end=end, succeeded=succeeded, label="l") == expected
    if there is not None:  # and another workflow's report is none, but stays if its gate let it pass
        other = replace(there, external_id="uid-9")
        stays = None if other.behind_gate else checks.unreported()
        assert checks.at_the_end(other, uid="uid-1", end=end, succeeded=succeeded, label="l") == stays


_STATES = st.sampled_from([checks.not_needed(), checks.waiting("l"), checks.refused("r"), checks.running(), GREEN, RED])
_SUBJECTS = st.tuples(st.integers(0, 2), st.sampled_from("abc")).map(
    lambda drawn: replace(SUBJECT, started=STARTED + timedelta(seconds=drawn[0]), uid=drawn[1])
)


_SAID = st.lists(st.tuples(_SUBJECTS, _STATES), min_size=1, max_size=12).map(
    lambda said: [(replace(subject, uid=f"{subject.uid}{subject.started.second}"), check) for subject, check in said]
)


def shown_after(said: list[tuple[Subject, Check]]) -> list[Shown]:
    """What is shown after each report."""
    fake, found = _Recorder(), []
    for subject, check in said:
        publish(fake, subject, check, fake.newest())  # type: ignore[arg-type]
        shows = fake.newest()
        assert shows is not None
        found.append(shows)
    return found


@given(_SAID, st.booleans())
def test_of_reports_alike_the_newest_workflows_last_one_stands_in_whatever_order_they_come(
    said: list[tuple[Subject, Check]], behind_gate: bool
) -> None:
    said = [(subject, check) for subject, check in said if check.behind_gate is behind_gate]
    if not said:
        return
    newest = max((subject.started, subject.uid) for subject, _ in said)
    last = [check for subject, check in said if (subject.started, subject.uid) == newest][-1]
    shows = shown_after(said)[-1]
    assert (shows.uid, shows.title, shows.conclusion) == (newest[1], last.title, last.conclusion)


@given(_SAID)
def test_what_was_said_behind_a_gate_is_only_replaced_by_its_own_workflow_or_from_behind_another(
    said: list[tuple[Subject, Check]],
) -> None:
    shows = shown_after(said)
    for before, after, (subject, check) in zip(shows, shows[1:], said[1:], strict=False):
        if before.behind_gate and before.uid != subject.uid and not check.behind_gate:
            assert after == before
        if not before.behind_gate and check.behind_gate:
            assert (after.uid, after.title) == (subject.uid, check.title)


class _Recorder:
    """Keeps check runs as GitHub does, in memory: hypothesis has no time for HTTP. Completed ones stay as they are."""

    def __init__(self) -> None:
        self.state = State()

    def post(self, path: str, sent: dict[str, Any]) -> Any:
        return github_checks.create(self.state, sent, "app")[1]

    def patch(self, path: str, sent: dict[str, Any]) -> Any:
        number = int(path.rpartition("/")[2])
        assert self.state.check_runs[number]["status"] != "completed" or sent.keys() == {"output"}
        status, answer = github_checks.update(self.state, number, sent)
        assert status == 200
        return answer

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        yield from github_checks.listed(self.state, HEAD, {key: str(value) for key, value in query.items()})

    def newest(self) -> Shown | None:
        return shown(self, SUBJECT)  # type: ignore[arg-type]
