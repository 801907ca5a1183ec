from __future__ import annotations

from pathlib import Path

import pytest

from shardlib import safefiles
from shardlib.errors import PlanError, RunFolderError
from shardlib.runfolder import RunFolder
from tests.runs import attempt_body, make_plan

OTHER = {"01": {"z.py": ["z.py::other"]}}


def test_the_same_plan_twice_is_success_and_another_replaces_it_before_the_first_attempt(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "not" / "there" / "yet")
    folder.write_plan(make_plan())
    folder.write_plan(make_plan())
    assert folder.read_plan() == make_plan()
    folder.write_plan(make_plan(OTHER))
    assert folder.read_plan() == make_plan(OTHER)


def test_another_plan_is_refused_once_a_shard_has_started(tmp_path: Path) -> None:
    folder, plan = RunFolder(tmp_path), make_plan()
    folder.write_plan(plan)
    assert not folder.has_attempts()
    folder.shard("02").start_attempt(attempt_body(plan, "02"))
    assert folder.has_attempts()
    folder.write_plan(plan)
    with pytest.raises(RunFolderError, match="another plan"):
        folder.write_plan(make_plan(OTHER))
    assert folder.read_plan() == plan


def test_for_another_image_everything_begins_anew_and_nothing_is_thrown_away(tmp_path: Path) -> None:
    folder, plan = RunFolder(tmp_path / "run"), make_plan()
    assert folder.begin("ci@sha256:1") is None
    folder.write_plan(plan)
    folder.shard("02").start_attempt(attempt_body(plan, "02"))
    folder.write_report("run.json", "{}")
    (folder.path / "collect").mkdir()
    assert folder.begin("ci@sha256:1") is None
    assert folder.has_attempts()
    assert folder.begin("ci@sha256:2") == folder.path / "earlier" / "1"
    assert safefiles.names(folder.path, ()) == ["collect", "earlier", "plan"]
    assert RunFolder(folder.path / "earlier" / "1").read_plan() == plan
    folder.write_plan(make_plan(OTHER))
    assert not folder.has_attempts()
    assert folder.begin("ci@sha256:1") == folder.path / "earlier" / "2"


def test_what_an_image_left_is_put_aside_also_if_that_was_broken_off(tmp_path: Path) -> None:
    folder, plan = RunFolder(tmp_path), make_plan()
    folder.begin("ci@sha256:1")
    folder.write_plan(plan)
    folder.shard("02").start_attempt(attempt_body(plan, "02"))
    safefiles.move(tmp_path, ("shards",), ("earlier", "1", "shards"))
    assert folder.begin("ci@sha256:2") == tmp_path / "earlier" / "2"
    assert safefiles.names(tmp_path, ("earlier", "2")) == ["plan"]


def test_a_link_in_the_place_of_the_shards_is_moved_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "01").mkdir(parents=True)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "shards").symlink_to(tmp_path / "elsewhere")
    folder.begin("ci@sha256:1")
    assert (folder.path / "earlier" / "1" / "shards").is_symlink()
    assert (tmp_path / "elsewhere" / "01").is_dir()


def test_a_broken_plan_counts_as_another_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_plan(make_plan())
    (tmp_path / "plan" / "plan.json").write_bytes(b"\xff")
    with pytest.raises(PlanError, match="not ASCII"):
        folder.read_plan()
    folder.write_plan(make_plan())
    assert folder.read_plan() == make_plan()


def test_no_plan_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="shardlib plan"):
        RunFolder(tmp_path).read_plan()


def test_the_runs_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    folder, plan = RunFolder(tmp_path / "run"), make_plan()
    folder.write_plan(plan)
    folder.shard("01").start_attempt(attempt_body(plan, "01"))
    assert folder.read_plan() == plan
    assert folder.shard("01").read_attempt(0)["digest"] == plan.digest


@pytest.mark.parametrize("name", ["../x", "1", "01 ", "CPU", "", "01/../02"])
def test_a_shard_of_another_shape_of_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunFolderError, match="does not belong here"):
        RunFolder(tmp_path).shard(name)


def test_reports_are_replaced_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_report("summary.md", "old, and longer")
    assert folder.write_report("summary.md", "new") == folder.report_path("summary.md")
    assert folder.report_path("summary.md").read_text() == "new"
    with pytest.raises(RunFolderError, match="does not belong here"):
        folder.write_report("../plan/plan.json", "x")
