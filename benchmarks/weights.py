"""Which weights predict the next run best? Ours against simpler ones, one step ahead, on real histories and on truth.

Each history is predicted run by run from the 20 runs before it; the predicted weights are packed on 12 machines (LPT,
test by test), and the machines then take what that run really took. The figure is how far the realised makespan lies
above the lower bound of a clairvoyant (real histories), or above that of perfect weights (synthetic truth). Equally good
packings differ by some percent, so each is the mean over 12 of them, and all estimators get the same 12.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.suites import data_folder
from benchmarks.weights_histories import History, as_matrix, families, histories
from benchmarks.weights_review import AlarmRow, RuleRow, alarms, rule_rows
from benchmarks.weights_synthetic import draw
from shardlib.bounds import longest_jobs_bound
from shardlib.weights.fit import FitSettings, fit
from shardlib.weights.matrix import Matrix
from shardlib.weights.rows import Bools, Floats, Ints, quantile

MACHINES = 12
WINDOW = 20  # runs that a prediction may see
FIRST = 3  # runs before the first prediction
JITTER = 0.001  # of the weights: packings that a person would call equally good
LEAST_SECONDS = 0.1  # of a test whose error counts
OURS = "ours"
REVIEW_SEEDS = 8

Estimator = Callable[[Matrix], Floats]


@dataclass(frozen=True, kw_only=True)
class Score:
    """One estimator on one history (or suite): means over its predictions, and their standard errors where told.

    `error` is the median absolute log ratio, `weighted_error` the time-weighted one, both without the common factor;
    `bias` is that of the total over all predictions of a history (a mean of ratios would be too high by the square of
    the runs' own scatter: one fast run weighs more than a slow one), `seconds` that total; `gap` the realised makespan
    over the reference, minus 1.
    """

    history: str
    estimator: str
    error: float
    weighted_error: float
    bias: float
    seconds: float
    gap: float
    gap_error: float


def ours(matrix: Matrix) -> Floats:
    """Returns the weights of `shardlib weights fit`."""
    return fit(matrix, FitSettings()).weight


def last(matrix: Matrix) -> Floats:
    """Returns each test's newest value."""
    return _fold(matrix.seconds, lambda _, value: value)


def ewma(matrix: Matrix) -> Floats:
    """Returns the exponentially weighted moving average with 0.3 for the newest value."""
    return _fold(matrix.seconds, lambda weight, value: 0.7 * weight + 0.3 * value)


def ratchet(matrix: Matrix) -> Floats:
    """Returns max(0.9 old, 1.2 new), folded over the runs: what FlashInfer does."""
    return _fold(matrix.seconds, lambda weight, value: np.maximum(0.9 * weight, 1.2 * value))


def mean(matrix: Matrix) -> Floats:
    """Returns the mean of each test's values."""
    counts = np.isfinite(matrix.seconds).sum(axis=1)
    return np.where(counts > 0, np.nansum(matrix.seconds, axis=1) / np.maximum(counts, 1), np.nan)


ESTIMATORS: Mapping[str, Estimator] = {
    OURS: ours,
    "last": last,
    "mean": mean,
    "median": lambda matrix: quantile(matrix.seconds, 0.5),
    "P90": lambda matrix: quantile(matrix.seconds, 0.9),
    "EWMA 0.3": ewma,
    "ratchet": ratchet,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--seeds", type=int, default=12, help="synthetic suites (default: %(default)s)")
    parser.add_argument("--packings", type=int, default=12, help="of each prediction (default: %(default)s)")
    parser.add_argument("--only", choices=["real", "synthetic", "review"], help="one of the three parts")
    parser.add_argument("--quick", action="store_true", help="two small suites, two packings: do the parts work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")


def main(args: argparse.Namespace) -> int:
    """Prints the tables; returns 0."""
    seeds, packings, tests = (2, 2, 400) if args.quick else (args.seeds, args.packings, 2400)
    found: dict[str, list[dict[str, object]]] = {}
    if args.only in (None, "synthetic"):
        scores = [score for seed in range(seeds) for score in synthetic(seed, packings=packings, tests=tests)]
        found["synthetic"] = [asdict(score) for score in scores]
        print(_table("synthetic truth: over perfect weights", scores))
    known = _histories()
    if args.only in (None, "real") and known:
        scores = []
        for history in known:
            own = list(real(history, packings=packings, most=3 if args.quick else WINDOW))
            print(_table(f"{history.name}: over the clairvoyant bound", own))
            scores += own
        found["real"] = [asdict(score) for score in scores]
        print(_table("all real histories", scores))
    if args.only in (None, "review"):
        rules = rule_rows(seeds=min(seeds, REVIEW_SEEDS), tests=tests)
        found["rules"] = [asdict(row) for row in rules]
        print(_rules_table(rules))
        weekly = [alarms(history) for history in known]
        found["alarms"] = [asdict(row) for row in weekly]
        print(_alarms_table(weekly))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="ascii")
    return 0


def synthetic(seed: int, *, packings: int, tests: int, next_runs: int = 24) -> Iterator[Score]:
    """Yields each estimator's score on one synthetic suite, over perfect weights."""
    truth = draw(100 + seed, tests=tests, files=max(tests // 10, 2))
    family = families(truth.matrix.ids)
    nexts = [truth.next_run(np.random.default_rng([seed, number])) for number in range(next_runs)]
    repeats = max(1, packings // next_runs)
    perfect = float(np.mean([realised(truth.weight, actual, repeats) for actual in nexts]))
    for name, estimator in ESTIMATORS.items():
        raw = estimator(truth.matrix)
        predicted = filled(raw, family)
        gaps = [realised(predicted, actual, repeats) for actual in nexts]
        yield _score(f"seed {seed}", name, predicted, truth.weight, np.isfinite(raw), [np.mean(gaps) / perfect - 1])


def real(history: History, *, packings: int, most: int) -> Iterator[Score]:
    """Yields each estimator's score on a real history: its newest `most` runs, each predicted from those before."""
    scores: dict[str, list[Score]] = {name: [] for name in ESTIMATORS}
    runs = history.seconds.shape[1]
    for run in range(max(FIRST, runs - most), runs):
        actual = history.seconds[:, run]
        past = history.seconds[:, max(0, run - WINDOW) : run]
        known = np.isfinite(actual) & np.isfinite(past).any(axis=1)
        actual = np.maximum(actual[known], 1e-4)
        matrix = as_matrix([history.ids[row] for row in np.flatnonzero(known)], past[known])
        bound = longest_jobs_bound(np.round(actual * 1000).astype(int).tolist(), MACHINES) / 1000
        for name, estimator in ESTIMATORS.items():
            raw = estimator(matrix)
            predicted = filled(raw, families(matrix.ids))
            gaps = [realised(predicted, actual, packings) / bound - 1]
            scores[name].append(_score(history.name, name, predicted, actual, actual > LEAST_SECONDS, gaps))
    for several in scores.values():
        yield _merged(several, by_seconds=True)


def realised(weights: Floats, actual: Floats, packings: int) -> float:
    """Returns the mean makespan of LPT packings by slightly jittered weights, when tests take their actual seconds."""
    rng = np.random.default_rng(0)
    makespans = []
    for _ in range(packings):
        jittered = weights * np.exp(JITTER * rng.standard_normal(len(weights)))
        makespans.append(np.bincount(lpt(jittered), actual, MACHINES).max())
    return float(np.mean(makespans))


def lpt(weights: Floats) -> Ints:
    """Returns each test's machine: heaviest first, onto the least loaded (Graham 1969)."""
    loads = [(0.0, machine) for machine in range(MACHINES)]
    machines: Ints = np.empty(len(weights), dtype=np.int64)
    seconds = weights.tolist()
    for test in np.argsort(-weights, kind="stable").tolist():
        load, machine = loads[0]
        machines[test] = machine
        heapq.heapreplace(loads, (load + seconds[test], machine))
    return machines


def filled(weights: Floats, family: Sequence[Ints]) -> Floats:
    """Returns the weights; a test without one gets its function's median, else its file's, else that of all."""
    result = weights.copy()
    for keys in (*family, np.zeros(len(weights), dtype=np.int64)):
        for key in np.unique(keys[np.isnan(result)]):
            same = keys == key
            if np.isfinite(weights[same]).any():
                result[same & np.isnan(result)] = np.nanmedian(weights[same])
    return np.maximum(result, 1e-4)


def _fold(seconds: Floats, step: Callable[[Floats, Floats], Floats]) -> Floats:
    weight = np.full(len(seconds), np.nan)
    for value in seconds.T:
        weight = np.where(np.isnan(value), weight, np.where(np.isnan(weight), value, step(weight, value)))
    return weight


def _score(history: str, name: str, predicted: Floats, actual: Floats, judged: Bools, gaps: Sequence[float]) -> Score:
    ratio = np.log(predicted[judged] / actual[judged])
    off = np.abs(ratio - np.median(ratio))
    return Score(
        history=history,
        estimator=name,
        error=float(np.median(off)),
        weighted_error=float(np.average(off, weights=actual[judged])),
        bias=float(predicted[judged].sum() / actual[judged].sum() - 1),
        seconds=float(actual[judged].sum()),
        gap=float(np.mean(gaps)),
        gap_error=0.0,
    )


def _merged(scores: Sequence[Score], *, by_seconds: bool = False) -> Score:
    seconds = [score.seconds for score in scores]
    gaps = [score.gap for score in scores]
    return Score(
        history=scores[0].history,
        estimator=scores[0].estimator,
        error=float(np.mean([score.error for score in scores])),
        weighted_error=float(np.mean([score.weighted_error for score in scores])),
        bias=float(np.average([score.bias for score in scores], weights=seconds if by_seconds else None)),
        seconds=float(sum(seconds)),
        gap=float(np.mean(gaps)),
        gap_error=float(np.std(gaps) / np.sqrt(len(gaps))),
    )


def _table(title: str, scores: Sequence[Score]) -> str:
    lines = [
        f"{title}",
        f"  {'estimator':10} {'gap %':>7} {'+-':>5} {'vs ours':>8} {'error':>6} {'tw':>6} {'bias %':>7}",
    ]
    base = _merged([score for score in scores if score.estimator == OURS]).gap
    for name in ESTIMATORS:
        own = _merged([score for score in scores if score.estimator == name])
        error = own.gap_error
        if len([s for s in scores if s.estimator == name]) == 1:
            error = next(s.gap_error for s in scores if s.estimator == name)
        lines.append(
            f"  {name:10} {100 * own.gap:7.2f} {100 * error:5.2f} {100 * (own.gap - base):+8.2f} "
            f"{own.error:6.3f} {own.weighted_error:6.3f} {100 * own.bias:+7.1f}"
        )
    return "\n".join([*lines, ""])


def _rules_table(rules: Sequence[RuleRow]) -> str:
    lines = [f"{'review rules':28} precision  recall  flagged   real"]
    lines += [f"  {r.rule:26} {r.precision:9.2f} {r.recall:7.2f} {r.flagged:8} {r.real:6}" for r in rules]
    return "\n".join([*lines, ""])


def _alarms_table(rows: Sequence[AlarmRow]) -> str:
    lines = [f"{'weekly reviews':14} weeks  changed a week  lasting"]
    for row in rows:
        lasting = "-" if row.lasting is None else f"{row.lasting:.2f}"
        lines.append(f"  {row.history:12} {row.weeks:5} {row.changed_a_week:15.1f} {lasting:>8}")
    return "\n".join([*lines, ""])


def _histories() -> list[History]:
    folder = data_folder()
    if folder is None or not (folder / "history").is_dir():
        print("the real histories are not here; SHARDLIB_DATA says where they are", file=sys.stderr)
        return []
    return histories(folder / "history")
