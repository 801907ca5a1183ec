"""The whole CUDA suite of the numba wheel, on its simulator: 1,500 tests written without a thought of us."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlib.model import Mode

from .checkout import Checkout

numba = pytest.importorskip("numba", reason="the numba wheel is not installed here")


# Several simulated threads print at once, and now and then their lines mix: under plain pytest as well.
RACY = {f"numba/cuda/tests/cudapy/test_print.py::TestPrint::{name}" for name in ("test_cuhello", "test_string")}


@pytest.mark.slow
def test_each_test_of_numba_ends_as_under_plain_pytest(tmp_path: Path) -> None:
    site = Path(numba.__file__).parents[1]
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "ascii")
    suite = Checkout(site, environment={"NUMBA_ENABLE_CUDASIM": "1"}, results=tmp_path, timeout_seconds=1200)
    arguments = ["-c", str(tmp_path / "pytest.ini"), f"--rootdir={site}", "-p", "no:cacheprovider", "numba/cuda/tests"]
    plain = suite.plain(*arguments)
    ran = suite.sharded(*arguments, shards=2, gpus=2, workers=2)
    assert ran.tests.keys() == plain.keys()
    assert {i: o for i, o in ran.outcomes.items() if i not in RACY} == {i: o for i, o in plain.items() if i not in RACY}
    assert {entry["outcome"] for entry in ran.entries if entry["id"] in RACY} <= {"passed", "failed"}
    bad = {node_id for node_id, (outcome, _) in ran.outcomes.items() if outcome in ("failed", "error")}
    assert len(bad - RACY) == 10  # helpers that are collected for their names: "fixture 'r' not found"
    assert ran.code == 1
    assert all(f"{node_id} " in ran.output for node_id in bad)

    plan = ran.folder.read_plan()
    assert sum(len(group.tests) for group in plan.groups) == len(plain) > 1000
    position = {node_id: index for index, node_id in enumerate(plain)}
    for group in plan.groups:  # pytest's order, in files that keep together
        places = [position[test.id] for test in group.tests]
        assert places == sorted(places)
        assert {test.id.partition("::")[0] for test in group.tests} == {group.file}
        assert (group.mode, group.gpus) == (Mode.CONCURRENT, 1)
