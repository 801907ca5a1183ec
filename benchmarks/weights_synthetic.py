"""Runs of a suite that never was, whose weights are known: noise, cold starts, slow nodes, hangs, skips, shifts, flakes.

The rates are those of the trial behind the estimator: a guess at a GPU suite on 12 pods of 8 workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shardlib.weights.matrix import BIT, Matrix, RunInfo
from shardlib.weights.rows import Bools, Floats, Ints

PODS, WORKERS, NODES = 12, 8, 16
LIMIT_SECONDS = 300.0
DAY = 86_400.0
_SLOW_NODE = 1.3
_FLAKY_SHARE, _FLAKY_FACTOR = 0.25, 4.0


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is true of each test. `shift_run` is the run in which it moves by `factor`; `birth` its first run."""

    file: Ints
    base: Floats
    noise: Floats
    factor: Floats
    flaky: Bools
    moved: Bools
    skippy: Bools
    shift_run: Ints
    birth: Ints
    starts_cold: Bools  # first in a process of its own: it always pays a start


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A history, and what it was drawn from. `weight` are the next run's expected seconds.

    `node` is each pod's, `slow` whether a pod was slow; node 0 always is.
    """

    suite: Suite
    matrix: Matrix
    weight: Floats
    slow: Bools
    node: Ints

    def flagged(self, flag: str) -> Bools:
        """Returns where an observation has the flag."""
        marked: Bools = self.matrix.flags & BIT[flag] != 0
        return marked

    def next_run(self, rng: np.random.Generator) -> Floats:
        """Returns what the tests take in a run after the history, on nodes that are alike."""
        return _next_run(self.suite, rng)


def draw(seed: int, *, runs: int = 20, tests: int = 2400, files: int = 240) -> Truth:
    """Returns the history of one suite; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    suite = _suite(rng, runs, tests, files)
    shape = (tests, runs)
    seconds: Floats = np.full(shape, np.nan)
    flags: Ints = np.zeros(shape, dtype=np.int16)
    pod: Ints = np.zeros(shape, dtype=np.int32)
    slow: Bools = np.zeros(runs * PODS, dtype=bool)
    node: Ints = np.zeros(runs * PODS, dtype=np.int64)
    totals = np.bincount(suite.file, suite.base, files)
    worker_of: Ints = np.zeros(files, dtype=np.int64)
    for run in range(runs):
        if run % 5 == 0:  # the plan changes once a week
            ranks = np.argsort(np.argsort(-totals * np.exp(0.2 * rng.standard_normal(files))))
            worker_of = ranks % (PODS * WORKERS)
        pods = slice(run * PODS, (run + 1) * PODS)
        node[pods] = rng.permutation(NODES)[:PODS]
        bad_day = rng.random(PODS) < 0.02
        slow[pods] = (node[pods] == 0) | bad_day
        effect = np.log(_SLOW_NODE) * slow[pods] + rng.normal(0, 0.1)  # the run's factor: the machines' whole day
        shard = worker_of[suite.file] % PODS
        pod[:, run] = run * PODS + shard
        cold = _first_in_worker(suite, worker_of, totals)
        seconds[:, run], flags[:, run] = _observe(suite, rng, run, effect[shard], cold)
    far = np.random.default_rng(7)
    return Truth(
        suite=suite,
        matrix=_matrix(suite, seconds, flags, pod, runs),
        weight=np.mean([_next_run(suite, far) for _ in range(200)], axis=0),
        slow=slow,
        node=node,
    )


def until(matrix: Matrix, runs: int) -> Matrix:
    """Returns the first runs of a matrix."""
    return replace(
        matrix,
        runs=matrix.runs[:runs],
        seconds=matrix.seconds[:, :runs].copy(),
        flags=matrix.flags[:, :runs].copy(),
        pod=matrix.pod[:, :runs].copy(),
        pods=tuple(pod for pod, run in zip(matrix.pods, matrix.pod_runs, strict=True) if run < runs),
        pod_runs=matrix.pod_runs[matrix.pod_runs < runs],
    )


