"""Real histories of durations files, as committed in public repositories: tests by snapshots."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from shardlib.durations import load
from shardlib.weights.matrix import Matrix, RunInfo
from shardlib.weights.rows import Floats, Ints

LEAST_SECONDS = 0.05  # tests that are never longer do not matter here
LEAST_NEW = 0.5  # of a snapshot's tests must have been measured anew


@dataclass(frozen=True, kw_only=True)
class History:
    """Seconds of tests by snapshots, NaN where a test was not measured; unix seconds of each snapshot."""

    name: str
    ids: tuple[str, ...]
    when: tuple[float, ...]
    seconds: Floats


def histories(folder: Path) -> list[History]:
    """Returns the histories of a folder: `<name>.json.gz` with all snapshots, and one of a file a snapshot."""
    found = [_packed(path) for path in sorted(folder.glob("*.json.gz"))]
    by_name: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*@*.json")):
        by_name.setdefault(path.name.partition("@")[0].rpartition("__")[2], []).append(path)
    for name, paths in by_name.items():
        snapshots = [load(path) for path in paths]
        ids = sorted(set().union(*snapshots))
        seconds = np.array([[snapshot.get(node_id, np.nan) for snapshot in snapshots] for node_id in ids])
        days = [path.name.partition("@")[2].partition("_")[0] for path in paths]
        found.append(_history(name, ids, days, seconds))
    return found


def as_matrix(ids: Sequence[str], seconds: Floats, when: Sequence[float] | None = None) -> Matrix:
    """Returns seconds without any flag or pod as the matrix that `fit` takes."""
    runs = seconds.shape[1]
    times = when or [float(run) for run in range(runs)]
    return Matrix(
        ids=tuple(ids),
        runs=tuple(RunInfo(run=f"{run:03}", when=at, kind="durations") for run, at in enumerate(times)),
        seconds=seconds.copy(),
        flags=np.zeros(seconds.shape, dtype=np.int16),
        pod=np.broadcast_to(np.arange(runs), seconds.shape),
        pods=(None,) * runs,
        pod_runs=np.arange(runs),
        modes=(None,) * len(ids),
    )


def families(ids: Sequence[str]) -> tuple[Ints, Ints]:
    """Returns a number for each test's function, and one for its file (its folder, where ids are files)."""
    functions = [node_id.partition("[")[0] for node_id in ids]
    files = [node_id.partition("::")[0] if "::" in node_id else node_id.rpartition("/")[0] for node_id in ids]
    return np.unique(functions, return_inverse=True)[1], np.unique(files, return_inverse=True)[1]


def _packed(path: Path) -> History:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        document = json.load(stream)
    ids = sorted(document["tests"])
    seconds = np.array([document["tests"][node_id] for node_id in ids], dtype=float)
    days = [snapshot["day"] for snapshot in document["snapshots"]]
    return _history(path.name.removesuffix(".json.gz"), ids, days, seconds)


def _history(name: str, ids: Sequence[str], days: Sequence[str], seconds: Floats) -> History:
    """Without short tests, values that were carried over, and snapshots that measured little."""
    new = [0]
    for run in range(1, seconds.shape[1]):
        before = seconds[:, new[-1]]
        both = np.isfinite(before) & np.isfinite(seconds[:, run])
        if (seconds[both, run] != before[both]).sum() >= LEAST_NEW * both.sum():
            new.append(run)
    seconds = seconds[:, new]
    long = np.nanmax(np.where(np.isfinite(seconds), seconds, 0.0), axis=1) >= LEAST_SECONDS
    measured = seconds.copy()
    measured[:, 1:][seconds[:, 1:] == seconds[:, :-1]] = np.nan
    when = [datetime.fromisoformat(days[run]).replace(tzinfo=timezone.utc).timestamp() for run in new]
    return History(
        name=name,
        ids=tuple(node_id for node_id, keep in zip(ids, long, strict=True) if keep),
        when=tuple(when),
        seconds=measured[long],
    )
