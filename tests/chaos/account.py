"""Compares what a run's folder says with what the tests themselves told, and with what their faults deserve."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlib import evidence
from shardlib.model import Outcome
from shardlib.resume import Rerun
from shardlib.shardfolder import ShardFolder
from shardlib.verdict import CountedTest, Verdict, judge

from .drive import Cluster, Pod
from .scenario import DESERVED

# A worker that is killed or stopped from outside fails the test that runs in it, or the last one if it was about to end.
_KILLED = {Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.ERROR}


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One start of a test, as the test itself told it."""

    worker: str
    fault: str | None
    passed: bool  # it reached the end of its body and of its teardown
    last: bool  # no other test started in its process after it

    @property
    def attempt(self) -> int:
        return int(self.worker.split("/")[-2])


def executions(pod: Pod) -> dict[str, list[Execution]]:
    """Returns what ran, by test, in order."""
    told: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    last: dict[str, str] = {}
    for line in pod.account():
        told[line["test"], line["worker"]].append(line)
        if line["what"] == "start":
            last[line["worker"]] = line["test"]
    found: dict[str, list[Execution]] = defaultdict(list)
    for (test, worker), lines in told.items():
        assert [line["what"] for line in lines].count("start") == 1, f"{test} started twice in {worker}"
        found[test].append(
            Execution(
                worker=worker,
                fault=next((line["kind"] for line in lines if line["what"] == "fault"), None),
                passed={"pass", "end"} <= {line["what"] for line in lines},
                last=last[worker] == test,
            )
        )
    return found


def check(cluster: Cluster) -> Verdict:
    """Returns the verdict after every rule was checked; AssertionError naming what is broken."""
    shards, unreadable = evidence.read(cluster.folder, list(cluster.pods))
    verdict = judge(cluster.plan, shards, unreadable)
    planned = Counter(test.id for group in cluster.plan.groups for test in group.tests)
    assert Counter(test.planned.id for test in verdict.tests) == planned
    for pod in cluster.pods.values():
        folder = cluster.folder.shard(pod.shard)
        ran = executions(pod)
        assert not pod.left_behind, f"shard {pod.shard} left processes behind: {pod.left_behind}"
        broken = [*_run_again(folder, ran), *_counted_wrong(cluster, folder)]
        for test in (test for test in verdict.tests if test.shard == pod.shard):
            broken += _undeserved(test, pod, ran.get(test.planned.id, []), folder)
        assert not broken, f"shard {pod.shard}:\n" + "\n".join(broken)
    _check_escaped(cluster)
    assert verdict.green == all(test.outcome.ok for test in verdict.tests), [r.text for r in verdict.reasons]
    return verdict


def _counted_wrong(cluster: Cluster, folder: ShardFolder) -> Iterator[str]:
    """Yields what the newest results lose or count twice."""
    results = folder.results()
    for group in cluster.scenario.groups[folder.name]:
        if group.id not in results:
            yield f"{group.id} has no result"
            continue
        counted = folder.read_result(group.id, results[group.id][-1])
        ids = Counter(test["id"] for test in counted["tests"])
        if ids != Counter(test.id for test in group.tests) or counted["extra"]:
            yield f"{group.id} counts {ids}, extra {counted['extra']}"


def _run_again(folder: ShardFolder, ran: dict[str, list[Execution]]) -> Iterator[str]:
    """Yields the tests that started although an earlier attempt had finished them, or twice in an attempt."""
    finished: dict[str, Outcome] = {}
    for number in folder.attempts():
        rerun = Rerun(folder.read_attempt(number)["rerun"])
        if rerun is Rerun.FAILED:
            finished = {test: outcome for test, outcome in finished.items() if outcome.ok}
        events = list(folder.read_events(number))
        started = Counter(event["id"] for event in events if event["event"] == "start")
        really = Counter(test for test, starts in ran.items() for execution in starts if execution.attempt == number)
        for test in started.keys() | really.keys():
            if test in finished:
                yield f"{test}, {finished[test].value} before, ran again in attempt {number} ({rerun.value})"
            if started[test] > 1 or really[test] > 1:
                yield f"{test} started {started[test]} (really {really[test]}) times in attempt {number}"
        finished |= {event["id"]: Outcome(event["outcome"]) for event in events if event["event"] == "finish"}


def _undeserved(test: CountedTest, pod: Pod, ran: list[Execution], folder: ShardFolder) -> Iterator[str]:
    """Yields what is wrong with a test's one outcome."""
    counted = [execution for execution in ran if execution.attempt == test.attempt]
    where = f"{test.planned.id} (attempt {test.attempt}) is {test.outcome.value}: {test.reason!r}"
    if not counted:
        if test.outcome is not Outcome.NOT_RUN:
            yield f"{where}, but it never ran there"
        elif test.attempt is None or not _was_given_up(test, pod, folder):
            yield f"{where}, but its group was not given up"
        return
    execution = counted[-1]
    deserved = {Outcome.PASSED} if execution.fault is None else DESERVED[execution.fault]
    if execution.worker in pod.killed_workers and execution.last:
        deserved = deserved | _KILLED
    if test.outcome not in deserved:
        wanted = " or ".join(outcome.value for outcome in deserved)
        yield f"{where}, but with fault {execution.fault!r} in {execution.worker} it deserves {wanted}"
    if test.outcome.ok and not execution.passed:
        yield f"{where}, but by its own account it did not pass"


def _was_given_up(test: CountedTest, pod: Pod, folder: ShardFolder) -> bool:
    """Whether three workers in a row died under the test's group before it got the outcome."""
    assert test.attempt is not None
    barren = 0
    for event in folder.read_events(test.attempt):
        if event["event"] == "finish" and event["group"] == test.group.id:
            if event["id"] == test.planned.id:
                break
            outcome = Outcome(event["outcome"])
            if outcome is Outcome.NOT_RUN:
                continue
            barren = barren + 1 if outcome in (Outcome.CRASHED, Outcome.TIMED_OUT) else 0
    killed = sum(worker.split("/")[-2] == str(test.attempt) for worker in pod.killed_workers)
    return barren + killed >= 3


def _check_escaped(cluster: Cluster) -> None:
    """Checks that what cleared its environment is gone, too, unless its runner was killed before it could look."""
    excused = sum(
        execution.fault == "child escaped" and execution.attempt in pod.hard_starts
        for pod in cluster.pods.values()
        for starts in executions(pod).values()
        for execution in starts
    )
    assert len(cluster.escaped()) <= excused, f"{cluster.escaped()} left behind, {excused} of them excused"
