from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.collecting.document import Collection, load, loads, write
from shardlib.errors import CollectError, PlanError
from shardlib.model import CollectedTest, Mode
from shardlib.pytestrun import PytestRun
from shardlib.settings import Settings

RUN = PytestRun(version="9", python="3", rootdir="/r", inifile="/r/x", cwd="/r", args=("a",), hash_seed="0")
TESTS = (
    CollectedTest(id="a.py::x", file="a.py", mode=Mode.CONCURRENT, gpus=1, why="default_mode"),
    CollectedTest(id="a.py::y[1]", file="a.py", mode=Mode.CPU, gpus=0, timeout_seconds=3.0, params=(("n", "1"),)),
)
COLLECTION = Collection(pytest=RUN, settings=Settings(), tests=TESTS, notes=("a note",))
MODE_GPUS = st.sampled_from([(Mode.CPU, 0), (Mode.CONCURRENT, 2), (Mode.ISOLATED, 8)])
TEXTS = st.text(st.characters(codec=None), min_size=1)


@given(st.lists(st.tuples(TEXTS, TEXTS, MODE_GPUS), min_size=1, unique_by=lambda test: test[0]))
def test_any_collection_is_read_back_as_it_was(rows: list[tuple[str, str, tuple[Mode, int]]]) -> None:
    tests = tuple(CollectedTest(id=i, file=f, mode=mode, gpus=gpus, why=f[:9]) for i, f, (mode, gpus) in rows)
    collection = Collection(pytest=RUN, settings=Settings(), tests=tests)
    assert collection.dumps().isascii()
    assert loads(collection.dumps(), "c") == collection


def test_it_is_written_whole_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "collect.json"
    path.write_text("older")
    write(COLLECTION, path)
    assert load(path) == COLLECTION
    assert [entry.name for entry in tmp_path.iterdir()] == ["collect.json"]


def test_what_cannot_be_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CollectError, match=r"file/collect\.json: cannot be written"):
        write(COLLECTION, tmp_path / "file" / "collect.json")


def document(**changes: Any) -> dict[str, Any]:
    return {**json.loads(COLLECTION.dumps()), **changes}


TEST: dict[str, Any] = {"id": "a", "file": "a.py", "mode": "concurrent", "gpus": 1}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schema": "shardlib.collect/2"}, "another version; collect again"),
        ({"schema": None}, "schema"),
        ({"extra": 1}, "'extra'"),
        ({"tests": []}, "no tests"),
        ({"tests": {}}, "tests"),
        ({"tests": [TEST, TEST]}, "'a' is there twice"),
        ({"tests": [TEST] * 3}, "a list of <= 2"),
        ({"tests": [None]}, r"tests\[0\]"),
        ({"tests": [{**TEST, "mode": "isolatd"}]}, "isolatd"),
        ({"tests": [{**TEST, "mode": ["cpu"]}]}, "mode"),
        ({"tests": [{**TEST, "gpus": 9}]}, r"tests\[0\]: 'gpus' is 9"),
        ({"tests": [{**TEST, "gpus": True}]}, "gpus"),
        ({"tests": [{**TEST, "mode": "cpu"}]}, "from 0 to 0"),
        ({"tests": [{**TEST, "gpus": 0}]}, "from 1 to 8"),
        ({"tests": [{**TEST, "id": ""}]}, "id"),
        ({"tests": [{**TEST, "id": 3}]}, "id"),
        ({"tests": [{**TEST, "id": "x" * 2_000_000}]}, "1048576 characters"),
        ({"tests": [{**TEST, "timeout_seconds": -1}]}, "timeout_seconds"),
        ({"tests": [{**TEST, "params": {"a": 1}}]}, "params"),
        ({"tests": [{**TEST, "unheard": 1}]}, "unheard"),
        ({"tests": [{key: TEST[key] for key in ("id", "file", "mode")}]}, "'gpus' is missing"),
        ({"pytest": {}}, "version"),
        ({"pytest": None}, "pytest"),
        ({"settings": {}}, "settings"),
        ({"settings": {**Settings().to_json(), "flaky": "blue"}}, "flaky"),
        ({"notes": [1]}, "notes"),
    ],
)
def test_what_a_pull_request_may_have_written_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        loads(json.dumps(document(**changes)), "c", max_tests=2)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": NaN}', "[" * 100_000])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="c"):
        loads(text, "c")


def test_a_file_is_refused_that_is_missing_a_link_a_fifo_too_large_or_not_ascii(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    write(COLLECTION, good)
    (tmp_path / "link.json").symlink_to(good)
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "bytes.json").write_bytes(b"\xff{}")
    for name in ("missing", "link", "fifo", "folder", "bytes"):
        with pytest.raises(PlanError, match=rf"{name}\.json"):
            load(tmp_path / f"{name}.json")
    with pytest.raises(PlanError, match="limit 10"):
        load(good, max_bytes=10)