def _suite(rng: np.random.Generator, runs: int, tests: int, files: int) -> Suite:
    file = np.sort(rng.integers(0, files, tests))
    function = file * 6 + rng.integers(0, 6, tests)
    logs = rng.normal(0, 0.6, files)[file] + rng.normal(0, 0.7, files * 6)[function] + rng.normal(1.9, 0.6, tests)
    kind = rng.random(tests)
    young, unborn = (kind > 0.08) & (kind < 0.12), (kind > 0.12) & (kind < 0.13)
    birth = np.where(young, runs - rng.integers(1, 3, tests), np.where(unborn, runs, 0))
    head = np.r_[True, file[1:] != file[:-1]]
    return Suite(
        file=file,
        base=np.exp(logs).clip(0.05, 600),
        noise=rng.uniform(0.1, 0.3, tests),
        factor=np.where(rng.random(tests) < 0.5, 3.0, 0.3),
        flaky=kind < 0.03,
        moved=(kind > 0.03) & (kind < 0.06),
        skippy=(kind > 0.06) & (kind < 0.08),
        shift_run=rng.integers(1, runs, tests),
        birth=birth,
        starts_cold=head & (rng.random(files) < 0.2)[file],
    )


def _first_in_worker(suite: Suite, worker_of: Ints, totals: Floats) -> Bools:
    """The first test of each worker's longest file, and of each file that has a process of its own."""
    longest: Ints = np.zeros(PODS * WORKERS, dtype=np.int64)
    for file in np.argsort(totals):
        longest[worker_of[file]] = file
    head = np.r_[True, suite.file[1:] != suite.file[:-1]]
    return suite.starts_cold | (head & (longest[worker_of[suite.file]] == suite.file))


def _observe(suite: Suite, rng: np.random.Generator, run: int, effect: Floats, cold: Bools) -> tuple[Floats, Ints]:
    """One run's seconds and flags."""
    tests = len(suite.base)
    level = suite.base * np.where(suite.moved & (run >= suite.shift_run), suite.factor, 1.0)
    retried = rng.random(tests) < 0.01
    seconds = _noisy(suite, rng, level, effect)
    seconds += retried * _noisy(suite, rng, level, effect)
    seconds += cold * rng.uniform(5, 60, tests)
    seconds = np.where(rng.random(tests) < 0.003, LIMIT_SECONDS, seconds)
    timed_out = seconds >= LIMIT_SECONDS
    skipped = suite.skippy & (np.abs(run - suite.shift_run) < 3)
    seconds = np.where(skipped, rng.uniform(0, 0.02, tests), np.minimum(seconds, LIMIT_SECONDS))
    flags = BIT["retried"] * retried + BIT["timed_out"] * (timed_out & ~skipped) + BIT["skipped"] * skipped
    return np.where(run >= suite.birth, seconds, np.nan), flags + BIT["first"] * cold


def _noisy(suite: Suite, rng: np.random.Generator, level: Floats, effect: Floats | float) -> Floats:
    tests = len(level)
    slow = np.where(suite.flaky & (rng.random(tests) < _FLAKY_SHARE), _FLAKY_FACTOR, 1.0)
    return level * slow * np.exp(suite.noise * rng.standard_normal(tests) + effect)


def _next_run(suite: Suite, rng: np.random.Generator) -> Floats:
    level = suite.base * np.where(suite.moved, suite.factor, 1.0)
    seconds = _noisy(suite, rng, level, 0.0) + suite.starts_cold * rng.uniform(5, 60, len(level))
    return np.minimum(seconds, LIMIT_SECONDS)


def _matrix(suite: Suite, seconds: Floats, flags: Ints, pod: Ints, runs: int) -> Matrix:
    ids = tuple(f"tests/test_{file:03}.py::test_{number:05}" for number, file in enumerate(suite.file))
    cold = suite.starts_cold
    return Matrix(
        ids=ids,
        runs=tuple(RunInfo(run=f"run-{run:03}", when=1.7e9 + run * DAY, kind="events") for run in range(runs)),
        seconds=seconds,
        flags=flags,
        pod=pod,
        pods=tuple(f"{number % PODS + 1:02}/0" for number in range(runs * PODS)),
        pod_runs=np.repeat(np.arange(runs), PODS),
        modes=tuple("isolated" if alone else "concurrent" for alone in cold),
    )
