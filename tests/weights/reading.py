"""Samples read back with an object for each row, to look at; fits read columns."""

from __future__ import annotations

from pathlib import Path

from shardlib.weights import samplefiles
from shardlib.weights.samples import Run, Sample


def read(path: Path) -> Run:
    """One run, its samples in order of pod and worker."""
    head, table = samplefiles.read_table(path)
    texts = zip(table.outcome, table.pod, table.worker, table.mode, table.flags, strict=True)
    rows = tuple(
        Sample(id=node_id, seconds=seconds, outcome=outcome, pod=pod, worker=worker, mode=mode, flags=flags)
        for node_id, seconds, (outcome, pod, worker, mode, flags) in zip(table.id, table.seconds, texts, strict=True)
    )
    return Run(run=head.run, when=head.when, kind=head.kind, source=head.source, samples=rows)


def read_all(folder: Path) -> list[Run]:
    """The runs of a folder, by file name."""
    return [read(path) for path in samplefiles.paths(folder)]
