"""Rules for what looks wrong: each finds its fault, and leaves an ordinary history alone."""

from __future__ import annotations

import numpy as np
import pytest

from shardlib.weights import suspects
from shardlib.weights.rows import Bools, Floats

RNG = np.random.default_rng(1)


def noisy(level: float, runs: int = 20, noise: float = 0.15) -> Floats:
    return level * np.exp(noise * RNG.standard_normal(runs))


ORDINARY = np.array([noisy(level) for level in RNG.uniform(1, 100, 200)])


def test_ordinary_histories_are_left_alone() -> None:
    assert not suspects.like_a_skip(ORDINARY).any()
    assert not suspects.like_another_unit(ORDINARY).any()
    assert not suspects.placeholders(ORDINARY, 0.001).any()
    assert suspects.two_speeds(np.log(ORDINARY)).mean() < 0.02


def test_two_values_near_zero_are_like_skips_and_one_is_not() -> None:
    rows = np.array([[5.0, 0.01, 5.0, 0.02, 5.0], [5.0, 0.01, 5.0, 5.0, 5.0], [0.3, 0.001, 0.3, 0.001, 0.3]])
    assert suspects.like_a_skip(rows).sum(axis=1).tolist() == [2, 0, 0]


def test_milliseconds_among_seconds_are_another_unit() -> None:
    rows = np.array([[5.0, 5.0, 5000.0], [5.0, 5.0, 50.0], [0.005, 0.005, 5.0]])  # the last one: a compile cache
    assert suspects.like_another_unit(rows).tolist() == [[False, False, True], [False] * 3, [False] * 3]


def test_one_number_in_half_of_the_runs_or_in_one_test_of_a_hundred_is_a_placeholder() -> None:
    held = np.r_[[60.0] * 10, noisy(20.0, 10)]
    assert suspects.placeholders(np.array([held, noisy(60.0)]), 0.01).tolist() == [True, False]
    many = ORDINARY.copy()
    many[:12, -1] = 60.0
    assert suspects.placeholders(many, 0.01).tolist() == [True] * 12 + [False] * 188


def test_small_values_are_equal_by_rounding() -> None:
    assert not suspects.placeholders(np.full((1, 20), 0.3), 0.01).any()


@pytest.mark.parametrize(("values", "unit"), [([1.5, 2.25], 0.01), ([1.0, 2.0], 1.0), ([0.1234567, 2.0], 1e-6)])
def test_last_digit_is_the_coarsest_runs(values: list[float], unit: float) -> None:
    assert suspects.last_digit(np.array([values]).T) == pytest.approx(unit)
    with_finer = np.array([values, [0.1234567] * len(values)]).T
    assert suspects.last_digit(with_finer) == pytest.approx(unit)


def test_two_speeds_alternate_and_a_shift_does_not() -> None:
    flaky = np.where(np.arange(20) % 4 == 0, 40.0, 10.0) * noisy(1.0, noise=0.1)
    moved = np.where(np.arange(20) < 10, 10.0, 40.0) * noisy(1.0, noise=0.1)
    assert suspects.two_speeds(np.log(np.array([flaky, moved]))).tolist() == [True, False]


def test_broken_once_and_mended_is_not_failing_and_passing() -> None:
    ran: Bools = np.ones((2, 6), dtype=bool)
    failed = np.array([[1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0]], dtype=bool)
    assert suspects.fails_and_passes(failed, ran).tolist() == [False, True]
