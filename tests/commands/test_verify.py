from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from shardlib import child
from shardlib.cli import main
from shardlib.errors import Exit, PlanError, RunFolderError
from shardlib.plan import Plan
from tests.runs import make_plan, write_run

REPORTS = {"junit.xml", "report.html", "summary.md", "run.json", "durations.json"}


def test_a_green_run_exits_0_and_leaves_its_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, make_plan())
    assert main(["verify", "--run", str(tmp_path)]) == Exit.GREEN
    assert capsys.readouterr().out.startswith("GREEN: 4 tests in 2 shards")
    assert {path.name for path in (tmp_path / "report").iterdir()} == REPORTS
    document = json.loads((tmp_path / "report" / "run.json").read_text())
    assert (document["verdict"], document["reasons"], document["outcomes"]) == ("green", [], {"passed": 4})
    # the median of a worker with session fixtures in two groups and one with them in one: 2.25 and 2.125 s
    assert (document["makespan_seconds"], document["worker_start_seconds"]) == (10.0, 2.188)


def test_a_red_run_exits_1_and_says_why_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, make_plan(), two="crashed")
    assert main(["verify", "--run", str(tmp_path)]) == Exit.RED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("RED: 2 reasons")
    assert "a.py::two" in lines[1]
    document = json.loads((tmp_path / "report" / "run.json").read_text())
    assert [reason["id"] for reason in document["reasons"]] == ["a.py::two", None]
    assert [test["id"] for test in document["crashed"]] == ["a.py::two"]


def test_an_event_log_that_cannot_be_read_is_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, make_plan())
    (tmp_path / "shards/02/events/0.jsonl").write_text("garbage\n")
    assert main(["verify", "--run", str(tmp_path)]) == Exit.RED
    assert "0.jsonl:1: not a JSON record" in capsys.readouterr().out


def test_verifying_again_gives_the_same_reports(tmp_path: Path) -> None:
    write_run(tmp_path, make_plan())
    main(["verify", "--run", str(tmp_path)])
    first = {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()}
    main(["verify", "--run", str(tmp_path)])
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()}


def test_the_merged_xml_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    write_run(tmp_path / "run", make_plan())
    main(["verify", "--run", str(tmp_path / "run"), "--junit", str(tmp_path / "new" / "merged.xml")])
    assert (tmp_path / "new" / "merged.xml").read_bytes() == (tmp_path / "run/report/junit.xml").read_bytes()


def test_without_a_plan_nothing_is_proved_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--run", str(tmp_path)]) == RunFolderError.exit_code
    assert "shardlib plan" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_was_tampered_with_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan: Plan = make_plan()
    write_run(tmp_path, plan)
    path = tmp_path / "plan" / "plan.json"
    path.write_text(path.read_text().replace("a.py::two", "a.py::one2"))
    assert main(["verify", "--run", str(tmp_path)]) == PlanError.exit_code
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("name", ["é", "日本", "\ud800", "\x1b[2J", "\n::error::x"])
def test_any_id_can_be_printed_in_any_locale(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, make_plan({"01": {"a.py": [f"a.py::{name}"]}}), **{name.rpartition("::")[2]: "failed"})
    command = child.command("shardlib.cli:main", "verify", "--run", str(tmp_path))
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (Exit.RED, b"")
    assert b"\n::" not in done.stdout
    assert b"\x1b" not in done.stdout
