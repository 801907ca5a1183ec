"""A fit in words and documents: weights, flags, why, and each test's history. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shardlib.durations import weigh
from shardlib.model import CollectedTest, Mode, WeightSource
from shardlib.settings import Settings
from shardlib.weights import suspects
from shardlib.weights.fit import Fit, FitSettings
from shardlib.weights.matrix import BIT, Matrix
from shardlib.weights.proposal import (
    HISTORY_RUNS,
    Flag,
    Mark,
    Point,
    Proposal,
    ProposedRun,
    Shift,
    SlowPod,
    TestWeight,
)
from shardlib.weights.rows import Bools, Floats, quantile
from shardlib.weights.usable import Fate

THIN = 3  # observations; below, the error of a test with 20 % noise is 10 % and more
UNSEEN_RUNS = 10  # a test that the newest ten runs lack is probably gone (a guess)
_TIMED_OUT_RUNS = 2  # one alone is mostly a hang of the machine: precision .14 on synthetic truth, .78 for two

_MARKS = {
    Fate.USED: Mark.USED,
    Fate.COLD_CORRECTED: Mark.COLD,
    Fate.COLD: Mark.COLD,
    Fate.SKIPPED: Mark.SKIPPED,
    Fate.TIMED_OUT: Mark.TIMED_OUT,
    Fate.RETRIED: Mark.RETRIED,
    Fate.FAILED: Mark.FAILED,
    Fate.BEFORE_SHIFT: Mark.OLD,
}

_MARK_OF = [_MARKS.get(fate, Mark.DROPPED) for fate in Fate]

_REASONS = {
    Fate.SKIPPED: "skipped",
    Fate.CUT_OFF: "cut off",
    Fate.TIMED_OUT: "timed out",
    Fate.RETRIED: "retried",
    Fate.FAILED: "failed",
    Fate.COLD: "first in its process",
    Fate.CARRIED_OVER: "carried over, not measured",
    Fate.LIKE_A_SKIP: "about 0 s, like a skip",
    Fate.LIKE_ANOTHER_UNIT: "about 1000 times its median",
    Fate.BEFORE_SHIFT: "before the shift",
}

_SOURCES = {
    WeightSource.FUNCTION: "the median of the same function's other parameters",
    WeightSource.FILE: "the median of the same file's tests",
    WeightSource.MODE: "the median of the same mode's tests",
    WeightSource.UNKNOWN: "the setting unknown_seconds",
    WeightSource.KNOWN: "a measurement",
}


def propose(matrix: Matrix, found: Fit, settings: FitSettings) -> Proposal:
    """Returns the proposal.

    A test that was skipped in every run gets what its skips took; another one without a usable observation gets its
    relatives' median, and a setup without one none.
    """
    flags = _flags(matrix, found)
    estimates = _estimates(matrix, found, np.flatnonzero(flags[Flag.ESTIMATED]).tolist())
    skips = np.where(flags[Flag.SKIPPED][:, None] & np.isfinite(matrix.seconds), matrix.seconds, np.nan)
    weight, p10, p90 = (
        np.where(flags[Flag.SKIPPED], quantile(skips, share), fitted)
        for share, fitted in ((0.5, found.weight), (0.1, found.p10), (0.9, found.p90))
    )
    last_seen = _last_seen(np.isfinite(matrix.seconds))
    fates = _fate_counts(found)
    tests = []
    for row, node_id in enumerate(matrix.ids):
        estimate = estimates.get(node_id)
        if np.isnan(weight[row]) and estimate is None:
            continue
        own = tuple(flag for flag in Flag if flags[flag][row])
        tests.append(
            TestWeight(
                id=node_id,
                mode=matrix.modes[row],
                weight=estimate[0] if estimate else _seconds(weight[row]),
                p10=estimate[0] if estimate else _seconds(p10[row]),
                p90=estimate[0] if estimate else _seconds(p90[row]),
                samples=int(found.samples[row]),
                effective=round(float(found.effective[row]), 2),
                scatter=round(float(found.scatter[row]), 4),
                last_seen=int(last_seen[row]),
                flags=own,
                shift=_shift(found, row),
                why=f"no usable run; {_SOURCES[estimate[1]]}" if estimate else _why(matrix, found, row, fates[row]),
                history=tuple(_history(matrix, found, row)),
            )
        )
    return Proposal(
        settings={
            "half_life_runs": found.half_life_runs,
            "half_life_tuned": settings.half_life_runs is None,
            "shift_up_runs": settings.shift_up_runs,
            "shift_down_runs": settings.shift_down_runs,
            "margin": settings.margin,
            "shards": settings.shards,
        },
        runs=_runs(matrix, found),
        slow_pods=tuple(_slow_pods(matrix, found)),
        tests=tuple(tests),
    )


def _estimates(matrix: Matrix, found: Fit, rows: Sequence[int]) -> dict[str, tuple[float, WeightSource]]:
    """Weight and source of the tests among these rows, as `plan` would estimate them."""
    missing = [row for row in rows if "::" in matrix.ids[row]]
    if not missing:
        return {}
    known = {node_id: float(found.weight[row]) for row, node_id in enumerate(matrix.ids) if found.samples[row]}
    tests = [
        CollectedTest(id=node_id, file=node_id.partition("::")[0], mode=_mode(matrix.modes[row]), gpus=1)
        for row, node_id in enumerate(matrix.ids)
        if "::" in node_id
    ]
    weights = weigh(tests, known, unknown_seconds=Settings().unknown_seconds)
    by_id = {matrix.ids[row]: weights.by_id[matrix.ids[row]] for row in missing}
    return {node_id: (weight.ms / 1000, weight.source) for node_id, weight in by_id.items()}


def _flags(matrix: Matrix, found: Fit) -> dict[Flag, Bools]:
    fate, ran = found.usable.fate, np.isfinite(matrix.seconds)
    timed_out = matrix.flags & BIT["timed_out"] != 0
    judged = np.where(ran & ~timed_out & (fate != Fate.SKIPPED) & (fate != Fate.CARRIED_OVER), matrix.seconds, np.nan)
    failed = matrix.flags & (BIT["failed"] | BIT["retried"]) != 0
    reruns = ((matrix.flags & BIT["retried"] != 0).sum(axis=1) >= 2) & (found.samples >= 2)
    newest = ran[:, -UNSEEN_RUNS:].any(axis=1)
    skipped = ran.any(axis=1) & (~ran | (fate == Fate.SKIPPED)).all(axis=1)
    return {
        Flag.SHIFTED: found.step != 0,
        Flag.FLAKY: found.two_speeds | suspects.fails_and_passes(failed, ran & (fate != Fate.SKIPPED)) | reruns,
        Flag.TIMED_OUT: timed_out.sum(axis=1) >= _TIMED_OUT_RUNS,
        Flag.SKIPPED_AS_0: suspects.like_a_skip(judged).any(axis=1),
        Flag.UNIT: (fate == Fate.LIKE_ANOTHER_UNIT).any(axis=1),
        Flag.PLACEHOLDER: suspects.placeholders(judged, suspects.last_digit(judged)),
        Flag.THIN: (found.samples > 0) & (found.samples < THIN),
        Flag.SKIPPED: skipped,
        Flag.ESTIMATED: (found.samples == 0) & ~skipped,
        Flag.UNSEEN: ~newest,
    }


def _last_seen(ran: Bools) -> Floats:
    return ran.shape[1] - 1 - np.argmax(ran[:, ::-1], axis=1)


def _shift(found: Fit, row: int) -> Shift | None:
    if found.step[row] == 0:
        return None
    return Shift(run=int(found.step_run[row]), factor=round(float(np.exp(found.step[row])), 3))


def _fate_counts(found: Fit) -> list[list[int]]:
    """How often each fate befell each test's observations."""
    fate = found.usable.fate.astype(np.int64)
    keys = np.arange(len(fate))[:, None] * len(Fate) + fate
    counts: list[list[int]] = (
        np.bincount(keys.ravel(), minlength=fate.shape[0] * len(Fate)).reshape(-1, len(Fate)).tolist()
    )
    return counts


