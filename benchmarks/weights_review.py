"""How well the review's rules find what is wrong: faults injected into synthetic runs, and alarms on real histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.weights_histories import History, as_matrix
from benchmarks.weights_synthetic import LIMIT_SECONDS, Truth, draw, until
from shardlib.weights import suspects
from shardlib.weights.fit import FitSettings, fit
from shardlib.weights.matrix import BIT, Matrix
from shardlib.weights.proposal import Flag, Proposal
from shardlib.weights.propose import propose
from shardlib.weights.review.compare import Concern, Review, compare
from shardlib.weights.rows import Bools, Floats

SHARDS = 12
OLD_RUNS = 10  # what the current file was fitted on
BIG_SECONDS = 3.0  # tests below it are not judged: a change there moves no shard
WEEK = 7 * 86_400.0
LEAST_UP, LEAST_DOWN = 3, 4  # runs at the new level; a fall is believed from its fourth run on, by design


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One rule: how many tests it flagged, how many faults there were, and how many of those it found."""

    rule: str
    found: int
    flagged: int
    real: int

    @property
    def precision(self) -> float:
        """The share of its alarms that are faults."""
        return self.found / max(self.flagged, 1)

    @property
    def recall(self) -> float:
        """The share of the faults that it finds."""
        return self.found / max(self.real, 1)


@dataclass(frozen=True, kw_only=True)
class AlarmRow:
    """A real history: tests called changed a week, when the file is reviewed every week; and how many changes lasted."""

    history: str
    weeks: int
    changed_a_week: float
    lasting: float | None  # None: no later runs tell


