from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import evidence
from shardlib.reports import measure
from shardlib.reports.summary import MAX_SUMMARY_BYTES, summary
from shardlib.reports.text import SHOWN_REASONS, verdict_lines
from shardlib.runfolder import RunFolder
from shardlib.verdict import judge
from tests.runs import make_plan, write_run


def texts(folder: RunFolder) -> tuple[str, list[str]]:
    plan = folder.read_plan()
    measures = measure.read(folder, plan)
    verdict = judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))
    return summary(plan, verdict, measures), list(verdict_lines(plan, verdict, measures))


def test_the_verdict_comes_first_and_then_the_failures(tmp_path: Path) -> None:
    page, lines = texts(write_run(tmp_path, make_plan(), two="timed_out"))
    assert page.startswith("## ❌ RED")
    assert lines[0].startswith("RED: 2 reasons; 4 tests in 2 shards (3 passed, 1 timed out)")
    assert lines[1].startswith("  a.py::two [shard 01, g00001] timed out")


def test_a_green_run_says_what_was_proved_and_how_long_it_took(tmp_path: Path) -> None:
    page, lines = texts(write_run(tmp_path, make_plan()))
    assert lines[0] == "GREEN: 4 tests in 2 shards, each counted exactly once (4 passed)"
    assert "| 01 | 4.0 | 10.0 | 74 | 1 |" in page
    assert any(line.startswith("makespan: predicted 4.0 s, actual 10.0 s (+150 %); worker start 2.2") for line in lines)


@pytest.mark.parametrize("price", [None, 2.5])
def test_a_price_is_shown_where_one_is_set(tmp_path: Path, price: float | None) -> None:
    _, lines = texts(write_run(tmp_path, make_plan(gpu_hour_price=price)))
    assert ("cost predicted" in lines[-1]) is (price is not None)


def test_ten_thousand_failures_fit_a_check_and_a_terminal(tmp_path: Path) -> None:
    plan = make_plan({"01": {"a.py": [f"a.py::{'[`' * 200}{index}" for index in range(10_000)]}})
    folder = RunFolder(tmp_path)
    folder.write_plan(plan)
    page, lines = texts(folder)
    assert len(page.encode()) <= MAX_SUMMARY_BYTES
    assert page.startswith("## ❌ RED: 10001 reasons")
    assert page.count("(shard 01, g00001)") >= 10
    assert len(lines) < SHOWN_REASONS + 20


@given(st.text(st.characters(), min_size=1))
def test_no_id_begins_or_breaks_a_line(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    plan = make_plan({"01": {"a.py": [name]}})
    page, lines = texts(write_run(tmp_path_factory.mktemp("run"), plan, **{name.rpartition("::")[2]: "failed"}))
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("::") for line in lines)
    assert all(line.isprintable() for line in page.splitlines())
