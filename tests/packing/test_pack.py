"""`pack`: exactly once, order of files irrelevant, makespan between the bounds, and as the timeline runs it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.bounds import lower_bound
from shardlib.durations import weigh
from shardlib.errors import PlanError
from shardlib.grouping import whole_groups
from shardlib.model import CPU_SHARD, CollectedTest, Mode
from shardlib.packing import Packing, Strategy, pack
from shardlib.timeline import schedule

from ..strategies import Suite, suites

STRATEGIES: tuple[Strategy, ...] = ("timeline", "lpt")
GPUS = 4


def packed(suite: Suite, shards: int, startup_ms: int, strategy: Strategy) -> Packing:
    return pack(
        suite.tests,
        suite.weights,
        shards=shards,
        gpus=GPUS,
        cpu_slots=2,
        startup_ms=startup_ms,
        strategy=strategy,
    )


def flat(seconds: list[float], mode: Mode = Mode.CONCURRENT, gpus: int = 1) -> Suite:
    """One file for each test."""
    files = []
    durations = {}
    for n, duration in enumerate(seconds):
        file = f"test_{n:04}.py"
        test = CollectedTest(id=f"{file}::t", file=file, mode=mode, gpus=gpus)
        files.append((test,))
        durations[test.id] = duration
    return Suite(files=tuple(files), durations=durations)


@given(suites(gpus=GPUS), st.integers(1, 3), st.integers(0, 30), st.sampled_from(STRATEGIES))
def test_each_test_is_in_one_group_and_each_group_on_one_shard(
    suite: Suite, shards: int, startup_ms: int, strategy: Strategy
) -> None:
    packing = packed(suite, shards, startup_ms, strategy)
    assert sorted(t.id for g in packing.groups for t in g.tests) == sorted(t.id for t in suite.tests)
    assert sorted(name for shard in packing.shards for name in shard.groups) == [g.id for g in packing.groups]
    assert all(shard.groups for shard in packing.shards)
    place = {test.id: n for n, test in enumerate(suite.tests)}
    collected = {test.id: test for test in suite.tests}
    by_id = {group.id: group for group in packing.groups}
    for group in packing.groups:
        assert [place[test.id] for test in group.tests] == sorted(place[test.id] for test in group.tests)
        assert {(collected[t.id].file, collected[t.id].mode, collected[t.id].gpus) for t in group.tests} == {
            (group.file, group.mode, group.gpus)
        }
    for shard in packing.shards:
        assert {by_id[name].mode is Mode.CPU for name in shard.groups} == {shard.is_cpu}
        assert shard.slots == (2 if shard.is_cpu else GPUS)


@given(
    suites(gpus=GPUS),
    st.integers(1, 3),
    st.integers(0, 30),
    st.sampled_from(STRATEGIES),
    st.randoms(use_true_random=False),
)
def test_order_of_files_is_irrelevant(
    suite: Suite, shards: int, startup_ms: int, strategy: Strategy, shuffled: random.Random
) -> None:
    files = list(suite.files)
    shuffled.shuffle(files)
    again = Suite(files=tuple(files), durations=suite.durations)
    assert packed(again, shards, startup_ms, strategy) == packed(suite, shards, startup_ms, strategy)


@given(suites(gpus=GPUS), st.integers(1, 3), st.integers(0, 30), st.sampled_from(STRATEGIES))
def test_shards_are_predicted_by_the_timeline_and_listed_as_they_start(
    suite: Suite, shards: int, startup_ms: int, strategy: Strategy
) -> None:
    packing = packed(suite, shards, startup_ms, strategy)
    by_id = {group.id: group for group in packing.groups}
    for shard in packing.shards:
        listed = [by_id[name] for name in shard.groups]
        timeline = schedule(listed, slots=shard.slots, startup_ms=startup_ms)
        assert timeline.makespan_ms == shard.predicted_ms
        assert tuple(entry.group for entry in timeline.entries) == shard.groups
    on_gpu = [shard.predicted_ms for shard in packing.shards if not shard.is_cpu]
    if on_gpu:
        assert packing.makespan_ms == max(on_gpu)


@given(suites(gpus=GPUS, cpu=False), st.integers(1, 3), st.integers(0, 30), st.sampled_from(STRATEGIES))
def test_makespan_is_no_less_than_the_bound_and_no_more_than_all_in_turn(
    suite: Suite, shards: int, startup_ms: int, strategy: Strategy
) -> None:
    packing = packed(suite, shards, startup_ms, strategy)
    whole = whole_groups(suite.tests, suite.weights)
    assert packing.lower_bound_ms == lower_bound(whole, shards=shards, slots=GPUS, startup_ms=startup_ms).ms
    in_turn = sum(group.cost_ms + startup_ms for group in packing.groups)
    assert packing.lower_bound_ms <= packing.makespan_ms <= in_turn


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 3))
def test_tests_of_one_gpu_end_within_one_longest_test_of_the_mean(weights: list[int], shards: int) -> None:
    suite = flat([ms / 1000 for ms in weights])
    packing = packed(suite, shards, 0, "timeline")
    milliseconds = [max(1, ms) for ms in weights]
    mean = sum(milliseconds) / (shards * GPUS)
    assert max(mean, max(milliseconds)) <= packing.makespan_ms <= mean + max(milliseconds)


def test_hopeless_case_of_lpt_is_packed_perfectly() -> None:
    # Graham's worst case for m = 4: LPT ends at 15 of 12.
    suite = flat([0.007, 0.007, 0.006, 0.006, 0.005, 0.005, 0.004, 0.004, 0.004])
    packing = packed(suite, 1, 0, "timeline")
    assert packing.makespan_ms == packing.lower_bound_ms == 12


def test_long_file_is_cut_and_each_piece_pays_the_setup() -> None:
    tests = tuple(CollectedTest(id=f"f::t{n:02}", file="f", mode=Mode.CONCURRENT, gpus=1) for n in range(40))
    suite = Suite(files=(tests,), durations={**{test.id: 1.0 for test in tests}, "f": 0.5})
    packing = packed(suite, 2, 0, "timeline")
    assert len(packing.groups) == 8
    assert packing.makespan_ms == 5500


def test_file_is_left_whole_where_its_setup_costs_more() -> None:
    tests = tuple(CollectedTest(id=f"f::t{n}", file="f", mode=Mode.CONCURRENT, gpus=1) for n in range(4))
    suite = Suite(files=(tests,), durations={**{test.id: 1.0 for test in tests}, "f": 60.0})
    assert len(packed(suite, 2, 0, "timeline").groups) == 1


def test_lpt_is_blind_to_slots_and_balances_summed_seconds() -> None:
    alone = flat([8.0, 8.0], Mode.SEQUENTIAL, GPUS)
    shared = flat([4.0] * 4)
    files = (*alone.files, *((_renamed(file[0]),) for file in shared.files))
    durations = {**alone.durations, **{f"x{key}": value for key, value in shared.durations.items()}}
    packing = packed(Suite(files=files, durations=durations), 2, 0, "lpt")
    by_id = {group.id: group for group in packing.groups}
    sums = [sum(by_id[name].cost_ms for name in shard.groups) for shard in packing.shards]
    assert sums == [16000, 16000]


def _renamed(test: CollectedTest) -> CollectedTest:
    return CollectedTest(id=f"x{test.id}", file=f"x{test.file}", mode=test.mode, gpus=test.gpus)


def test_shards_without_groups_are_left_out_and_names_are_padded() -> None:
    assert [shard.name for shard in packed(flat([1.0] * 3), 12, 0, "timeline").shards] == ["01", "02", "03"]
    many = pack(
        flat([1.0] * 100).tests,
        flat([1.0] * 100).weights,
        shards=100,
        gpus=1,
        cpu_slots=1,
        startup_ms=0,
    )
    assert [many.shards[0].name, many.shards[-1].name] == ["001", "100"]


def test_cpu_tests_alone_give_a_cpu_shard_alone() -> None:
    packing = packed(flat([1.0, 1.0, 2.0], Mode.CPU, 0), 2, 100, "timeline")
    assert [(shard.name, shard.predicted_ms) for shard in packing.shards] == [(CPU_SHARD, 2100)]
    assert packing.makespan_ms == packing.lower_bound_ms == 2100


def test_nothing_to_pack_is_nothing() -> None:
    packing = packed(Suite(files=(), durations={}), 2, 100, "timeline")
    assert (packing.groups, packing.shards, packing.makespan_ms) == ((), (), 0)


def test_bottleneck_names_the_longest_test_where_it_is_the_floor() -> None:
    packing = packed(flat([600.0, 1.0, 1.0]), 2, 0, "timeline")
    assert packing.bottleneck == (
        "the longest test is the floor: more shards will not help (10 min 00 s: test_0000.py::t)"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"shards": 0}, "shards is 0"), ({"gpus": 0}, "gpus is 0"), ({"startup_ms": -1}, "startup_ms is -1")],
)
def test_impossible_count_is_refused(changed: dict[str, int], message: str) -> None:
    counts = {"shards": 1, "gpus": 1, "cpu_slots": 1, "startup_ms": 0, **changed}
    suite = flat([1.0])
    with pytest.raises(PlanError, match=message):
        pack(
            suite.tests,
            suite.weights,
            shards=counts["shards"],
            gpus=counts["gpus"],
            cpu_slots=counts["cpu_slots"],
            startup_ms=counts["startup_ms"],
        )


def test_test_wider_than_a_node_is_refused_by_name() -> None:
    suite = flat([1.0], gpus=5)
    with pytest.raises(PlanError, match=r"'test_0000\.py::t' needs 5 GPUs, a node has 4"):
        packed(suite, 1, 0, "timeline")


def test_unknown_weights_are_packed_like_known_ones() -> None:
    suite = flat([1.0] * 8)
    weights = weigh(suite.tests, {}, unknown_seconds=2)
    assert pack(suite.tests, weights, shards=2, gpus=4, cpu_slots=1, startup_ms=0).makespan_ms == 2000
