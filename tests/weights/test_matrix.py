"""Runs become a matrix: in order of time, one cell a test, the most telling rows of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardlib.errors import WeightsError
from shardlib.weights import matrix as matrices
from shardlib.weights import samplefiles
from shardlib.weights.columns import to_table
from shardlib.weights.matrix import BIT, Matrix, load
from shardlib.weights.samplefiles import Head
from shardlib.weights.samples import Run, Sample


def run(name: str, *rows: Sample, when: float | None = None) -> Run:
    return Run(run=name, when=when, kind="events", source="test", samples=rows)


def build(runs: list[Run]) -> Matrix:
    heads = [Head(run=r.run, when=r.when, kind=r.kind, source=r.source, rows=len(r.samples)) for r in runs]
    return matrices.build((head, to_table(r.samples)) for head, r in zip(heads, runs, strict=True))


def row(node_id: str, seconds: float, *flags: str, pod: str | None = None, mode: str | None = None) -> Sample:
    return Sample(id=node_id, seconds=seconds, flags=flags, pod=pod, mode=mode)


def test_several_rows_of_a_run_are_the_mean_of_the_most_telling_ones() -> None:
    matrix = build(
        [run("r", row("a::t", 300, "timed_out"), row("a::t", 5), row("a::t", 7), row("a.py", 2), row("a.py", 4))]
    )
    assert matrix.ids == ("a.py", "a::t")
    assert matrix.seconds[:, 0].tolist() == [3.0, 6.0]
    assert matrix.flags[:, 0].tolist() == [0, 0]


def test_cell_has_the_flags_pod_and_mode_of_what_counts() -> None:
    matrix = build(
        [
            run("r", row("a::t", 5, "first", pod="01/0", mode="isolated"), row("b::t", 1, pod="02/0")),
            run("s", row("a::t", 6, pod="01/0")),
        ]
    )
    assert matrix.flags[0].tolist() == [BIT["first"], 0]
    assert [matrix.pods[pod] for pod in matrix.pod[0]] == ["01/0", "01/0"]
    assert matrix.pod_runs[matrix.pod[0]].tolist() == [0, 1]  # the same name in another run is another pod
    assert matrix.modes == ("isolated", None)
    assert np.isnan(matrix.seconds[1, 1])


def test_folder_is_read_in_order_of_time_with_unknown_times_first(tmp_path: Path) -> None:
    for name, when in (("z", 1.0), ("a", 2.0), ("m", None)):
        samplefiles.write(tmp_path, run(name, row("a::t", 1), when=when))
    assert [info.run for info in load(tmp_path).runs] == ["m", "z", "a"]


def test_empty_folder_and_runs_without_tests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="holds no runs"):
        load(tmp_path)
    samplefiles.write(tmp_path, run("r"))
    with pytest.raises(WeightsError, match="no test at all"):
        load(tmp_path)


def test_the_same_run_in_two_files_is_refused(tmp_path: Path) -> None:
    path = samplefiles.write(tmp_path, run("r", row("a::t", 1)))
    (tmp_path / "copy.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(WeightsError, match="both hold the run 'r'"):
        load(tmp_path)
