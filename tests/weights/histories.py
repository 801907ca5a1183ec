"""Matrices, proposals and strategies for the tests of fit, review and accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shardlib.weights.matrix import BIT, Matrix, RunInfo
from shardlib.weights.rows import Floats

DAY = 86_400.0
START = 1_750_000_000.0


def matrix_of(
    rows: Mapping[str, Sequence[float | None]],
    *,
    flags: dict[tuple[str, int], str] | None = None,
    modes: dict[str, str] | None = None,
    pods: Sequence[Sequence[int]] | None = None,
    kind: str = "events",
) -> Matrix:
    """Seconds by id and run (None: did not run); flags by id and run; each test's pod in each run, of pods 0 to 99."""
    ids = sorted(rows)
    seconds: Floats = np.array([[np.nan if v is None else v for v in rows[i]] for i in ids], dtype=float)
    runs = seconds.shape[1]
    bits = np.zeros(seconds.shape, dtype=np.int16)
    for (node_id, run), flag in (flags or {}).items():
        bits[ids.index(node_id), run] |= BIT[flag]
    number = np.arange(runs) * 100 + (np.array(pods) if pods is not None else np.zeros(seconds.shape, dtype=int))
    return Matrix(
        ids=tuple(ids),
        runs=tuple(RunInfo(run=f"run-{run}", when=START + run * DAY, kind=kind) for run in range(runs)),
        seconds=seconds,
        flags=bits,
        pod=number,
        pods=tuple(f"pod-{pod % 100}" for pod in range(runs * 100)),
        pod_runs=np.repeat(np.arange(runs), 100),
        modes=tuple((modes or {}).get(node_id) for node_id in ids),
    )
