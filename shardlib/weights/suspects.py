"""Observations and tests that look wrong, whatever the log says of them: rules measured on synthetic faults. Pure."""

from __future__ import annotations

import numpy as np

from shardlib.weights.effects import Effects
from shardlib.weights.rows import Bools, Floats, Ints, quantile

# A skip that was written as a duration.
_SKIP_SHARE = 0.02  # of the test's median: where most runs take no time, a warm cache is as likely
_SKIP_LEAST_SECONDS = 0.5  # a median below says nothing: short tests do vary by as much
_SKIP_RUNS = 2

# Milliseconds taken for seconds.
_UNIT_LOW, _UNIT_HIGH = 300.0, 3000.0
_UNIT_LEAST_SECONDS = 1.0  # of the median: 5 s beside 5 ms is what a compile cache does

# One number for a test that nobody measured.
_SAME_SHARE, _SAME_RUNS = 0.5, 4  # of the test's runs
_SAME_TESTS_SHARE, _SAME_TESTS = 0.01, 10  # of all tests
_LEAST_UNITS = 50  # of the log's last digit: smaller values are equal by rounding

# Two speeds: a cache that is warm or cold, a server that is there or not.
_SPEED_RATIO = 2.0
_SPEED_RUNS, _SPEED_LEAST, _SPEED_SHARE, _SPEED_TURNS = 8, 2, 0.1, 3

_SLOW_POD = 1.15  # times the pod in the middle of its run; a pod's effect is known to about 2 %
_SLOW_POD_TESTS = 20


def like_a_skip(seconds: Floats) -> Bools:
    """Returns which observations are about 0 where the test otherwise takes long, for tests with two or more of them."""
    usual = quantile(seconds, 0.5)
    low = seconds < _SKIP_SHARE * usual[:, None]
    return low & ((usual > _SKIP_LEAST_SECONDS) & (low.sum(axis=1) >= _SKIP_RUNS))[:, None]


def like_another_unit(seconds: Floats) -> Bools:
    """Returns which observations are about a thousand times the test's median."""
    middle = quantile(seconds, 0.5)[:, None]
    return (middle > _UNIT_LEAST_SECONDS) & (seconds > _UNIT_LOW * middle) & (seconds < _UNIT_HIGH * middle)


def last_digit(seconds: Floats) -> float:
    """Returns the unit that the coarsest run's values are multiples of: 1, 0.1, 0.01 ... seconds, at least 1e-6."""
    units = []
    for column in seconds.T:
        values = column[np.isfinite(column)]
        fits = (d for d in range(6) if np.abs(values - np.round(values, d)).max(initial=0.0) < 1e-9)
        units.append(10.0 ** -next(fits, 6) if len(values) else 1e-6)
    return max(units, default=1e-6)


def placeholders(seconds: Floats, unit: float) -> Bools:
    """Returns the tests whose value was hardly measured: the same in half of their runs, or shared by 1 % of the tests."""
    ordered = np.sort(np.round(seconds, 6), axis=1)
    same = most = np.ones(len(seconds))
    for column in range(1, seconds.shape[1]):
        same = np.where(ordered[:, column] == ordered[:, column - 1], same + 1, 1)
        most = np.maximum(most, same)
    counts = np.isfinite(seconds).sum(axis=1)
    last = np.where(counts > 0, np.round(_newest(seconds), 6), -1.0)
    _, which, sharing = np.unique(last, return_inverse=True, return_counts=True)
    shared = sharing[which] >= max(_SAME_TESTS, _SAME_TESTS_SHARE * len(seconds))
    told = quantile(seconds, 0.5) >= _LEAST_UNITS * unit
    return told & ((most >= np.maximum(_SAME_RUNS, _SAME_SHARE * counts)) | (shared & (last >= 0)))


def two_speeds(log_seconds: Floats) -> Bools:
    """Returns the tests that alternate between two levels, twice apart or more.

    Args:
        log_seconds: tests by runs, effects taken off and everything before a level shift too.
    """
    low, high = quantile(log_seconds, 0.05), quantile(log_seconds, 0.95)
    middle = ((low + high) / 2)[:, None]
    slow, fast = log_seconds > middle, log_seconds <= middle
    apart = quantile(np.where(slow, log_seconds, np.nan), 0.5) - quantile(np.where(fast, log_seconds, np.nan), 0.5)
    between = np.abs(log_seconds - middle) < 0.15 * apart[:, None]
    counts = np.isfinite(log_seconds).sum(axis=1)
    fewer = np.minimum(slow.sum(axis=1), fast.sum(axis=1))
    return (
        (counts >= _SPEED_RUNS)
        & (apart > np.log(_SPEED_RATIO))
        & (fewer >= np.maximum(_SPEED_LEAST, _SPEED_SHARE * counts))
        & (between.sum(axis=1) <= 0.1 * counts)
        & (_turns(slow, fast) >= _SPEED_TURNS)
    )


def fails_and_passes(failed: Bools, ran: Bools) -> Bools:
    """Returns the tests that go from failing to passing or back three times or more: not broken once and mended."""
    return _turns(failed & ran, ~failed & ran) >= _SPEED_TURNS


def slow_pods(effects: Effects, pod_runs: Ints) -> Ints:
    """Returns the pods that were slower than the one in the middle of their run by a factor that is no noise."""
    found = []
    for run in np.unique(pod_runs):
        pods = np.flatnonzero((pod_runs == run) & (effects.pod_tests >= _SLOW_POD_TESTS))
        if len(pods) > 1:
            found.append(pods[effects.pod[pods] - np.median(effects.pod[pods]) > np.log(_SLOW_POD)])
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _turns(slow: Bools, fast: Bools) -> Ints:
    """How often a test goes from one speed to the other."""
    state = np.zeros(len(slow))
    turns: Ints = np.zeros(len(slow), dtype=np.int64)
    for column in range(slow.shape[1]):
        now = np.where(slow[:, column], 1, np.where(fast[:, column], -1, state))
        turns += (now * state < 0).astype(np.int64)
        state = now
    return turns


def _newest(seconds: Floats) -> Floats:
    value = np.full(len(seconds), np.nan)
    for column in seconds.T:
        value = np.where(np.isfinite(column), column, value)
    return value
