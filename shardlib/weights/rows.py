"""Statistics of each row of a matrix of tests by runs, where NaN says that a test has no value in that run. Pure."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

PRIOR_VALUES = 3  # what all rows together count for in the scatter of one (a guess)
LEAST_SCATTER = 0.02  # of log seconds: a clock that never varies by 2 % has told the same number twice


def quantile(values: Floats, share: float) -> Floats:
    """Returns the quantile of each row's finite values, by linear interpolation; NaN for a row without any."""
    if values.shape[1] == 0:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)  # NaN comes last
    place = np.maximum(np.isfinite(values).sum(axis=1) - 1, 0) * share
    low, high = np.floor(place).astype(int), np.ceil(place).astype(int)
    rows = np.arange(len(values))
    below = ordered[rows, low]
    return below + (ordered[rows, high] - below) * (place - low)


def weighted_mean(values: Floats, weights: Floats) -> Floats:
    """Returns the weighted mean of each row's finite values; NaN for a row without any."""
    used = np.where(np.isfinite(values), weights, 0.0)
    total = used.sum(axis=1)
    summed = (used * np.nan_to_num(values)).sum(axis=1)
    return np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)


def decay(columns: int, half_life_runs: float) -> Floats:
    """Returns the weight of each column: 1 for the newest, the last one; half of it `half_life_runs` columns before."""
    return 0.5 ** (np.arange(columns)[::-1] / half_life_runs)


def newest(values: Floats, most: int) -> tuple[Floats, Ints]:
    """Returns the newest finite values of each row, at most so many, moved to the right, and the column of each.

    The rest of a row is NaN, in column -1. So a test that seldom runs keeps its values, and no sum is longer than it
    must be.
    """
    rows, columns = np.nonzero(np.isfinite(values))
    counts = np.bincount(rows, minlength=len(values))
    from_the_end = np.cumsum(counts)[rows] - 1 - np.arange(len(rows))  # 0: the newest of its row
    kept = from_the_end < most
    rows, columns, from_the_end = rows[kept], columns[kept], from_the_end[kept]
    width = int(min(most, counts.max(initial=0)))
    packed = np.full((len(values), width), np.nan)
    origin = np.full((len(values), width), -1)
    packed[rows, width - 1 - from_the_end] = values[rows, columns]
    origin[rows, width - 1 - from_the_end] = columns
    return packed, origin


def scatter(values: Floats, centres: Floats) -> Floats:
    """Returns each row's standard deviation as its mean absolute deviation says it, drawn towards that of all rows.

    The mean over all rows counts as three values of each, so that a row of one or two values has a sensible one. 1.25:
    sqrt(pi / 2), the ratio of both deviations for normal noise.
    """
    deviations = np.abs(values - centres[:, None])
    counts = np.isfinite(deviations).sum(axis=1)
    sums = np.nansum(deviations, axis=1)
    typical = sums.sum() / max(int(counts.sum()), 1)
    spread: Floats = 1.25 * (sums + PRIOR_VALUES * typical) / (counts + PRIOR_VALUES)
    return np.maximum(spread, LEAST_SCATTER)
