"""The samples folder: what is written is read back, and what was changed by hand is refused by place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.durations import MAX_SECONDS
from shardlib.errors import WeightsError
from shardlib.weights import samplefiles, samples
from shardlib.weights.samplefiles import Head
from shardlib.weights.samples import Run, Sample
from tests.weights import reading

texts = st.text(min_size=1, max_size=30)
maybe = st.none() | texts
seconds = st.floats(0, MAX_SECONDS).map(lambda value: round(value, 6))
rows = st.builds(
    Sample,
    id=texts,
    seconds=seconds,
    outcome=maybe,
    pod=maybe,
    worker=maybe,
    mode=maybe,
    flags=st.lists(st.sampled_from(samples.FLAGS), unique=True).map(tuple),
)
runs = st.builds(
    Run,
    run=texts,
    when=st.none() | st.floats(0, 4e9),
    kind=st.sampled_from(samples.KINDS),
    source=texts,
    samples=st.lists(rows, max_size=5).map(tuple),
)


@given(run=runs)
def test_a_run_is_read_as_it_was_written(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("samples")
    path = samplefiles.write(folder, run)
    rows = sorted(run.samples, key=lambda sample: (sample.pod or "", sample.worker or ""))
    assert reading.read(path) == replace(run, samples=tuple(rows))
    assert samplefiles.paths(folder) == [path]
    head = Head(run=run.run, when=run.when, kind=run.kind, source=run.source, rows=len(run.samples))
    assert samplefiles.read_head(path) == head


@given(one=texts, other=texts)
def test_two_runs_have_two_names(one: str, other: str) -> None:
    assert (samplefiles.file_name(one) == samplefiles.file_name(other)) == (one == other)
    assert "/" not in samplefiles.file_name(one)
    assert not samplefiles.file_name(one).startswith(".")


def test_the_same_run_again_replaces_its_file(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        samplefiles.write(tmp_path, a_run(Sample(id="a.py::t", seconds=value)))
    assert [run.samples[0].seconds for run in reading.read_all(tmp_path)] == [2.0]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (2, ["a.py::t", ""]),
        (2, ["a.py::t", None]),
        (2, ["a.py::t"]),
        (2, "a.py::t"),
        (3, [1.0, -1.0]),
        (3, [1.0, "1"]),
        (3, [1.0, 1e9]),
        (3, [1.0, True]),
        (3, [1.0, 10**400]),
        (4, [["passed", 1], [3, 1]]),
        (4, [["passed", 1]]),
        (4, [["passed", 3]]),
        (4, [["passed", 3], ["passed", -1]]),
        (4, [["passed", 2], ["failed", 0]]),
        (4, [["passed", 2.0]]),
        (4, [["passed", 2, 0]]),
        (4, {"passed": 2}),
        (5, [None, None]),
        (8, [[["fast"], 2]]),
        (8, [[["failed", "failed"], 2]]),
        (8, [[[["failed"]], 2]]),
        (8, [[None, 2]]),
    ],
    ids=str,
)
def test_a_changed_column_is_refused_by_its_line(tmp_path: Path, line: int, values: object) -> None:
    path = samplefiles.write(tmp_path, a_run(Sample(id="a.py::t", seconds=1.0), Sample(id="a.py::u", seconds=2.0)))
    lines = path.read_text("ascii").splitlines()
    (name,) = json.loads(lines[line - 1])
    lines[line - 1] = json.dumps({name: values})
    path.write_text("\n".join(lines) + "\n", "ascii")
    with pytest.raises(WeightsError, match=rf"{path.name}:{line}: {name}"):
        samplefiles.read_table(path)


@given(place=st.integers(0, 4), count=st.integers(1, 5))
def test_a_number_that_is_none_is_found_wherever_it_stands(
    place: int, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = samplefiles.write(
        tmp_path_factory.mktemp("samples"), a_run(*(Sample(id=f"a.py::t{n}", seconds=1.0) for n in range(count)))
    )
    lines = path.read_text("ascii").splitlines()
    values = ["1.0"] * count
    values[place % count] = "NaN"
    lines[2] = '{"seconds":[' + ",".join(values) + "]}"
    path.write_text("\n".join(lines), "ascii")
    with pytest.raises(WeightsError, match=f"{path.name}:3: .*NaN"):
        samplefiles.read_table(path)
    run = a_run(*(Sample(id="a.py::t", seconds=float(value)) for value in values))
    with pytest.raises(WeightsError, match=rf"{path.name}:3: seconds\[{place % count}\] is nan"):
        samplefiles.write(path.parent, run)


@pytest.mark.parametrize("line", ["", "{", "[]", '{"flags":[]}', '{"seconds":NaN}', '{"\u00e4":[]}'])
def test_a_line_that_is_no_column_is_refused(tmp_path: Path, line: str) -> None:
    path = samplefiles.write(tmp_path, a_run())
    path.write_text(path.read_text("ascii") + line + "\n", "utf-8")
    with pytest.raises(WeightsError, match=f"{path.name}:9: "):
        samplefiles.read_table(path)


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = samplefiles.write(tmp_path, a_run(Sample(id="a.py::t", seconds=1.0)))
    lines = path.read_text("ascii").splitlines(keepends=True)
    for kept in range(1, len(lines)):
        path.write_text("".join(lines[:kept]), "ascii")
        with pytest.raises(WeightsError, match=f"{path.name}: the column .* is missing"):
            samplefiles.read_table(path)


@pytest.mark.parametrize(
    "broken", [{"schema": "shardlib.samples/2"}, {"kind": "x"}, {"when": "now"}, {"run": ""}, {"rows": 1}, {"more": 1}]
)
def test_a_changed_head_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    path = samplefiles.write(tmp_path, a_run())
    head, *rest = path.read_text("ascii").splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(head), **broken}), *rest]), "ascii")
    with pytest.raises(WeightsError, match=next(iter(broken))):
        samplefiles.read_table(path)


def test_nothing_is_written_of_a_run_that_could_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="seconds"):
        samplefiles.write(tmp_path / "new", a_run(Sample(id="a.py::t", seconds=-1.0)))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="none: no such folder"):
        samplefiles.paths(tmp_path / "none")


def a_run(*rows: Sample) -> Run:
    return Run(run="r1", when=1.0, kind="events", source="here", samples=rows)
