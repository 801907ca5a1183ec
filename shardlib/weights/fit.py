"""From observations to weights: the estimator that predicted best on real histories and on synthetic truth. Pure.

1. Flags first (`usable`).
2. Effects of runs and pods, by robust regression of log seconds (`effects`).
3. Level shifts (`shifts`): observations before one no longer count.
4. The weight is the recency-weighted *arithmetic* mean of seconds / effect, at the level of recent runs. Averaging logs,
   or a median, is far too low for a test with two speeds. The half-life is the one that would have predicted this very
   history's last runs best: suites differ between 1 and 16 runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardlib.weights import shifts, suspects
from shardlib.weights.effects import Effects, two_way
from shardlib.weights.matrix import Matrix
from shardlib.weights.rows import Bools, Floats, Ints, decay, newest, quantile, scatter, weighted_mean
from shardlib.weights.usable import Fate, Usable, select

HALF_LIVES = (1.0, 2.0, 4.0, 8.0, 16.0)  # runs, from which the history chooses
MOST_VALUES = 60  # a test's newest observations that count: older ones would weigh less than 0.08 at any half-life
_TINY = 0.005  # seconds; below it a duration carries no information
_TUNING_RUNS = 4  # the newest runs, which the half-life must have predicted
_LEAST_TUNING_RUNS = 2  # one alone would choose by chance
_TUNING_LEAST_SECONDS = 0.1
_FAR = float(np.log(10.0))  # an observation further from a test's median counts as this far: a hang that no flag tells
_FAR_SCATTERS = 3.0
_MARGIN_FULL = 0.1  # of a shard: from here on a test is weighed by its P90, where a margin is asked for


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What a person may choose.

    Attributes:
        half_life_runs: None: the history chooses.
        shift_up_runs: observations at a higher level that start a test's history afresh.
        shift_down_runs: the same for a lower one: an underestimate costs its shard all, an overestimate little.
        margin: draw tests that matter alone towards their P90. A trade: good for suites with a few huge files; it
            raises the total by 8-10 %.
        shards: pods, which say what matters: shares of a shard are this part of the total.
    """

    half_life_runs: float | None = None
    shift_up_runs: int = 2
    shift_down_runs: int = 4
    margin: bool = False
    shards: int = 12


@dataclass(frozen=True, kw_only=True)
class Fit:
    """An estimate for each test of a matrix, in seconds; NaN for one without a usable observation.

    `scatter` is the standard deviation of log seconds, `effective` the number of observations that the recency weights
    leave. `step` is a level shift's log factor (0: none), `step_run` the first run after it. All seconds are at
    the level of recent runs.
    """

    weight: Floats
    p10: Floats
    p90: Floats
    samples: Ints
    effective: Floats
    scatter: Floats
    step: Floats
    step_run: Ints
    two_speeds: Bools
    half_life_runs: float
    effects: Effects
    usable: Usable


def fit(matrix: Matrix, settings: FitSettings) -> Fit:
    """Returns the estimates; deterministic, and the same for any order of the tests.

    10,000 tests in 500 runs take some seconds: O(observations) a round for the effects, and 60 values a test for all
    the rest.
    """
    usable = select(matrix)
    with np.errstate(invalid="ignore"):
        logs = np.log(np.maximum(usable.seconds, _TINY))
    effects = two_way(logs, matrix.pod, matrix.pod_runs)
    flat = usable.seconds / np.exp(effects.pod[matrix.pod])
    adjusted, column = newest(flat, MOST_VALUES)
    with np.errstate(invalid="ignore"):
        logs = np.log(np.maximum(adjusted, _TINY))
    found = shifts.find(logs, up_runs=settings.shift_up_runs, down_runs=settings.shift_down_runs)
    rows, places = np.nonzero(found.before & np.isfinite(logs))
    usable.fate[rows, column[rows, places]] = Fate.BEFORE_SHIFT
    logs = np.where(found.before, np.nan, logs)
    adjusted = np.where(found.before, np.nan, adjusted)
    half_life = settings.half_life_runs or tuned(flat)
    recency = np.where(column >= 0, decay(len(matrix.runs), half_life)[column], 0.0)
    weight, noise = _mean(adjusted, logs, recency)
    level = _level(usable, weight, half_life)
    used = np.where(np.isfinite(adjusted), recency, 0.0)
    p90 = quantile(adjusted, 0.9)
    if settings.margin:
        weight = with_margin(weight, p90, settings.shards)
    tests = np.arange(len(matrix.ids))
    after = np.minimum(found.at, max(column.shape[1] - 1, 0))
    return Fit(
        weight=weight * np.exp(level),
        p10=quantile(adjusted, 0.1) * np.exp(level),
        p90=p90 * np.exp(level),
        samples=np.isfinite(adjusted).sum(axis=1),
        effective=used.sum(axis=1) ** 2 / np.maximum((used**2).sum(axis=1), 1e-300),
        scatter=noise,
        step=found.step,
        step_run=column[tests, after] if column.shape[1] else np.full(len(tests), -1),
        two_speeds=suspects.two_speeds(logs),
        half_life_runs=half_life,
        effects=effects,
        usable=usable,
    )


