"""How much slower a run, and a pod in it, was than usual: a robust two-way regression of log seconds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardlib.weights.rows import LEAST_SCATTER, PRIOR_VALUES, Bools, Floats, Ints

_ROUNDS = 15  # of alternation, at most
_SETTLED = (
    0.001  # log factor by which a round must move some pod to be followed by another; a pod is known to about 2 %
)
_HUBER = 1.5  # standard deviations; beyond them an observation counts by its distance, not by its square
_LEAST_SECONDS = 0.1  # shorter tests are mostly overhead, and say little about how fast a pod is
_SHRINK = 2.0  # tests that a pod's own effect must outvote: a pod that ran three tests is mostly its run (a guess)


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Log factors. `pod` includes its run's; both are 0 for the run in the middle, since only differences are known."""

    run: Floats
    pod: Floats
    pod_tests: Ints  # how many tests each pod's effect rests on


def two_way(log_seconds: Floats, pods: Ints, pod_runs: Ints) -> Effects:
    """Returns the effects in log_seconds[i, j] = test[i] + run[j] + pod[pods[i, j]] + noise.

    Alternating weighted means with Huber's weights (iteratively reweighted least squares), each test's noise estimated
    from its own residuals; O(observations) a round, and some rounds until no pod moves. What a test did is told from
    what its pod did because tests meet different tests in different runs; a plan that never changes leaves only
    differences within a run.

    Args:
        log_seconds: tests by runs, NaN where a test has no usable observation.
        pods: which pod each observation comes from; looked at only where there is one.
        pod_runs: the run (column) of each pod.
    """
    rows, runs = np.nonzero(np.isfinite(log_seconds))
    values, pod = log_seconds[rows, runs], pods[rows, runs].astype(np.int64)
    tests, columns = log_seconds.shape
    run_effect, pod_effect, effect = np.zeros(columns), np.zeros(len(pod_runs)), np.zeros(len(pod_runs))
    huber = np.ones(len(values))
    noise = np.ones(tests)
    telling: Bools = np.zeros(0, dtype=bool)
    for turn in range(_ROUNDS):
        level = _means(rows, values - effect[pod], huber, tests)
        telling = level[rows] > np.log(_LEAST_SECONDS)
        trust = (1 / noise**2)[rows]  # in place from here on: an array of 5,000,000 more is 40 MB of fresh pages
        trust *= huber
        trust *= telling
        rest = values - level[rows]
        run_effect = _means(runs, rest - pod_effect[pod], trust, columns)
        run_effect -= np.median(run_effect)
        rest -= run_effect[runs]
        pod_effect = _means(
            pod, rest, trust, len(pod_runs), shrink=_SHRINK * float(np.mean(trust)) if len(trust) else 0
        )
        before, effect = effect, run_effect[pod_runs] + pod_effect
        if turn and np.abs(effect - before).max(initial=0.0) < _SETTLED:  # the first is not yet robust
            break
        rest -= pod_effect[pod]
        gap = np.abs(rest, out=rest)
        noise = _noise(rows, gap, tests)
        huber = (_HUBER * noise)[rows]
        huber /= np.maximum(gap, 1e-9, out=gap)
        np.minimum(huber, 1.0, out=huber)
    return Effects(run=run_effect, pod=effect, pod_tests=np.bincount(pod[telling], minlength=len(pod_runs)))


def _means(keys: Ints, values: Floats, weights: Floats, size: int, shrink: float = 0.0) -> Floats:
    """The weighted mean of the values of each key, drawn to 0 by a weight of `shrink`; 0 where there are none."""
    total = np.bincount(keys, weights, size) + shrink
    return np.bincount(keys, weights * values, size) / np.where(total > 0, total, 1.0)


def _noise(rows: Ints, gaps: Floats, tests: int) -> Floats:
    counts = np.bincount(rows, minlength=tests)
    typical = float(np.mean(gaps)) if len(gaps) else 0.0
    return np.maximum(
        1.25 * (np.bincount(rows, gaps, tests) + PRIOR_VALUES * typical) / (counts + PRIOR_VALUES), LEAST_SCATTER
    )
