"""Where a test's level changed for good: the observations before that do not say what it takes now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardlib.weights.rows import Bools, Floats, Ints, quantile

_LEAST_STEP = float(np.log(1.3))  # what a person would call a change; smaller ones follow from the recency anyway
_LEAST_SCATTERS = 3.0  # a step must stand out of the noise by as much
_GAIN = 0.7  # two levels must leave at most this share of the error that one leaves (a guess that did well)
_LEAST_BEFORE = 2  # observations before the step: one alone may be the outlier


@dataclass(frozen=True, kw_only=True)
class Shifts:
    """`before` marks the observations before each test's step. `step` is its log factor, 0 where there is none."""

    before: Bools
    step: Floats
    at: Ints  # the first column after the step


def find(log_seconds: Floats, *, up_runs: int, down_runs: int) -> Shifts:
    """Returns the level shift of each test: the split into two medians with the least absolute error, if it is real.

    It is if it lowers the error enough (`_GAIN`), is larger than `_LEAST_STEP` and `_LEAST_SCATTERS`, and at least
    `up_runs` observations follow it (`down_runs` if it leads downwards: an incident that makes a large test fast and
    ends after three days must not ruin the plan). Least absolute deviations, one split; O(tests runs^2 log runs).

    Args:
        log_seconds: tests by runs, effects of runs taken off, NaN where there is no observation.
        up_runs: observations at a higher level that prove it.
        down_runs: the same for a lower one.
    """
    tests, runs = log_seconds.shape
    counts = np.isfinite(log_seconds).sum(axis=1)
    alone = _error(log_seconds)
    best, step, at = np.full(tests, np.inf), np.zeros(tests), np.zeros(tests, dtype=int)
    after = np.zeros(tests, dtype=int)
    for column in range(1, runs):
        left, right = log_seconds[:, :column], log_seconds[:, column:]
        before = np.isfinite(left).sum(axis=1)
        change = quantile(right, 0.5) - quantile(left, 0.5)
        error = _error(left) + _error(right)
        better = (before >= _LEAST_BEFORE) & (counts > before) & (error < best)
        best, step = np.where(better, error, best), np.where(better, change, step)
        at, after = np.where(better, column, at), np.where(better, counts - before, after)
    noise = 1.25 * best / np.maximum(counts, 1)
    proved = after >= np.where(step < 0, down_runs, up_runs)  # of the best split, or a later one would pass as earlier
    real = proved & (best < _GAIN * alone) & (np.abs(step) > np.maximum(_LEAST_STEP, _LEAST_SCATTERS * noise))
    return Shifts(before=real[:, None] & (np.arange(runs) < at[:, None]), step=np.where(real, step, 0.0), at=at)


def _error(values: Floats) -> Floats:
    return np.nansum(np.abs(values - quantile(values, 0.5)[:, None]), axis=1)
