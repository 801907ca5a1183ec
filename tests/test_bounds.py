"""Lower bounds: no plan beats them; brute force over every cut, assignment and order is the judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from shardlib.bounds import duration, longest_jobs_bound, lower_bound
from shardlib.grouping import whole_groups
from shardlib.model import Group, Mode, PlannedTest, WeightSource
from shardlib.timeline import schedule

from .strategies import Suite, suites


def partitions(tests: Sequence[PlannedTest]) -> Iterator[list[list[PlannedTest]]]:
    """Every way to put tests into groups, consecutive or not."""
    if not tests:
        yield []
        return
    for parts in partitions(tests[1:]):
        yield [[tests[0]], *parts]
        for n in range(len(parts)):
            yield [*parts[:n], [tests[0], *parts[n]], *parts[n + 1 :]]


def optimum(whole: Sequence[Group], *, shards: int, slots: int, startup_ms: int) -> int:
    """The shortest makespan of any plan that the runner can run."""
    best = None
    for cuts in product(*(list(partitions(group.tests)) for group in whole)):
        pieces = [
            replace(group, id=f"{n}.{k}", tests=tuple(part))
            for n, (group, cut) in enumerate(zip(whole, cuts, strict=True))
            for k, part in enumerate(cut)
        ]
        for owners in product(range(shards), repeat=len(pieces)):
            makespan = 0
            for node in range(shards):
                mine = [piece for piece, owner in zip(pieces, owners, strict=True) if owner == node]
                makespan = max(
                    makespan,
                    min(schedule(o, slots=slots, startup_ms=startup_ms).makespan_ms for o in permutations(mine)),
                )
            best = makespan if best is None else min(best, makespan)
    assert best is not None
    return best


@settings(max_examples=60)
@given(suites(gpus=2, most_files=2, most_tests=2, cpu=False), st.integers(1, 2), st.integers(0, 15))
def test_no_plan_beats_the_bound(suite: Suite, shards: int, startup_ms: int) -> None:
    whole = whole_groups(suite.tests, suite.weights)
    bound = lower_bound(whole, shards=shards, slots=2, startup_ms=startup_ms)
    assert bound.ms <= optimum(whole, shards=shards, slots=2, startup_ms=startup_ms)


@settings(max_examples=30)
@given(suites(gpus=3, most_files=3, most_tests=1, cpu=False), st.integers(0, 15))
def test_no_plan_of_three_slots_beats_the_bound(suite: Suite, startup_ms: int) -> None:
    whole = whole_groups(suite.tests, suite.weights)
    bound = lower_bound(whole, shards=1, slots=3, startup_ms=startup_ms)
    assert bound.ms <= optimum(whole, shards=1, slots=3, startup_ms=startup_ms)


def groups_of(weights: Sequence[int], mode: Mode = Mode.CONCURRENT, gpus: int = 1, setup_ms: int = 0) -> list[Group]:
    return [
        Group(
            id=f"{n}",
            file=f"f{n}",
            mode=mode,
            gpus=gpus,
            setup_ms=setup_ms,
            tests=(PlannedTest(id=f"f{n}::t", weight_ms=ms, source=WeightSource.KNOWN),),
        )
        for n, ms in enumerate(weights)
    ]


def test_longest_test_with_its_setup_and_start_is_the_floor_and_is_named() -> None:
    bound = lower_bound(groups_of([5000, 90000], setup_ms=2000), shards=12, slots=8, startup_ms=1000)
    assert bound.ms == 93000
    assert bound.is_longest_test
    assert "1 min 33 s: f1::t" in bound.why


def test_shared_worker_pays_one_start_for_each_slot_it_fills() -> None:
    bound = lower_bound(groups_of([10] * 100), shards=2, slots=5, startup_ms=30)
    assert bound.ms == 30 + 100


def test_each_isolated_file_pays_a_start() -> None:
    bound = lower_bound(groups_of([10] * 100, Mode.ISOLATED), shards=2, slots=5, startup_ms=30)
    assert bound.ms == 10 * 40


def test_what_needs_most_of_a_node_runs_one_at_a_time() -> None:
    bound = lower_bound(groups_of([10] * 6, gpus=5), shards=2, slots=8, startup_ms=0)
    assert bound.ms == 30
    assert "5 or more slots: only 2" in bound.why


def test_long_jobs_that_must_share_a_machine_raise_the_bound() -> None:
    assert longest_jobs_bound([7, 6, 5, 1], 2) == 11  # of the three longest, two share a machine
    assert longest_jobs_bound([3, 3, 2, 2, 2], 2) == 6
    assert longest_jobs_bound([4], 3) == 4
    assert longest_jobs_bound([], 3) == 0


@given(st.lists(st.integers(0, 20), max_size=6), st.integers(1, 3))
def test_no_assignment_beats_the_bound_for_jobs(jobs: list[int], machines: int) -> None:
    best = min(
        max(
            sum(job for job, owner in zip(jobs, owners, strict=True) if owner == machine) for machine in range(machines)
        )
        for owners in product(range(machines), repeat=len(jobs))
    )
    bound = longest_jobs_bound(jobs, machines)
    assert -(-sum(jobs) // machines) <= bound <= best
    assert max(jobs, default=0) <= bound


def test_nothing_takes_no_time() -> None:
    assert lower_bound([], shards=1, slots=1, startup_ms=5).ms == 0


def test_durations_are_shown_as_a_person_reads_them() -> None:
    assert [duration(ms) for ms in (0, 449, 59_940, 59_960, 60_000, 3_599_600)] == [
        "0.0 s",
        "0.4 s",
        "59.9 s",
        "1 min 00 s",
        "1 min 00 s",
        "60 min 00 s",
    ]
