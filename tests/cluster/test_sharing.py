"""Two pull requests at once: the semaphore lets whole runs take turns on the GPUs."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, Workflow
from tests.cluster.projects import ProjectMaker
from tests.cluster.suites import suite
from tests.cluster.test_infrastructure import HOLDS, held_run

pytestmark = pytest.mark.cluster


def test_the_second_run_waits_until_the_first_has_left_the_gpus(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("sharing", suite(cluster.registry, "sharing", held=HOLDS), shards=2, gpus=2)
    first, _ = held_run(made)
    second = made.opened(2)

    def waits(workflow: Workflow) -> bool:
        return any("Waiting for" in node.message for node in workflow.nodes if node.template == "gpu-run")

    assert second.wait("waiting for the semaphore", waits).attempts("gpu-tests") == []

    def moves(workflow: Workflow) -> bool:  # what the UI shows of a shard that has not ended
        held = [node.body["progress"] for node in workflow.attempts("gpu-tests") if node.phase == "Running"]
        return any(not shown.startswith("0/") for shown in held)

    first.wait("showing the progress of its shard", moves)
    made.flag("go")
    one, two = first.end("Succeeded"), second.end("Succeeded")
    last = max(node.body["finishedAt"] for node in one.attempts("gpu-tests"))
    assert min(node.body["startedAt"] for node in two.attempts("gpu-tests")) >= last
    assert first.folder != second.folder
