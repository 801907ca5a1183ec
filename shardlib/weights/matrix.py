"""The runs of a samples folder as one matrix of tests by runs, oldest run first. Pure but for `load`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shardlib.errors import WeightsError
from shardlib.weights import samplefiles
from shardlib.weights.columns import Repeated, Table
from shardlib.weights.rows import Floats, Ints
from shardlib.weights.samplefiles import Head
from shardlib.weights.samples import FLAGS

BIT = {flag: 1 << place for place, flag in enumerate(FLAGS)}
CUT_OFF = BIT["skipped"] | BIT["crashed"] | BIT["collateral"] | BIT["truncated"]
"""Flags of observations that say nothing about what the test takes."""

_TIERS = ((CUT_OFF, 3), (BIT["timed_out"], 2), (BIT["failed"] | BIT["retried"] | BIT["first"], 1))


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """A column: which run, unix seconds (None: unknown), and the kind of its source."""

    run: str
    when: float | None
    kind: str


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Observations in seconds, NaN where a test did not run; flags as bits; and which pod each comes from.

    `ids` are sorted. `pods` names each pod (None: unknown) and `pod_runs` its column. `modes` is each test's newest.
    """

    ids: tuple[str, ...]
    runs: tuple[RunInfo, ...]
    seconds: Floats
    flags: Ints
    pod: Ints
    pods: tuple[str | None, ...]
    pod_runs: Ints
    modes: tuple[str | None, ...]


def load(folder: Path) -> Matrix:
    """Returns the matrix of a samples folder, read run by run.

    Raises:
        WeightsError: there is no run, two files hold the same run, or a file is not what `collect` writes.
    """
    heads = [(samplefiles.read_head(path), path) for path in samplefiles.paths(folder)]
    if not heads:
        raise WeightsError(f"{folder} holds no runs; `shardlib weights collect -o {folder}` writes them")
    by_run: dict[str, Path] = {}
    for head, path in heads:
        if by_run.setdefault(head.run, path) != path:
            raise WeightsError(f"{path} and {by_run[head.run]} both hold the run {head.run!r}; remove one")
    heads.sort(key=lambda pair: (pair[0].when is not None, pair[0].when or 0.0, pair[0].run))
    return build(samplefiles.read_table(path) for _, path in heads)


def build(runs: Iterable[tuple[Head, Table]]) -> Matrix:
    """Returns the matrix of runs in the order given; each run is dropped as soon as it is in.

    Where a test has several rows in a run (attempts, pieces of a file that each pay its setup), the cell is the mean of
    the most telling ones: clean before failed, retried or cold, before timed out, before cut off.
    """
    index: dict[str, int] = {}
    infos: list[RunInfo] = []
    columns: list[_Column] = []
    pods: list[str | None] = []
    pod_runs: list[int] = []
    for number, (head, table) in enumerate(runs):
        infos.append(RunInfo(run=head.run, when=head.when, kind=head.kind))
        rows = _places(index, table.id)
        names, pod = _coded(table.pod)
        columns.append(_column(table, rows, len(pods) + pod))
        pods += names
        pod_runs += [number] * len(names)
    if not index:
        raise WeightsError("the runs hold no test at all; were the logs those of a test run?")
    return _assemble(index, infos, columns, pods, pod_runs)


def _places(index: dict[str, int], ids: Sequence[str]) -> list[int]:
    """Each id's place in the index, which new ones join; all of a run's ids are mostly known."""
    try:
        return [*map(index.__getitem__, ids)]
    except KeyError:
        for node_id in ids:
            index.setdefault(node_id, len(index))
    return [*map(index.__getitem__, ids)]


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A run's cells, small: hundreds of them wait until all tests are known. `mode` is a place in `modes`."""

    rows: Ints
    seconds: Floats
    flags: Ints
    pod: Ints
    mode: Ints
    modes: Sequence[str | None]


def _column(table: Table, rows: Sequence[int], pod: Ints) -> _Column:
    """One run's cells: the mean of each test's most telling rows, with the flags, pod and mode of the first of them."""
    bits_of = [sum(BIT[flag] for flag in flags) for flags in table.flags.values]
    bits: Ints = np.repeat(np.array(bits_of, dtype=np.int16), table.flags.counts)
    seconds = np.array(table.seconds, dtype=float)
    modes, mode = _coded(table.mode)
    tiers: Ints = np.zeros(len(bits), dtype=np.int64)
    for mask, tier in reversed(_TIERS):
        tiers[(bits & mask) != 0] = tier
    row = np.array(rows, dtype=np.int32)
    order = np.lexsort((tiers, row))
    row, tiers, seconds, bits, pod, mode = (array[order] for array in (row, tiers, seconds, bits, pod, mode))
    first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]]) if len(row) else np.zeros(0, dtype=np.int64)
    group: Ints = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(row)]))
    best = tiers == tiers[first][group]
    mean = np.bincount(group[best], seconds[best], len(first)) / np.maximum(np.bincount(group[best]), 1)
    return _Column(
        rows=row[first],
        seconds=mean,
        flags=bits[first],
        pod=pod[first],
        mode=mode[first],
        modes=modes,
    )


def _coded(column: Repeated[str | None]) -> tuple[list[str | None], Ints]:
    """The column's different values, and each row's place among them."""
    places: dict[str | None, int] = {}
    codes = [places.setdefault(value, len(places)) for value in column.values]
    return list(places), np.repeat(np.array(codes, dtype=np.int32), column.counts)


def _assemble(
    index: dict[str, int],
    infos: list[RunInfo],
    columns: list[_Column],
    pods: list[str | None],
    pod_runs: list[int],
) -> Matrix:
    ids = sorted(index)
    place: Ints = np.empty(len(ids), dtype=np.int64)
    place[[index[node_id] for node_id in ids]] = np.arange(len(ids))
    shape = (len(ids), len(columns))
    seconds = np.full(shape, np.nan)
    flags: Ints = np.zeros(shape, dtype=np.int16)
    pod: Ints = np.zeros(shape, dtype=np.int32)
    modes: NDArray[np.object_] = np.full(len(ids), None, dtype=object)
    for number, column in enumerate(columns):
        rows = place[column.rows]
        seconds[rows, number] = column.seconds
        flags[rows, number] = column.flags
        pod[rows, number] = column.pod
        for code, mode in enumerate(column.modes):
            if mode is not None:
                modes[rows[column.mode == code]] = mode
    return Matrix(
        ids=tuple(ids),
        runs=tuple(infos),
        seconds=seconds,
        flags=flags,
        pod=pod,
        pods=tuple(pods),
        pod_runs=np.array(pod_runs, dtype=np.int64),
        modes=tuple(modes.tolist()),
    )