def _why(matrix: Matrix, found: Fit, row: int, fates: list[int]) -> str:
    """One sentence: what the weight is the mean of, and what does not count."""
    observed = sum(fates) - fates[Fate.ABSENT]
    if fates[Fate.SKIPPED] == observed:
        return f"skipped in all {observed} run{'s' if observed != 1 else ''}; the median of what the skips took"
    samples = int(found.samples[row])
    used = fates[Fate.USED] + fates[Fate.COLD_CORRECTED]
    text = f"mean of {samples} of {observed} observation{'s' if observed != 1 else ''}"
    left = [f"{fates[fate]} {reason}" for fate, reason in _REASONS.items() if fates[fate]]
    if used > samples:
        left.append(f"{used - samples} older")
    corrected = fates[Fate.COLD_CORRECTED]
    text += f"; without: {', '.join(left)}" if left else ""
    text += f"; {corrected} less the start-up that other tests show" if corrected else ""
    if found.step[row]:
        run = matrix.runs[int(found.step_run[row])].run
        text += f"; x{np.exp(found.step[row]):.2g} since run {run}"
    return text


def _history(matrix: Matrix, found: Fit, row: int) -> Iterator[Point]:
    runs = np.flatnonzero(np.isfinite(matrix.seconds[row]))[-HISTORY_RUNS:]
    seconds, fates = np.round(matrix.seconds[row, runs], 4).tolist(), found.usable.fate[row, runs].tolist()
    for run, value, fate in zip(runs.tolist(), seconds, fates, strict=True):
        yield Point(run=run, seconds=value, mark=_MARK_OF[fate])


def _runs(matrix: Matrix, found: Fit) -> tuple[ProposedRun, ...]:
    tests = np.isfinite(matrix.seconds).sum(axis=0)
    return tuple(
        ProposedRun(
            run=info.run,
            when=info.when,
            kind=info.kind,
            tests=int(tests[number]),
            factor=round(float(np.exp(found.effects.run[number])), 4),
        )
        for number, info in enumerate(matrix.runs)
    )


def _slow_pods(matrix: Matrix, found: Fit) -> Iterator[SlowPod]:
    for pod in suspects.slow_pods(found.effects, matrix.pod_runs):
        run, name = int(matrix.pod_runs[pod]), matrix.pods[pod]
        pods = (matrix.pod_runs == run) & (found.effects.pod_tests > 0)
        factor = np.exp(found.effects.pod[pod] - np.median(found.effects.pod[pods]))
        yield SlowPod(run=run, pod=name or "?", factor=round(float(factor), 3))


def _mode(text: str | None) -> Mode:
    return Mode(text) if text in {mode.value for mode in Mode} else Mode.CONCURRENT


def _seconds(value: float) -> float:
    return round(float(value), 4)
