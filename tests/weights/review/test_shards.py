"""The effect on the shards: what really ran, packed by old and by new weights."""

from __future__ import annotations

import pytest

from shardlib.model import Mode
from shardlib.weights.proposal import Mark
from shardlib.weights.review.shards import LAST_RUNS, Nodes, effects

from ..proposals import RUNS, a_test, crowd, in_use, proposal_of

NODES = Nodes(shards=2, gpus=1, cpu_slots=1, startup_seconds=0.0, unknown_seconds=30.0, widths={})


def test_right_weights_pack_as_well_as_the_runs_allow() -> None:
    tests = [a_test(f"f{n}.py::t", seconds) for n, seconds in enumerate((60.0, 30.0, 20.0, 10.0))]
    wrong = {test.id: weight for test, weight in zip(tests, (1.0, 1.0, 1.0, 3.0), strict=True)}
    for effect in effects(proposal_of(*tests), wrong, NODES):
        assert effect.new.makespan_seconds == pytest.approx(60.0)
        assert effect.new.spread == pytest.approx(0.0)
        assert effect.old.makespan_seconds > 60.0


def test_the_same_weights_change_nothing() -> None:
    tests = crowd()
    found = effects(proposal_of(*tests), in_use(*tests), NODES)
    assert [effect.run for effect in found] == list(range(RUNS - LAST_RUNS, RUNS))
    assert all(effect.old == effect.new for effect in found)


def test_skips_take_no_time_and_small_runs_tell_nothing() -> None:
    skipped = (*(Mark.SKIPPED,) * (RUNS - 1), Mark.USED)
    tests = [a_test("a.py::always", 5.0), *(a_test(f"b.py::{n}", 50.0, marks=skipped) for n in range(8))]
    found = effects(proposal_of(*tests), {}, NODES)
    assert [(effect.run, effect.tests) for effect in found] == [(RUNS - 1, 9)]


def test_setup_is_paid_once_a_file_and_collected_widths_count() -> None:
    tests = [a_test("a.py", 7.0), a_test("a.py::t", 5.0), a_test("b.py::wide", 5.0), a_test("c.py::t", 5.0)]
    one = Nodes(
        shards=1,
        gpus=2,
        cpu_slots=1,
        startup_seconds=0.0,
        unknown_seconds=30.0,
        widths={"b.py::wide": (Mode.ISOLATED, 2)},
    )
    effect = effects(proposal_of(*tests), in_use(*tests), one)[-1]
    assert effect.new.makespan_seconds == pytest.approx(17.0)  # 7 + 5 beside 5, and the wide one alone


def test_cpu_tests_are_on_no_gpu_shard() -> None:
    tests = [a_test("a.py::gpu", 5.0), a_test("b.py::cpu", 500.0, mode="cpu")]
    assert effects(proposal_of(*tests), {}, NODES)[-1].new.makespan_seconds == pytest.approx(5.0)