def tuned(seconds: Floats) -> float:
    """Returns the half-life in runs with which plain weighted means would have predicted the last runs best.

    Judged by the time-weighted absolute log error after the run's common factor is taken out, which packing does not
    see. A history too short to tell gets the middle one.
    """
    recent = seconds[:, -(MOST_VALUES + _TUNING_RUNS) :]
    runs = recent.shape[1]
    errors = np.zeros(len(HALF_LIVES))
    predicted_runs = range(max(2, runs - _TUNING_RUNS), runs)
    for run in predicted_runs if len(predicted_runs) >= _LEAST_TUNING_RUNS else ():
        actual = recent[:, run]
        for number, half_life in enumerate(HALF_LIVES):
            predicted = weighted_mean(recent[:, :run], np.broadcast_to(decay(run, half_life), (len(recent), run)))
            with np.errstate(invalid="ignore"):
                told = np.isfinite(predicted) & (predicted > 0) & (actual > _TUNING_LEAST_SECONDS)
            if told.any():
                error = np.log(predicted[told] / actual[told])
                errors[number] += np.average(np.abs(error - np.median(error)), weights=actual[told])
    return HALF_LIVES[int(errors.argmin())] if errors.any() else HALF_LIVES[len(HALF_LIVES) // 2]


def with_margin(weight: Floats, p90: Floats, shards: int) -> Floats:
    """Returns the weights drawn towards P90 in proportion to each test's share of a shard, all the way at a tenth."""
    shard = float(np.nansum(weight)) / shards
    share = np.minimum(1.0, weight / (_MARGIN_FULL * shard)) if shard > 0 else np.zeros(len(weight))
    return weight + np.maximum(p90 - weight, 0.0) * share


def _mean(adjusted: Floats, logs: Floats, recency: Floats) -> tuple[Floats, Floats]:
    """The recency-weighted arithmetic mean of each test, far outliers drawn in; and the scatter of its logs."""
    middle = quantile(logs, 0.5)
    noise = scatter(logs, middle)
    reach = np.exp(np.maximum(_FAR, _FAR_SCATTERS * noise))[:, None]
    centre = np.exp(middle)[:, None]
    drawn = np.where(centre > _TINY, np.minimum(adjusted, centre * reach), adjusted)
    return weighted_mean(drawn, recency), noise


def _level(usable: Usable, weight: Floats, half_life_runs: float) -> float:
    """The log factor that brings the weights' total to what recent runs really took, by their recency-weighted mean.

    Regression knows effects only as differences; and what a mean of logs calls usual is a little less than the total.
    """
    actual = np.where(usable.used & np.isfinite(weight)[:, None], usable.seconds, 0.0)
    predicted = (actual > 0).T @ np.nan_to_num(weight)
    told = (predicted > 0) & (actual.sum(axis=0) > 0)
    if not told.any():
        return 0.0
    factors = np.log(actual.sum(axis=0)[told] / predicted[told])
    return float(np.average(factors, weights=decay(len(told), half_life_runs)[told]))
