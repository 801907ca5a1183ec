"""The samples folder: what is written is read back, and what was changed by hand is refused by place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import WeightsError
from shardlib.weights import samples
from shardlib.weights.samples import Run, Sample

texts = st.text(min_size=1, max_size=30)
maybe = st.none() | texts
seconds = st.floats(0, samples.MAX_SECONDS).map(lambda value: round(value, 6))
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
    path = samples.write(folder, run)
    assert samples.read(path) == run
    assert samples.paths(folder) == [path]
    assert samples.read_head(path) == Run(run=run.run, when=run.when, kind=run.kind, source=run.source, samples=())


@given(one=texts, other=texts)
def test_two_runs_have_two_names(one: str, other: str) -> None:
    assert (samples.file_name(one) == samples.file_name(other)) == (one == other)
    assert "/" not in samples.file_name(one)
    assert not samples.file_name(one).startswith(".")


def test_the_same_run_again_replaces_its_file(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        samples.write(tmp_path, a_run(Sample(id="a.py::t", seconds=value)))
    assert [run.samples[0].seconds for run in samples.read_all(tmp_path)] == [2.0]


@pytest.mark.parametrize(
    "broken",
    [
        {"id": ""},
        {"id": None},
        {"seconds": -1.0},
        {"seconds": "1"},
        {"seconds": 1e9},
        {"seconds": True},
        {"outcome": 3},
        {"flags": ["fast"]},
        {"flags": ["failed", "failed"]},
        {"flags": [["failed"]]},
        {"flags": None},
    ],
    ids=str,
)
def test_a_changed_row_is_refused_by_its_line(tmp_path: Path, broken: dict[str, Any]) -> None:
    path = samples.write(tmp_path, a_run(Sample(id="a.py::t", seconds=1.0)))
    head, row = path.read_text("ascii").splitlines()
    path.write_text(f"{head}\n{json.dumps({**json.loads(row), **broken})}\n", "ascii")
    with pytest.raises(WeightsError, match=rf"{path.name}:2: .*{next(iter(broken)) if 'outcome' not in broken else 3}"):
        samples.read(path)


@pytest.mark.parametrize("line", ["", "{", "[]", '{"id":"a::b"}', "NaN", '{"seconds":NaN}'])
def test_a_line_that_is_no_row_is_refused(tmp_path: Path, line: str) -> None:
    path = samples.write(tmp_path, a_run())
    path.write_text(path.read_text("ascii") + line + "\n", "ascii")
    with pytest.raises(WeightsError, match=f"{path.name}:2: "):
        samples.read(path)


@pytest.mark.parametrize("broken", [{"schema": "shardlib.samples/2"}, {"kind": "x"}, {"when": "now"}, {"run": ""}])
def test_a_changed_head_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    path = samples.write(tmp_path, a_run())
    path.write_text(json.dumps({**json.loads(path.read_text("ascii")), **broken}) + "\n", "ascii")
    with pytest.raises(WeightsError, match=next(iter(broken))):
        samples.read(path)


def test_nothing_is_written_of_a_run_that_could_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="seconds"):
        samples.write(tmp_path / "new", a_run(Sample(id="a.py::t", seconds=-1.0)))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="none: no such folder"):
        samples.paths(tmp_path / "none")


def a_run(*rows: Sample) -> Run:
    return Run(run="r1", when=1.0, kind="events", source="here", samples=rows)
