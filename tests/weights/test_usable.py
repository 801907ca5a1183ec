"""Flags first: what is no measurement never counts, and what is a poor one gives way to better ones."""

from __future__ import annotations

import pytest

from shardlib.weights.usable import Fate, select

from .histories import matrix_of


def fates(rows: dict[str, list[float | None]], **how: object) -> dict[str, list[Fate]]:
    matrix = matrix_of(rows, **how)  # type: ignore[arg-type]
    found = select(matrix).fate
    return {node_id: [Fate(fate) for fate in found[row]] for row, node_id in enumerate(matrix.ids)}


@pytest.mark.parametrize("flag", ["skipped", "crashed", "collateral", "truncated"])
def test_what_is_cut_off_never_counts(flag: str) -> None:
    found = fates({"a::t": [5.0, 0.0, 5.0]}, flags={("a::t", 1): flag})
    assert found["a::t"] == [Fate.USED, Fate.SKIPPED if flag == "skipped" else Fate.CUT_OFF, Fate.USED]


def test_one_hang_does_not_count_but_a_test_that_mostly_times_out_costs_its_limit() -> None:
    rows: dict[str, list[float | None]] = {"a::once": [5.0, 300.0, 5.0], "a::mostly": [300.0, 300.0, 5.0]}
    flags = {("a::once", 1): "timed_out", ("a::mostly", 0): "timed_out", ("a::mostly", 1): "timed_out"}
    found = fates(rows, flags=flags)
    assert found["a::once"][1] is Fate.TIMED_OUT
    assert found["a::mostly"] == [Fate.USED] * 3


@pytest.mark.parametrize(("flag", "fate"), [("failed", Fate.FAILED), ("retried", Fate.RETRIED), ("first", Fate.COLD)])
def test_poor_observations_give_way_to_three_clean_ones(flag: str, fate: Fate) -> None:
    flags = {("a::many", 0): flag, ("a::few", 0): flag}
    found = fates({"a::many": [9.0, 5.0, 5.0, 5.0], "a::few": [9.0, 5.0, 5.0, None]}, flags=flags)
    assert found["a::many"][0] is fate
    assert found["a::few"][0] in (Fate.USED, Fate.COLD_CORRECTED)


def test_cold_observation_that_is_needed_is_corrected_by_the_start_that_others_show() -> None:
    rows: dict[str, list[float | None]] = {"a::seen": [25.0, 5.0, 5.0, 5.0], "b::cold": [30.0, None, None, None]}
    matrix = matrix_of(rows, flags={("a::seen", 0): "first", ("b::cold", 0): "first"})
    assert select(matrix).seconds[1, 0] == pytest.approx(10.0)  # 20 s of start


def test_isolated_test_always_pays_the_start_so_that_is_its_time() -> None:
    rows: dict[str, list[float | None]] = {"a::seen": [25.0, 5.0, 5.0, 5.0], "b::alone": [30.0, 31.0, 32.0, 33.0]}
    flags = {("a::seen", 0): "first", **{("b::alone", run): "first" for run in range(4)}}
    matrix = matrix_of(rows, flags=flags, modes={"b::alone": "isolated"})
    assert select(matrix).seconds[1].tolist() == [30.0, 31.0, 32.0, 33.0]


def test_value_that_pytest_split_carried_over_was_not_measured() -> None:
    rows: dict[str, list[float | None]] = {"a::t": [5.0, 5.0, 6.0]}
    assert fates(rows, kind="pytest-split")["a::t"] == [Fate.USED, Fate.CARRIED_OVER, Fate.USED]
    assert fates(rows, kind="events")["a::t"] == [Fate.USED] * 3


def test_rules_for_suspects_leave_a_test_something() -> None:
    """Two compile caches: 5 ms twice and 5 s once is no skip *and* no other unit."""
    found = fates({"a::t": [4.9, 0.005, 0.007]})["a::t"]
    assert Fate.USED in found


def test_few_values_near_zero_are_taken_for_skips_and_many_for_a_cache() -> None:
    rows: dict[str, list[float | None]] = {"a::few": [*[5.0] * 8, 0.01, 0.01], "a::many": [*[5.0] * 6, *[0.01] * 4]}
    found = fates(rows)
    assert found["a::few"][8:] == [Fate.LIKE_A_SKIP] * 2
    assert found["a::many"] == [Fate.USED] * 10
