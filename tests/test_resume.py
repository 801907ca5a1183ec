from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.model import Outcome
from shardlib.resume import PastAttempt, Rerun, choose, fold


def finished(**outcomes: str) -> list[dict[str, Any]]:
    return [{"id": test, "outcome": outcome, "seconds": 1.0} for test, outcome in outcomes.items()]


def attempt(number: int, *, end: str | None = "finished", rerun: Rerun = Rerun.ALL, **outcomes: str) -> PastAttempt:
    return PastAttempt(number=number, rerun=rerun, end=end, finished=finished(**outcomes))


@pytest.mark.parametrize(
    ("past", "retries", "expected"),
    [
        ([], 0, Rerun.ALL),
        ([attempt(0)], 0, Rerun.FAILED),
        ([attempt(0, end=None)], 0, Rerun.UNFINISHED),
        ([attempt(0, end="stopped")], 0, Rerun.UNFINISHED),
        ([attempt(0, end="infrastructure")], 0, Rerun.UNFINISHED),
        ([attempt(0)], 1, Rerun.UNFINISHED),
        ([attempt(0), attempt(1, end=None)], 0, Rerun.UNFINISHED),
    ],
)
def test_what_runs_again_follows_from_how_the_last_attempt_ended(
    past: list[PastAttempt], retries: int, expected: Rerun
) -> None:
    assert choose(past, retries=retries) is expected


def test_an_automatic_retry_finishes_what_is_open_and_gives_no_second_chance() -> None:
    states = fold("abc", [attempt(0, end=None, a="passed", b="failed")])
    assert [test for test, state in states.items() if state.open] == ["c"]


def test_a_persons_retry_repeats_what_did_not_pass() -> None:
    past = [attempt(0, a="passed", b="failed", c="skipped", d="crashed")]
    states = fold("abcd", past)
    for state in states.values():
        state.reopen(Rerun.FAILED)
    assert [test for test, state in states.items() if state.open] == ["b", "d"]


def test_an_automatic_retry_of_a_persons_retry_finishes_that_one() -> None:
    past = [attempt(0, a="failed", b="failed"), attempt(1, rerun=Rerun.FAILED, end=None, a="passed")]
    states = fold("ab", past)
    assert [test for test, state in states.items() if state.open] == ["b"]
    assert states["a"].counted()["earlier"] == ["failed"]


def test_the_last_word_of_one_attempt_counts_and_is_no_earlier_outcome() -> None:
    past = [
        PastAttempt(number=0, rerun=Rerun.ALL, end="finished", finished=[*finished(a="passed"), *finished(a="error")])
    ]
    counted = fold("a", past)["a"].counted()
    assert counted["outcome"] == "error"
    assert "earlier" not in counted


def test_events_of_foreign_tests_are_ignored() -> None:
    assert set(fold("a", [attempt(0, a="passed", stranger="passed")])) == {"a"}


_OUTCOMES = st.sampled_from([outcome.value for outcome in Outcome])
_ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from(list(Rerun)),
        st.sampled_from(["finished", "stopped", None]),
        st.dictionaries(st.sampled_from("abcd"), _OUTCOMES),
    ),
    max_size=5,
)


@given(_ATTEMPTS)
def test_a_finished_test_is_open_again_only_if_an_attempt_says_so(
    rows: list[tuple[Rerun, str | None, dict[str, str]]],
) -> None:
    past = [attempt(n, end=end, rerun=rerun, **outcomes) for n, (rerun, end, outcomes) in enumerate(rows)]
    for test, state in fold("abcd", past).items():
        ran = [n for n, (_, _, outcomes) in enumerate(rows) if test in outcomes]
        assert [number for number, _ in state.history] == ran
        if ran and all(rerun in (Rerun.UNFINISHED, Rerun.NONE) for rerun, _, _ in rows[ran[-1] + 1 :]):
            assert not state.open
        if not ran:
            assert state.open
