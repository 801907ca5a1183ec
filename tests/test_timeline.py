"""The timeline: the runner's rules, worked out naively here and cleverly there, must agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.dispatch import Seat, place
from shardlib.errors import PlanError
from shardlib.model import Group, Mode, PlannedTest, WeightSource
from shardlib.timeline import Entry, schedule

from .strategies import groups


def one(number: int, ms: int, mode: Mode = Mode.CONCURRENT, gpus: int = 1, setup_ms: int = 0) -> Group:
    test = PlannedTest(id=f"f{number}::t", weight_ms=ms, source=WeightSource.KNOWN)
    return Group(id=f"g{number}", file=f"f{number}", mode=mode, gpus=gpus, setup_ms=setup_ms, tests=(test,))


def naive(listed: list[Group], slots: int, startup_ms: int) -> list[Entry]:
    """At every moment, ask `place` for each waiting group in turn; nothing remembered but the seats."""
    seats: dict[str, Seat] = {}
    ends: dict[str, int] = {}
    waiting = list(listed)
    entries: list[Entry] = []
    now = 0
    while waiting or ends:
        for group in waiting:
            placement = place(group, list(seats.values()), slots)
            if placement is not None:
                for worker in placement.evict:
                    del seats[worker]
                worker = placement.reuse or f"w{len(entries)}"
                started = placement.reuse is None
                ends[worker] = now + group.cost_ms + startup_ms * started
                seats[worker] = Seat(worker=worker, mode=group.mode, slots=placement.slots, idle=False)
                entries.append(
                    Entry(group=group.id, slots=placement.slots, start_ms=now, end_ms=ends[worker], started=started)
                )
                waiting.remove(group)
                break
        else:
            now = min(ends.values())
            for worker in [worker for worker, end in ends.items() if end == now]:
                del ends[worker]
                old = seats.pop(worker)
                if not old.mode.fresh_process:
                    seats[worker] = Seat(worker=worker, mode=old.mode, slots=old.slots, idle=True)
    return entries


@given(st.data(), st.integers(1, 5), st.integers(0, 7))
def test_timeline_is_what_the_placement_policy_does(data: st.DataObject, slots: int, startup_ms: int) -> None:
    listed = data.draw(groups(slots=slots))
    assert list(schedule(listed, slots=slots, startup_ms=startup_ms).entries) == naive(listed, slots, startup_ms)


@given(st.data(), st.integers(1, 8), st.integers(0, 7))
def test_no_slot_is_given_twice_and_every_group_runs_once(data: st.DataObject, slots: int, startup_ms: int) -> None:
    listed = data.draw(groups(slots=slots))
    timeline = schedule(listed, slots=slots, startup_ms=startup_ms)
    assert sorted(entry.group for entry in timeline.entries) == sorted(group.id for group in listed)
    assert timeline.makespan_ms == max((entry.end_ms for entry in timeline.entries), default=0)
    for n, first in enumerate(timeline.entries):
        assert 0 <= min(first.slots) <= max(first.slots) < slots
        for second in timeline.entries[n + 1 :]:
            if first.start_ms < second.end_ms and second.start_ms < first.end_ms:
                assert not set(first.slots) & set(second.slots)


@given(st.data(), st.integers(1, 8), st.integers(0, 7))
def test_node_given_its_groups_in_start_order_does_the_same_again(
    data: st.DataObject, slots: int, startup_ms: int
) -> None:
    listed = data.draw(groups(slots=slots))
    by_id = {group.id: group for group in listed}
    timeline = schedule(listed, slots=slots, startup_ms=startup_ms)
    started = [by_id[entry.group] for entry in timeline.entries]
    assert schedule(started, slots=slots, startup_ms=startup_ms) == timeline


def test_living_worker_pays_its_start_once_and_each_isolated_group_pays_it() -> None:
    shared = [one(n, 10, setup_ms=5) for n in range(3)]
    alone = [one(n, 10, Mode.ISOLATED, setup_ms=5) for n in range(3)]
    assert schedule(shared, slots=1, startup_ms=100).makespan_ms == 100 + 3 * 15
    assert schedule(alone, slots=1, startup_ms=100).makespan_ms == 3 * 115


def test_change_of_mode_on_a_slot_ends_the_living_worker() -> None:
    listed = [one(0, 10), one(1, 10, Mode.ISOLATED), one(2, 10)]
    assert [entry.started for entry in schedule(listed, slots=1, startup_ms=1).entries] == [True, True, True]


def test_sequential_group_runs_alone() -> None:
    listed = [one(0, 10), one(1, 10, Mode.SEQUENTIAL, gpus=4), one(2, 3)]
    timeline = schedule(listed, slots=4, startup_ms=0)
    starts = {entry.group: entry.start_ms for entry in timeline.entries}
    assert starts == {"g0": 0, "g2": 0, "g1": 10}  # g2 is backfilled, g1 waits for the whole node


def test_empty_list_takes_no_time() -> None:
    assert schedule([], slots=8, startup_ms=10).makespan_ms == 0


def test_group_wider_than_the_node_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="f0::t needs 3 slots, a node has 2"):
        schedule([one(0, 1, gpus=3)], slots=2, startup_ms=0)
