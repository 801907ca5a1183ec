from __future__ import annotations

from pathlib import Path

import pytest

from shardlib import cli
from shardlib.collecting.document import Collection
from shardlib.commands.plan import make_plan
from shardlib.model import CollectedTest, Mode
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings

RUN = PytestRun(version="9", python="3", rootdir="/r", inifile=None, cwd="/r", args=(), hash_seed="0")


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_a_shard_without_workers_is_refused_and_no_attempt_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    test = CollectedTest(id="a.py::test", file="a.py", mode=Mode.CONCURRENT, gpus=1)
    folder = RunFolder(tmp_path / "run")
    folder.write_plan(make_plan(Collection(pytest=RUN, settings=Settings(), tests=(test,)), shards=1))
    argv = ["run", "--run", str(folder.path), "--shard", "01", "--simulated-gpus", "--max-workers", workers]
    assert cli.main(argv) == 11
    assert f"--max-workers: '{workers}': expected a whole number, at least 1" in capsys.readouterr().err
    assert folder.shard("01").attempts() == []
