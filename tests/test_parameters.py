from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import cli
from shardlib.errors import RunFolderError
from shardlib.parameters import MAX_CHARACTERS, harmless, shard_headline, write_in_place, write_parameters
from tests.runs import make_plan, write_run

OK = ["passed", "skipped"]


@given(st.text())
def test_argo_finds_no_template_in_a_harmless_text(text: str) -> None:
    told = harmless(f"{text}{{{{workflow.name}}}}{text}")
    assert "{{" not in told
    assert "}}" not in told
    assert told.isprintable()


def test_a_long_text_is_cut() -> None:
    assert len(harmless("x" * 100_000)) <= MAX_CHARACTERS + 10


def test_what_did_not_pass_comes_first_and_by_name() -> None:
    outcomes = [("a.py::ok", "passed"), ("a.py::x", "failed"), ("b.py::y", "timed_out"), ("b.py::z", "failed")]
    assert shard_headline("03", outcomes, ok=OK) == "shard 03: 2 failed, 1 timed out: a.py::x, b.py::y, b.py::z"
    assert shard_headline("03", outcomes[:1], ok=OK, end="stopped") == "shard 03 stopped: 1 passed"
    many = [(f"t{number}", "failed") for number in range(9)]
    assert shard_headline("03", many, ok=OK).endswith("t4, and 4 more")


def test_a_value_replaces_the_one_before(tmp_path: Path) -> None:
    write_parameters(tmp_path / "new", {"a": "1", "b": "{{x}}"})
    write_parameters(tmp_path / "new", {"a": "2"})
    assert {path.name: path.read_text() for path in (tmp_path / "new").iterdir()} == {"a": "2", "b": "((x))"}


def test_a_value_is_written_into_a_file_that_is_there_and_not_over_it(tmp_path: Path) -> None:
    mounted = tmp_path / "outputs" / "summary"
    write_in_place(mounted, "first, and longer")
    there = mounted.stat().st_ino
    write_in_place(mounted, "{{x}}")
    assert (mounted.read_text(), mounted.stat().st_ino) == ("((x))", there)
    with pytest.raises(RunFolderError, match="outputs: Is a directory"):
        write_in_place(mounted.parent, "x")


def test_verify_and_conclude_say_in_one_line_which_shards_are_red(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", make_plan(), two="failed")
    summary = tmp_path / "out" / "summary"
    assert cli.main(["verify", "--run", str(tmp_path / "run"), "--summary-file", str(summary)]) == 1
    line = summary.read_text()
    assert line.startswith("RED: ")
    assert "red shards: 01 (2); first: " in line
    assert "\n" not in line
    assert cli.main(["conclude", "--run", str(tmp_path / "run"), "--status", "Failed"]) == 0
    assert f"the workflow ended as Failed; {line}" in capsys.readouterr().out
    assert '"status": "Failed"' in (tmp_path / "run" / "report" / "end.json").read_text()


def test_the_end_before_there_was_a_plan_is_told_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["conclude", "--run", str(tmp_path / "run"), "--status", "Failed"]) == 0
    assert "no verdict" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    summary = tmp_path / "summary"
    assert cli.main(["verify", "--run", str(tmp_path / "run"), "--summary-file", str(summary)]) == 16
    assert summary.read_text().startswith("no verdict: ")
