"""Groups: one file, mode and GPU count; pieces keep the order, balance the weight, lose nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.durations import weigh
from shardlib.errors import PlanError
from shardlib.grouping import pieces_for, split, whole_groups
from shardlib.model import CollectedTest, Group, Mode, PlannedTest, WeightSource

from .strategies import Suite, milliseconds, suites


def a_group(weights: list[int], mode: Mode = Mode.CONCURRENT, setup_ms: int = 0) -> Group:
    tests = tuple(PlannedTest(id=f"f::t{n}", weight_ms=ms, source=WeightSource.KNOWN) for n, ms in enumerate(weights))
    return Group(id="7", file="f", mode=mode, gpus=1, setup_ms=setup_ms, tests=tests)


@given(suites(gpus=4), st.randoms(use_true_random=False))
def test_groups_hold_each_test_once_in_its_order_whatever_the_order_of_files(
    suite: Suite, shuffled: random.Random
) -> None:
    groups = whole_groups(suite.tests, suite.weights)
    assert sorted(test.id for group in groups for test in group.tests) == sorted(test.id for test in suite.tests)
    place = {test.id: n for n, test in enumerate(suite.tests)}
    for group in groups:
        assert [place[test.id] for test in group.tests] == sorted(place[test.id] for test in group.tests)
    files = list(suite.files)
    shuffled.shuffle(files)
    assert whole_groups([test for file in files for test in file], suite.weights) == groups


def test_tests_of_one_file_with_other_modes_are_other_groups_and_each_pays_the_setup() -> None:
    tests = [
        CollectedTest(id="f::a", file="f", mode=Mode.CONCURRENT, gpus=1),
        CollectedTest(id="f::b", file="f", mode=Mode.ISOLATED, gpus=1),
        CollectedTest(id="f::c", file="f", mode=Mode.CONCURRENT, gpus=2),
    ]
    groups = whole_groups(tests, weigh(tests, {"f": 2.0}, unknown_seconds=1))
    assert [(group.mode, group.gpus, group.setup_ms) for group in groups] == [
        (Mode.CONCURRENT, 1, 2000),
        (Mode.CONCURRENT, 2, 2000),
        (Mode.ISOLATED, 1, 2000),
    ]


@given(st.lists(milliseconds(), min_size=1, max_size=30), st.integers(1, 40))
def test_pieces_are_consecutive_and_no_heavier_than_the_mean_and_one_test(weights: list[int], pieces: int) -> None:
    group = a_group(weights)
    parts = split(group, pieces)
    assert tuple(test for part in parts for test in part.tests) == group.tests
    assert 1 <= len(parts) <= pieces
    assert all(part.tests for part in parts)
    most = sum(weights) / min(pieces, len(weights)) + max(weights)
    assert max(sum(test.weight_ms for test in part.tests) for part in parts) <= most


def test_pieces_are_cut_where_the_weight_is() -> None:
    parts = split(a_group([10, 10, 10, 90, 20, 20, 20]), 3)
    assert [[test.weight_ms for test in part.tests] for part in parts] == [[10, 10, 10], [90], [20, 20, 20]]


def test_number_of_pieces_counts_what_each_pays_again() -> None:
    assert pieces_for(a_group([50] * 4), 200, 1000) == 1
    assert pieces_for(a_group([50] * 4), 100, 1000) == 2
    assert pieces_for(a_group([50] * 4, setup_ms=40), 100, 1000) == 4  # 60 of 100 are left for work
    assert pieces_for(a_group([50] * 4, Mode.ISOLATED), 150, 100) == 2  # not 4 pieces of 50 with starts of 100


def test_node_id_that_was_collected_twice_is_refused_by_name() -> None:
    test = CollectedTest(id="f::a", file="f", mode=Mode.CONCURRENT, gpus=1)
    with pytest.raises(PlanError, match="'f::a' was collected twice"):
        whole_groups([test, test], weigh([test], {}, unknown_seconds=1))


def test_test_without_a_weight_is_refused_by_name() -> None:
    test = CollectedTest(id="f::a", file="f", mode=Mode.CONCURRENT, gpus=1)
    with pytest.raises(PlanError, match="'f::a' has no weight"):
        whole_groups([test], weigh([], {}, unknown_seconds=1))
