"""A plan that is larger than anything Argo could carry: it lies on the volume, and Argo passes twelve short items."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.projects import ProjectMaker
from tests.cluster.suites import suite

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]

LONG = """
import pytest

@pytest.mark.parametrize("case", range(100), ids=lambda case: f"{case:04} {{{{workflow.name}}}} $(HOME) " + "x" * 9970)
def test_long(case): assert len(test_long.__name__ + str(case)) > 0
"""


def test_five_thousand_tests_with_ids_of_ten_thousand_characters(cluster: Cluster, project: ProjectMaker) -> None:
    tests = {f"long_{number}": LONG for number in range(50)}
    made = project(
        "scale",
        suite(cluster.registry, "scale", **tests),
        shards=12,
        gpus=8,
        collect_memory="2Gi",
        gpu_memory="1Gi",
        run_args=["--simulated-gpus", "--max-workers", "2"],
    )
    run = made.opened(1)
    workflow = run.end("Succeeded", 1200)
    report = run.report()
    assert report["verdict"] == "green"
    assert sum(report["outcomes"].values()) == 5000 + 12
    assert len(workflow.shards()) == 12
