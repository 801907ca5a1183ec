"""The packing benchmark: every contender runs every test once, and suites are what they say."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as program
from benchmarks import packing, packing_peers, suites
from benchmarks.suites import Suite, filled, mixed, repeated
from shardlib.model import CollectedTest, Mode


def a_suite() -> Suite:
    """Forty files of three tests, some of zero seconds."""
    tests = [
        CollectedTest(id=f"f{n:02}::t{k}", file=f"f{n:02}", mode=Mode.CONCURRENT, gpus=1)
        for n in range(40)
        for k in range(3)
    ]
    return Suite(name="small", tests=tuple(tests), durations={test.id: n % 7 / 10 for n, test in enumerate(tests)})


@pytest.mark.parametrize("name", list(packing_peers.CONTENDERS))
def test_contender_runs_every_test_once(name: str) -> None:
    case = packing.a_case("mixed", mixed(a_suite(), 1), 100)
    lists = packing_peers.CONTENDERS[name](case)
    assert lists is not None
    assert len(lists) == packing_peers.SHARDS
    ids = [test.id for groups in lists for group in groups for test in group.tests]
    assert sorted(ids) == sorted(test.id for test in case.suite.tests)


def test_pytest_splits_chunks_crash_is_shown_as_a_crash() -> None:
    suite = a_suite()
    case = packing.a_case(
        "raw", Suite(name="zero", tests=suite.tests, durations=dict.fromkeys(suite.durations, 0.0)), 0
    )
    row = packing.measure(case)
    assert row.makespans_ms["split chunks"] is None
    assert "crashes" in "\n".join(packing.table([row]))


def test_the_picture_has_a_panel_for_each_contender_the_best_first_and_a_bar_for_each_shard() -> None:
    case = packing.a_case("mixed", mixed(a_suite(), 1), 100)
    row = packing.measure(case)
    drawn = packing.draw([(row, case)])
    root = ElementTree.fromstring(drawn)
    kinds = Counter(element.get("class") for element in root)
    assert kinds["told"] == len(row.makespans_ms)
    assert kinds["busy"] == kinds["idle"] == len(row.makespans_ms) * packing_peers.SHARDS
    told = [str(element.text) for element in root if element.get("class") == "told"]
    assert told[0].startswith("shardlib: ")
    above = [float(line.split(" paid, ")[1].split("%")[0]) for line in told]
    assert above == sorted(above)
    assert above[0] == round(100 * (row.gap("ours") or 0), 1)


def test_repeated_suite_has_suffixed_files_and_ids_and_setups() -> None:
    suite = a_suite()
    twice = repeated(Suite(name="s", tests=suite.tests[:1], durations={"f00::t0": 1.0, "f00": 2.0}), 2)
    assert [(test.id, test.file) for test in twice.tests] == [("f00~0::t0", "f00~0"), ("f00~1::t0", "f00~1")]
    assert twice.durations == {"f00~0::t0": 1.0, "f00~0": 2.0, "f00~1::t0": 1.0, "f00~1": 2.0}


def test_filled_suite_gives_each_slot_twice_the_longest_test_and_enough_files() -> None:
    suite = filled(a_suite(), slots=96, least_files=200)
    assert suite.slot_seconds / 96 >= 2 * suite.longest_seconds
    assert len({test.file for test in suite.tests}) >= 200


def test_mixed_suite_is_the_same_for_the_same_seed() -> None:
    assert mixed(a_suite(), 3) == mixed(a_suite(), 3)
    assert mixed(a_suite(), 3) != mixed(a_suite(), 4)


def test_missing_data_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHARDLIB_DATA", "/nowhere")
    assert packing.main(Namespace(startup_seconds=5.0, big=False, json=None)) == 1
    assert "SHARDLIB_DATA" in capsys.readouterr().out


def test_command_prints_a_table_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "durations").mkdir()
    (tmp_path / "durations" / "me__small.json").write_text(json.dumps(a_suite().durations))
    monkeypatch.setenv("SHARDLIB_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "packing", "--json", str(tmp_path / "out.json")])
    assert program.main() == 0
    assert "round-robin" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [row["variant"] for row in rows] == ["raw", "repeated", "mixed"]
    assert all(row["makespans_ms"]["ours"] >= row["lower_bound_ms"] for row in rows)


def test_data_folder_is_none_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHARDLIB_DATA", str(tmp_path))
    assert suites.data_folder() is None
