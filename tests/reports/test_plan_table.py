from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.reports.plan_table import deadline_seconds, duration, fan_out, table
from tests.runs import make_plan


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (1234, "1.2 s"),
        (59_949, "59.9 s"),
        (59_950, "1m 00s"),
        (60_000, "1m 00s"),
        (805_000, "13m 25s"),
        (3_599_600, "1h 00m"),
        (7_500_000, "2h 05m"),
    ],
)
def test_a_duration_for_a_person(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_the_cost_is_that_of_the_gpus_until_each_shard_ends() -> None:
    plan = make_plan(gpu_hour_price=900.0)  # two shards of 8 slots, 4 s each: 64 GPU-seconds
    assert "cost         16.00 (0.02 GPU-hours at 900)" in table(plan)
    assert "cost" not in table(make_plan())


@given(st.integers(0, 10**9))
def test_minutes_are_rounded_by_integers_and_the_deadline_leaves_room(predicted_ms: int) -> None:
    plan = make_plan()
    plan = replace(plan, shards=(replace(plan.shards[0], predicted_ms=predicted_ms), *plan.shards[1:]))
    first = json.loads(fan_out(plan))[0]
    assert float(first["minutes"]) == pytest.approx(predicted_ms / 60_000, abs=0.0500001)
    deadline = deadline_seconds(plan, plan.shards[0])
    assert str(deadline) == first["deadline"]
    assert deadline >= 3 * predicted_ms / 1000 + plan.settings.start_timeout_seconds + plan.settings.min_timeout_seconds
    assert deadline % 60 == 0


def test_the_deadline_lets_a_test_of_unknown_weight_hang_until_its_own_limit() -> None:
    assert deadline_seconds(make_plan(), make_plan().shards[0]) < 3000
    plan = make_plan(min_timeout_seconds=5000)
    assert deadline_seconds(plan, plan.shards[0]) > 5000
