"""The estimator: known truths come out, and what must not matter does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shardlib.weights import shifts
from shardlib.weights.fit import FitSettings, fit, tuned, with_margin
from shardlib.weights.matrix import Matrix
from shardlib.weights.rows import Floats, newest, quantile

from .histories import matrix_of

SETTINGS = FitSettings()
Rows = dict[str, list[float | None]]


def weights(matrix: Matrix, settings: FitSettings = SETTINGS) -> dict[str, float]:
    return dict(zip(matrix.ids, fit(matrix, settings).weight.tolist(), strict=True))


def steady(tests: int = 30, runs: int = 20, noise: float = 0.05, seed: int = 3) -> dict[str, list[float | None]]:
    rng = np.random.default_rng(seed)
    return {
        f"tests/test_f.py::t{test:02}": ((test + 1) * np.exp(noise * rng.standard_normal(runs))).tolist()
        for test in range(tests)
    }


def test_test_with_two_speeds_gets_the_mean_of_seconds_not_of_logs() -> None:
    rows: Rows = {**steady(), "a::two": [10.0, 10.0, 40.0, 10.0] * 5}
    assert weights(matrix_of(rows), replace(SETTINGS, half_life_runs=1e6))["a::two"] == pytest.approx(17.5, rel=0.05)


def test_slow_pod_is_not_held_against_its_tests() -> None:
    rng = np.random.default_rng(0)
    pods = rng.integers(0, 6, (240, 12))
    slow = np.where(pods == 3, 1.5, 1.0)
    levels = rng.uniform(1, 50, 240)
    seconds = levels[:, None] * slow * np.exp(0.1 * rng.standard_normal((240, 12)))
    seconds[0], pods[0], seconds[0, -1], pods[0, -1] = np.nan, 3, 15.0, 3  # seen once, on the slow pod
    levels[0] = 10.0
    rows = {f"a::t{test:03}": [None if np.isnan(v) else v for v in row] for test, row in enumerate(seconds.tolist())}
    matrix = matrix_of(rows, pods=pods.tolist())
    found = fit(matrix, SETTINGS)
    of_slow = found.effects.pod[3::100] - np.median(found.effects.pod.reshape(12, 100)[:, :6], axis=1)
    assert np.exp(of_slow) == pytest.approx(1.5, rel=0.08)
    usual = np.median(found.weight[1:] / levels[1:])
    assert found.weight[0] / usual == pytest.approx(10.0, rel=0.08)


@pytest.mark.parametrize(("factor", "runs", "expected"), [(3, 1, False), (3, 2, True), (0.3, 3, False), (0.3, 4, True)])
def test_rise_is_believed_after_two_runs_and_fall_after_four(factor: float, runs: int, expected: bool) -> None:
    values = np.r_[np.full(20 - runs, 10.0), np.full(runs, 10.0 * factor)] * np.exp(
        0.05 * np.random.default_rng(1).standard_normal(20)
    )
    found = shifts.find(np.log(values)[None], up_runs=2, down_runs=4)
    assert bool(found.step[0] != 0) is expected
    if expected:
        assert found.at[0] == 20 - runs
        assert np.exp(found.step[0]) == pytest.approx(factor, rel=0.15)


def test_weight_after_a_shift_is_that_of_the_new_level() -> None:
    rows: Rows = {**steady(), "a::moved": [*[10.0] * 17, 30.0, 30.5, 31.0]}
    found = fit(matrix_of(rows), replace(SETTINGS, half_life_runs=16))
    assert found.weight[0] == pytest.approx(30.5, rel=0.05)
    assert found.samples[0] == 3


def test_total_is_that_of_recent_runs() -> None:
    rows = steady()
    for values in rows.values():
        values[-5:] = [value * 2 for value in values[-5:] if value]  # slow machines since five runs
    matrix = matrix_of(rows)
    total = fit(matrix, replace(SETTINGS, half_life_runs=1.0)).weight.sum()
    assert total == pytest.approx(matrix.seconds[:, -1].sum(), rel=0.1)


def test_drift_wants_a_short_half_life_and_noise_a_long_one() -> None:
    rng = np.random.default_rng(2)
    drifting = 10 * np.exp(np.cumsum(0.3 * rng.standard_normal((200, 25)), axis=1))
    noisy = 10 * np.exp(0.4 * rng.standard_normal((200, 25)))
    assert tuned(drifting) <= 2
    assert tuned(noisy) >= 8
    assert tuned(noisy[:, :1]) == 4  # nothing to learn from


def test_margin_moves_only_what_is_a_large_part_of_a_shard() -> None:
    weight, p90 = np.array([100.0, *[1.0] * 500]), np.array([150.0, *[1.5] * 500])
    moved = with_margin(weight, p90, shards=12)
    assert moved[0] == 150.0
    assert (moved[1:] < 1.2).all()
    assert (moved >= weight).all()


def test_far_outlier_that_no_flag_tells_of_is_drawn_in() -> None:
    rows: Rows = {**steady(), "a::hang": [*[5.0] * 19, 900.0]}
    assert weights(matrix_of(rows))["a::hang"] < 60  # the plain mean with this recency: over 100


def test_test_without_any_usable_run_has_no_weight() -> None:
    found = fit(matrix_of({**steady(), "a::s": [0.0, *[None] * 19]}, flags={("a::s", 0): "skipped"}), SETTINGS)
    assert np.isnan(found.weight[0])
    assert found.samples[0] == 0


SECONDS = st.one_of(st.just(np.nan), st.just(0.0), st.floats(0, 1e6), st.sampled_from([0.01, 5.0, 5.0, 300.0]))
FLAGS = arrays.arrays(np.int16, (5, 6), elements=st.integers(0, 255))


@given(seconds=arrays.arrays(float, (5, 6), elements=SECONDS), flags=FLAGS)
def test_any_history_gives_finite_weights_between_sane_quantiles(seconds: Floats, flags: Floats) -> None:
    matrix = replace(matrix_of({f"a::t{row}": [0.0] * 6 for row in range(5)}), seconds=seconds, flags=flags)
    found = fit(matrix, SETTINGS)
    used = found.samples > 0
    assert (used == np.isfinite(found.weight)).all()
    assert (found.weight[used] >= 0).all()
    assert (found.p10[used] <= found.p90[used]).all()
    assert np.isfinite(found.scatter).all()


@settings(max_examples=20)
@given(order=st.permutations(range(30)))
def test_order_of_tests_does_not_matter(order: list[int]) -> None:
    matrix = matrix_of(steady(noise=0.4))
    shuffled = replace(
        matrix,
        ids=tuple(matrix.ids[row] for row in order),
        seconds=matrix.seconds[order],
        flags=matrix.flags[order],
        pod=matrix.pod[order],
        modes=tuple(matrix.modes[row] for row in order),
    )
    assert fit(shuffled, SETTINGS).weight == pytest.approx(fit(matrix, SETTINGS).weight[order], rel=1e-9)


@given(arrays.arrays(float, (4, 7), elements=SECONDS), st.integers(1, 9))
def test_newest_keeps_the_last_values_of_each_row_in_order(values: Floats, most: int) -> None:
    packed, column = newest(values, most)
    for row in range(4):
        expected = values[row][np.isfinite(values[row])][-most:]
        assert packed[row][np.isfinite(packed[row])].tolist() == expected.tolist()
        kept = column[row][column[row] >= 0]
        assert values[row][kept].tolist() == expected.tolist()


@given(arrays.arrays(float, (4, 7), elements=SECONDS), st.floats(0, 1))
def test_quantile_is_numpys(values: Floats, share: float) -> None:
    for mine, row in zip(quantile(values, share), values, strict=True):
        finite = row[np.isfinite(row)]
        if len(finite):
            assert mine == pytest.approx(np.quantile(finite, share))
        else:
            assert np.isnan(mine)
