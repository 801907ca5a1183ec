"""`follow` against a small model of a cluster, in which actions have their effect and runs go on by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import GateError
from shardlib.gate.following import (
    Action,
    PullState,
    Resume,
    Retag,
    RetryGate,
    Stage,
    StagedRun,
    Stop,
    Submit,
    ended_since,
    follow,
    must_wait,
)
from shardlib.gate.runs import Phase, Run

LABEL = "run-gpu-tests"
A, B, C = ("a" * 40, "b" * 40, "c" * 40)
EPOCH = datetime(2030, 1, 1, tzinfo=timezone.utc)


def run(name: str, stage: Stage, sha: str = A, age: int = 0) -> StagedRun:
    phase = Phase.RUNNING if stage.live or stage is Stage.STOPPING else Phase.FAILED
    started = EPOCH + timedelta(seconds=age)
    one = Run(name=name, uid=f"uid-{name}", pr="7", sha=sha, repository="o/r", phase=phase, started=started)
    return StagedRun(run=one, stage=stage)


def pull(*labels: str, head: str = A, open: bool = True, merged: bool = False) -> PullState:
    return PullState(open=open, merged=merged, head=head, labels=frozenset(labels), updated=EPOCH)


def told(state: PullState, *runs: StagedRun) -> list[Action]:
    return follow(state, runs, label=LABEL)


@pytest.mark.parametrize("labels", [(), (LABEL,), ("other", LABEL)])
def test_a_head_without_a_run_gets_one(labels: Sequence[str]) -> None:
    assert told(pull(*labels)) == [Submit(sha=A)]
    assert told(pull(*labels), run("old", Stage.DONE, sha=B)) == [Submit(sha=A)]


@pytest.mark.parametrize("stage", list(Stage))
def test_a_run_of_a_closed_pull_request_is_stopped_if_it_lives(stage: Stage) -> None:
    expected = [Stop(name="x", message="the pull request is closed")] if stage.live else []
    assert told(pull(LABEL, open=False), run("x", stage)) == expected


@pytest.mark.parametrize("stage", list(Stage))
def test_a_run_of_another_head_is_stopped_if_it_lives(stage: Stage) -> None:
    stop = [Stop(name="x", message=f"the head is {A} now")] if stage.live else []
    assert told(pull(LABEL), run("x", stage, sha=B)) == [*stop, Submit(sha=A)]


@pytest.mark.parametrize(
    ("stage", "labelled", "unlabelled"),
    [
        (Stage.AHEAD, [], []),
        (Stage.WAITING, [Resume(name="x")], []),
        (Stage.VERIFYING, [], []),
        (Stage.PAST, [], []),
        (Stage.STOPPING, [], []),
        (Stage.CLOSED, [RetryGate(name="x")], []),
        (Stage.DONE, [], []),
    ],
)
def test_what_the_label_does_depends_on_how_far_the_run_is(
    stage: Stage, labelled: list[Action], unlabelled: list[Action]
) -> None:
    assert told(pull(LABEL), run("x", stage)) == labelled
    assert told(pull(), run("x", stage)) == unlabelled
    assert told(pull("other"), run("x", stage)) == unlabelled


@pytest.mark.parametrize("untagged", [True, False])
@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("head", [A, B])
def test_a_green_run_is_tagged_when_its_head_is_merged_and_never_another(
    head: str, merged: bool, untagged: bool
) -> None:
    green = dataclasses.replace(run("x", Stage.DONE), untagged=untagged)
    expected = [Retag(name="x")] if merged and untagged and head == A else []
    assert told(pull(LABEL, head=head, open=False, merged=merged), green) == expected
    assert Retag(name="x") not in told(pull(LABEL, head=head), green)


@pytest.mark.parametrize("stage", list(Stage))
def test_one_waits_for_a_run_on_its_way_to_the_gate_through_it_or_to_its_end_and_for_nothing_else(stage: Stage) -> None:
    expected = stage in (Stage.AHEAD, Stage.VERIFYING, Stage.STOPPING)
    assert must_wait(pull(LABEL), [run("x", stage)], label=LABEL) == expected
    assert not must_wait(pull(), [run("x", stage)], label=LABEL)
    assert not must_wait(pull(LABEL, open=False), [run("x", stage)], label=LABEL)
    assert not must_wait(pull(LABEL), [], label=LABEL)
    assert not must_wait(pull(LABEL, head=B), [run("x", stage)], label=LABEL)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.SUCCEEDED])
def test_a_run_that_is_ending_is_waited_for_when_its_head_is_merged(stage: Stage, phase: Phase) -> None:
    """It may have let GitHub merge by its check, which it writes before its end."""
    one = run("x", stage)
    one = dataclasses.replace(one, run=dataclasses.replace(one.run, phase=phase))
    expected = stage is Stage.DONE and phase is Phase.RUNNING
    assert must_wait(pull(open=False, merged=True), [one], label=LABEL) == expected


def test_of_two_runs_of_a_head_the_one_that_came_further_stays() -> None:
    runs = [run("old", Stage.AHEAD, age=0), run("new", Stage.PAST, age=9)]
    assert told(pull(LABEL), *runs) == [Stop(name="old", message="new is a run of this head already")]
    same = [run("old", Stage.WAITING, age=0), run("new", Stage.WAITING, age=9)]
    for listed in (same, same[::-1]):
        assert told(pull(), *listed) == [Stop(name="new", message="old is a run of this head already")]


def test_a_run_that_a_person_resubmitted_is_the_one_that_counts() -> None:
    runs = [run("old", Stage.CLOSED, age=0), run("resubmitted", Stage.WAITING, age=9)]
    assert told(pull(LABEL), *runs) == [Resume(name="resubmitted")]
    ended = [run("old", Stage.CLOSED, age=0), run("resubmitted", Stage.DONE, age=9)]
    assert told(pull(LABEL), *ended) == []


stages = st.sampled_from(list(Stage))
heads = st.sampled_from([A, B, C])
pulls = st.builds(
    PullState,
    open=st.booleans(),
    head=heads,
    labels=st.sets(st.sampled_from([LABEL, "other"])).map(frozenset),
    updated=st.just(EPOCH),
)
clusters = st.lists(st.tuples(stages, heads, st.integers(0, 3)), max_size=6).map(
    lambda items: [run(f"run-{number}", *item) for number, item in enumerate(items)]
)


class Cluster:
    """Runs by name. Leaves out time: what is told to stop has stopped when somebody looks again, unless `slow`."""

    def __init__(self, runs: Sequence[StagedRun] = ()) -> None:
        self.runs = {one.run.name: one for one in runs}

    def act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Submit):
                name = f"gpu-ci-7-{action.sha[:12]}"
                self.runs.setdefault(name, run(name, Stage.AHEAD, action.sha, len(self.runs) + 10))
                continue
            before = self.runs[action.name]
            expected = {
                Resume: {Stage.WAITING},
                RetryGate: {Stage.CLOSED},
                Stop: {Stage.AHEAD, Stage.WAITING, Stage.VERIFYING, Stage.PAST},
            }
            assert before.stage in expected[type(action)]
            after = {Resume: Stage.PAST, RetryGate: Stage.WAITING, Stop: Stage.CLOSED}[type(action)]
            self.runs[action.name] = dataclasses.replace(before, stage=after)

    def settle(self, state: PullState) -> None:
        """Looks and acts until there is nothing to do."""
        for _ in range(4):
            actions = follow(state, list(self.runs.values()), label=LABEL)
            if not actions:
                return
            self.act(actions)
        raise AssertionError("it never came to rest")

    def reach_the_gate(self) -> None:
        for name, one in self.runs.items():
            if one.stage is Stage.AHEAD:
                self.runs[name] = dataclasses.replace(one, stage=Stage.WAITING)

    def live(self) -> list[StagedRun]:
        return [one for one in self.runs.values() if one.stage.live]


def check(cluster: Cluster, state: PullState) -> None:
    live = cluster.live()
    assert len(live) <= (1 if state.open else 0)
    assert all(one.run.sha == state.head for one in live)
    if state.open:
        assert any(one.run.sha == state.head for one in cluster.runs.values())
        if LABEL in state.labels:
            assert all(one.stage is not Stage.WAITING for one in live)


@given(pulls, clusters)
def test_acting_comes_to_rest_with_at_most_one_live_run_of_the_head_and_none_of_a_closed_one(
    state: PullState, runs: list[StagedRun]
) -> None:
    cluster = Cluster(runs)
    cluster.settle(state)
    check(cluster, state)
    assert follow(state, list(cluster.runs.values()), label=LABEL) == []


@given(pulls, clusters.flatmap(lambda runs: st.tuples(st.just(runs), st.permutations(runs))))
def test_the_order_in_which_runs_are_listed_changes_nothing(
    state: PullState, lists: tuple[list[StagedRun], list[StagedRun]]
) -> None:
    assert follow(state, lists[0], label=LABEL) == follow(state, lists[1], label=LABEL)


@given(pulls, clusters)
def test_no_run_gets_two_actions_and_nothing_behind_the_gate_of_the_head_is_touched(
    state: PullState, runs: list[StagedRun]
) -> None:
    actions = follow(state, runs, label=LABEL)
    names = [action.name for action in actions if not isinstance(action, Submit)]
    assert len(set(names)) == len(names)
    untouched = {one.run.name for one in runs if one.stage in (Stage.DONE, Stage.STOPPING)}
    assert not untouched & set(names)


def labelled(state: PullState) -> PullState:
    return dataclasses.replace(state, labels=frozenset({LABEL}))


EVENTS: dict[str, Any] = {
    "push a": lambda state: dataclasses.replace(state, head=A),
    "push b": lambda state: dataclasses.replace(state, head=B),
    "label": labelled,
    "unlabel": lambda state: dataclasses.replace(state, labels=frozenset()),
    "close": lambda state: dataclasses.replace(state, open=False),
    "reopen": lambda state: dataclasses.replace(state, open=True),
    "a look": lambda state: state,  # a delivery that is late, or comes twice
    "runs go on": None,
}


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=30))
def test_whatever_happens_and_whichever_deliveries_are_late_or_lost_the_last_look_makes_it_right(
    events: list[str],
) -> None:
    state, cluster = pull(), Cluster()
    for event in events:
        if event == "runs go on":
            cluster.reach_the_gate()
        else:
            state = EVENTS[event](state)
        if event == "a look":
            cluster.settle(state)
            check(cluster, state)
    cluster.settle(state)
    cluster.reach_the_gate()
    cluster.settle(state)
    check(cluster, state)


@given(st.lists(st.sampled_from(["label", "unlabel"]), min_size=1, max_size=300))
def test_a_burst_of_label_flips_makes_one_run(flips: list[str]) -> None:
    state, cluster = pull(), Cluster()
    for flip in flips:
        state = EVENTS[flip](state)
        cluster.settle(state)
        cluster.reach_the_gate()
    assert len(cluster.runs) == 1


def answer(**fields: Any) -> dict[str, Any]:
    body = {"state": "open", "merged": False, "head": {"sha": A, "ref": "x"}, "labels": [{"name": LABEL}]}
    return {**body, "updated_at": "2030-01-01T00:00:00Z", "title": "{{x}}", **fields}


@pytest.mark.parametrize(("seconds", "expected"), [(59, []), (61, ["x"]), (None, [])])
def test_what_ended_a_minute_after_github_s_last_change_can_not_be_wanted_by_it(
    seconds: int | None, expected: list[str]
) -> None:
    ended = None if seconds is None else EPOCH + timedelta(seconds=seconds)
    one = run("x", Stage.CLOSED)
    one = dataclasses.replace(one, run=dataclasses.replace(one.run, finished=ended))
    assert ended_since(pull(LABEL), [one]) == expected


def test_of_github_s_answer_state_head_labels_and_last_change_are_read() -> None:
    assert PullState.read(answer(), "pulls/7") == pull(LABEL)
    assert PullState.read(answer(state="closed", labels=[]), "pulls/7") == pull(open=False)
    merged = PullState.read(answer(state="closed", merged=True), "pulls/7")
    assert merged == pull(LABEL, open=False, merged=True)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        answer(state="merged"),
        answer(state=None),
        answer(head=None),
        answer(head={"sha": A[:39]}),
        answer(head={"sha": "A" * 40}),
        answer(head={"sha": 7}),
        answer(merged=None),
        answer(merged="false"),
        answer(merged=True),  # and open
        answer(labels=None),
        answer(labels=[LABEL]),
        answer(labels=[{"name": None}]),
        answer(labels=[{}]),
        answer(updated_at=None),
        answer(updated_at="yesterday"),
        answer(updated_at="2030-01-01T00:00:00"),  # of which zone?
    ],
)
def test_an_answer_that_is_not_what_it_must_be_is_refused(body: Any) -> None:
    with pytest.raises(GateError, match="pulls/7"):
        PullState.read(body, "pulls/7")
