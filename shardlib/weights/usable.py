"""Flags first: which observations say what a test takes, before any statistics. Pure.

What the flags are worth was measured on synthetic truth: without them the 95th percentile of the weights' error doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from shardlib.weights import suspects
from shardlib.weights.matrix import BIT, CUT_OFF, Matrix
from shardlib.weights.rows import Bools, Floats, Ints, quantile


class Fate(IntEnum):
    """What became of an observation."""

    USED = 0
    ABSENT = 1
    SKIPPED = 2
    CUT_OFF = 3  # crashed, poisoned by another test, or not wholly in the log
    TIMED_OUT = 4
    RETRIED = 5
    FAILED = 6
    COLD = 7  # first in its process, dropped because warm ones are there
    COLD_CORRECTED = 8  # first in its process, used less the start-up that other tests show
    CARRIED_OVER = 9  # not measured: the file's value of the run before
    LIKE_A_SKIP = 10  # about 0 where the test otherwise takes long
    LIKE_ANOTHER_UNIT = 11  # about 1000 times the test's median
    BEFORE_SHIFT = 12  # the test's level changed for good after it


IS_USED = (Fate.USED, Fate.COLD_CORRECTED)

_ENOUGH = 3  # clean observations that make do without failed and cold ones
_FEW_SHARE = 0.25  # of a test's runs: where more are about 0 s, that may be what a warm cache makes of it
_LEAST_SHARE = 0.2  # of a cold observation is always left: the learnt start-up is a guess for this test


@dataclass(frozen=True, kw_only=True)
class Usable:
    """Seconds of the usable observations (NaN elsewhere), and each observation's fate."""

    seconds: Floats
    fate: Ints

    @property
    def used(self) -> Bools:
        """Where an observation is used."""
        return np.isin(self.fate, IS_USED)


def select(matrix: Matrix) -> Usable:
    """Returns the observations that count.

    Skipped and cut-off ones never do. A timeout is dropped as a hang, unless the test mostly times out: then the limit
    is what it costs. A few observations of about 0 s are taken for skips, one of 1000 times the median for another unit.
    Retried, failed and cold ones (first in their process) give way to clean ones; a cold one that is
    needed is corrected by the start-up that tests seen both cold and warm show. In mode `isolated` a file's first test
    always pays the start, so that is its time.
    """
    fate = np.where(np.isfinite(matrix.seconds), Fate.USED, Fate.ABSENT).astype(np.int8)
    used = _Pass(matrix, fate)
    used.drop(Fate.CUT_OFF, matrix.flags & CUT_OFF != 0)
    fate[(fate == Fate.CUT_OFF) & (matrix.flags & BIT["skipped"] != 0)] = Fate.SKIPPED
    used.drop(Fate.CARRIED_OVER, _carried_over(matrix))
    timed_out = matrix.flags & BIT["timed_out"] != 0
    mostly = used.count(timed_out) > 0.5 * used.count()
    used.drop(Fate.TIMED_OUT, timed_out & ~mostly[:, None])
    seconds = np.where((fate == Fate.USED) & ~timed_out, matrix.seconds, np.nan)
    skips = suspects.like_a_skip(seconds)
    few = skips.sum(axis=1) <= _FEW_SHARE * np.isfinite(seconds).sum(axis=1)
    used.drop(Fate.LIKE_A_SKIP, skips & few[:, None])
    seconds = np.where(fate == Fate.USED, seconds, np.nan)  # or both rules together could leave nothing
    used.drop(Fate.LIKE_ANOTHER_UNIT, suspects.like_another_unit(seconds))
    always_first = np.array([mode == "isolated" for mode in matrix.modes], dtype=bool)[:, None]
    cold = (matrix.flags & BIT["first"] != 0) & ~always_first
    for name, fallen in (("retried", Fate.RETRIED), ("failed", Fate.FAILED)):
        worse = matrix.flags & BIT[name] != 0
        used.drop(fallen, worse & (used.count(~worse) >= _ENOUGH)[:, None])
    return _without_start(matrix.seconds, fate, cold)


class _Pass:
    """The fates while observations are being dropped, one reason after the other."""

    def __init__(self, matrix: Matrix, fate: Ints) -> None:
        self._fate = fate

    def drop(self, reason: Fate, where: Bools) -> None:
        self._fate[where & (self._fate == Fate.USED)] = reason

    def count(self, where: Bools | None = None) -> Ints:
        kept = self._fate == Fate.USED
        return (kept if where is None else kept & where).sum(axis=1)


def _without_start(seconds: Floats, fate: Ints, cold: Bools) -> Usable:
    """Drops cold observations of tests that have enough warm ones; corrects those of the others."""
    used = fate == Fate.USED
    cold, warm = cold & used, used & ~cold
    middle = quantile(np.where(warm, seconds, np.nan), 0.5)
    both = cold & np.isfinite(middle)[:, None]
    start = max(0.0, float(np.median((seconds - middle[:, None])[both]))) if both.any() else 0.0
    enough = warm.sum(axis=1) >= _ENOUGH
    fate[cold & enough[:, None]] = Fate.COLD
    corrected = cold & ~enough[:, None] & (start > 0)
    fate[corrected] = Fate.COLD_CORRECTED
    least = _LEAST_SHARE * seconds
    clean = np.where(corrected, np.maximum(seconds - start, least), seconds)
    return Usable(seconds=np.where(np.isin(fate, IS_USED), clean, np.nan), fate=fate)


def _carried_over(matrix: Matrix) -> Bools:
    """pytest-split keeps the entries of tests that did not run: a value equal to the one before was not measured."""
    same = np.zeros(matrix.seconds.shape, dtype=bool)
    kept = np.array([run.kind == "pytest-split" for run in matrix.runs], dtype=bool)
    same[:, 1:] = (matrix.seconds[:, 1:] == matrix.seconds[:, :-1]) & kept[1:] & kept[:-1]
    return same