def rule_rows(*, seeds: int, tests: int) -> list[RuleRow]:
    """Returns each rule's figures over so many synthetic suites."""
    totals: dict[str, tuple[int, int, int]] = {}
    for seed in range(seeds):
        truth = draw(300 + seed, tests=tests, files=max(tests // 10, 2))
        for rule, flagged, real in _faults(truth, np.random.default_rng(seed)):
            old = totals.get(rule, (0, 0, 0))
            now = (int((flagged & real).sum()), int(flagged.sum()), int(real.sum()))
            totals[rule] = (old[0] + now[0], old[1] + now[1], old[2] + now[2])
    return [RuleRow(rule=rule, found=t[0], flagged=t[1], real=t[2]) for rule, t in totals.items()]


def alarms(history: History, window: int = 20) -> AlarmRow:
    """Returns how many tests a weekly review of a real history calls changed.

    Each review fits the runs up to its day and compares with what the review before accepted. A change lasts if the
    median of the next three runs is at least half-way from the old weight to the new one.
    """
    reviews = _weekly(history.when)
    accepted: dict[str, float] = {}
    changed, lasting, told = 0, 0, 0
    for end in reviews:
        matrix = as_matrix(history.ids, history.seconds[:, max(0, end - window) : end])
        proposal, review = _review(matrix, accepted)
        later = dict(zip(history.ids, _median(history.seconds[:, end : end + 3]), strict=True))
        for finding in review.findings if accepted else ():
            if Concern.CHANGED in finding.concerns and finding.old:
                changed += 1
                after = later[finding.test.id]
                if np.isfinite(after) and after > 0:
                    told += 1
                    lasting += np.log(after / finding.old) / np.log(finding.test.weight / finding.old) > 0.5
        accepted |= {test.id: test.weight for test in proposal.tests}
    weeks = max(len(reviews) - 1, 1)
    return AlarmRow(
        history=history.name, weeks=weeks, changed_a_week=changed / weeks, lasting=lasting / told if told else None
    )


def _faults(truth: Truth, rng: np.random.Generator) -> Iterator[tuple[str, Bools, Bools]]:
    """Yields each rule with the tests (or pods) that it flags, and those that have the fault."""
    matrix, suite = truth.matrix, truth.suite
    big = truth.weight > BIG_SECONDS
    old = fit(until(matrix, OLD_RUNS), FitSettings())
    accepted = {key: float(w) for key, w in zip(matrix.ids, old.weight, strict=True) if np.isfinite(w)}
    _, review = _review(matrix, accepted)
    after = len(matrix.runs) - suite.shift_run
    seen = (suite.shift_run >= OLD_RUNS) & (after >= np.where(suite.factor > 1, LEAST_UP, LEAST_DOWN))
    matters = np.abs(suite.base * (suite.factor - 1)) > review.share_seconds
    fresh = suite.moved & seen
    unclear = suite.moved & ~(seen & matters)  # in the current file already, too late to be seen, or of no weight
    changed = _tests(matrix, {f.test.id for f in review.findings if Concern.CHANGED in f.concerns})
    yield "changed (x3, x0.3)", changed & ~unclear, fresh & ~unclear
    known = np.isfinite(matrix.seconds).sum(axis=1) >= 8
    found = fit(matrix, FitSettings())
    known &= big & ~suite.starts_cold  # a start of 5 to 60 s is unsteady in its own right
    yield "two speeds (x4 in 25 %)", found.two_speeds & known, suite.flaky & known
    slow: Bools = np.zeros(len(truth.slow), dtype=bool)
    slow[suspects.slow_pods(found.effects, matrix.pod_runs)] = True
    yield "slow pod (x1.3)", slow, truth.slow
    yield _timed_out(matrix, rng)
    plain = replace(matrix, flags=np.where(truth.flagged("skipped"), 0, matrix.flags))
    real = (truth.flagged("skipped") & np.isfinite(matrix.seconds)).sum(axis=1) >= 2
    yield "skipped as 0", _flagged(plain, _propose(plain), Flag.SKIPPED_AS_0), real & (truth.weight > 1)
    milliseconds = rng.random(len(matrix.ids)) < 0.01
    seconds = matrix.seconds.copy()
    seconds[milliseconds, -2:] *= 1000
    wrong = replace(matrix, seconds=seconds)
    yield "unit (ms taken for s)", _flagged(wrong, _propose(wrong), Flag.UNIT) & big, milliseconds & big
    held = rng.random(len(matrix.ids)) < 0.01
    seconds = np.where(held[:, None] & np.isfinite(matrix.seconds), 60.0, matrix.seconds)
    logged = replace(matrix, seconds=np.round(seconds, 2))
    held &= (np.isfinite(matrix.seconds) & ~truth.flagged("timed_out")).any(axis=1)
    yield "placeholder (0.01 s logs)", _flagged(logged, _propose(logged), Flag.PLACEHOLDER), held


def _timed_out(matrix: Matrix, rng: np.random.Generator) -> tuple[str, Bools, Bools]:
    """Tests that hang in three runs of ten, beside the odd hang of any test."""
    hangs = (rng.random(len(matrix.ids)) < 0.01)[:, None] & (rng.random(matrix.seconds.shape) < 0.3)
    hangs &= np.isfinite(matrix.seconds)
    seconds = np.where(hangs, LIMIT_SECONDS, matrix.seconds)
    hung = replace(matrix, seconds=seconds, flags=np.where(hangs, BIT["timed_out"], matrix.flags))
    flagged = _flagged(hung, _propose(hung), Flag.TIMED_OUT)
    usual = np.nanmedian(np.where(np.isfinite(matrix.seconds), matrix.seconds, 0.0), axis=1) > 250
    return "timed out (two runs)", flagged, hangs.any(axis=1) | usual


def _propose(matrix: Matrix) -> Proposal:
    return propose(matrix, fit(matrix, FitSettings()), FitSettings())


def _review(matrix: Matrix, accepted: dict[str, float]) -> tuple[Proposal, Review]:
    proposal = _propose(matrix)
    return proposal, compare(proposal, accepted, shards=SHARDS)


def _flagged(matrix: Matrix, proposal: Proposal, flag: Flag) -> Bools:
    return _tests(matrix, {test.id for test in proposal.tests if flag in test.flags})


def _tests(matrix: Matrix, ids: set[str]) -> Bools:
    marked: Bools = np.array([node_id in ids for node_id in matrix.ids], dtype=bool)
    return marked


def _weekly(when: Sequence[float]) -> list[int]:
    """How many runs each review sees: the first six, then one review a week, or a run where they are rarer."""
    ends = [6]
    for end in range(7, len(when) - 2):
        if when[end - 1] - when[ends[-1] - 1] >= WEEK:
            ends.append(end)
    return ends


def _median(seconds: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        counts = np.isfinite(seconds).sum(axis=1)
        filled = np.where(counts[:, None] > 0, seconds, 0.0)
    return np.where(counts > 0, np.nanmedian(filled, axis=1), np.nan)
