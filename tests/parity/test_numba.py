"""The whole CUDA suite of the numba wheel, on its simulator: 1,500 tests written without a thought of us."""

from __future__ import annotations

from pathlib import Path

import pytest

from .checkout import Checkout, check_parity

numba = pytest.importorskip("numba", reason="the numba wheel is not installed here")


@pytest.mark.slow
def test_each_test_of_numba_ends_as_under_plain_pytest(tmp_path: Path) -> None:
    site = Path(numba.__file__).parents[1]
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "ascii")
    suite = Checkout(
        site, environment={"NUMBA_ENABLE_CUDASIM": "1"}, results=tmp_path, timeout_seconds=1200
    )
    arguments = ["-c", str(tmp_path / "pytest.ini"), f"--rootdir={site}", "-p", "no:cacheprovider", "numba/cuda/tests"]
    ran = check_parity(suite, *arguments, shards=2, gpus=2, workers=2)
    plan = ran.folder.read_plan()
    assert len(plan.shards) == 2
    assert len(ran.tests) == sum(len(group.tests) for group in plan.groups) > 1000
    assert {"passed", "failed", "error", "skipped", "xfailed"} >= {entry["outcome"] for entry in ran.entries}
    assert all(test.id.startswith(f"{group.file}::") for group in plan.groups for test in group.tests)
    assert all(group.file.startswith("numba/cuda/tests/") for group in plan.groups)
