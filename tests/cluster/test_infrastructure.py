"""What a cluster does to pods in their middle: no test is lost, none that passed runs again, and the verdict is right."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from kubernetes import client

from tests.cluster.cluster import Cluster, Run, Workflow, running
from tests.cluster.projects import Project, ProjectMaker
from tests.cluster.suites import suite

pytestmark = pytest.mark.cluster

HOLDS = """
from control import wait_for

def test_first(): pass
def test_holds(): wait_for("go")
def test_last(): pass
"""
HELD = "tests/test_held.py::test_holds"
TESTBED = Path(__file__).parent / "testbed"
chaos = pytest.mark.chaos


def delete(cluster: Cluster, pod: str) -> None:
    cluster.core.delete_namespaced_pod(pod, cluster.namespace)


def delete_at_once(cluster: Cluster, pod: str) -> None:
    """As after the loss of a node: nobody gets a SIGTERM in time."""
    cluster.core.delete_namespaced_pod(pod, cluster.namespace, grace_period_seconds=0)


def evict(cluster: Cluster, pod: str) -> None:
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=cluster.namespace))
    cluster.core.create_namespaced_pod_eviction(pod, cluster.namespace, eviction)


@pytest.mark.parametrize(
    "remove",
    [delete, pytest.param(delete_at_once, marks=chaos), pytest.param(evict, marks=chaos)],
)
def test_a_removed_pod_is_replaced_and_goes_on(
    cluster: Cluster, project: ProjectMaker, remove: Callable[[Cluster, str], None]
) -> None:
    name = remove.__name__.replace("_", "-")
    made = project(name, suite(cluster.registry, name, held=HOLDS), shards=2, gpus=2)
    run, held = held_run(made)
    (attempt,) = run.now().shards()[held]
    remove(cluster, run.pod_name(attempt))
    # Of a pod that was gone at once Argo makes another attempt, or another pod for the same one: if it had passed on that
    # pod's progress, the attempt is not over for it. Either way the shard starts anew.
    run.wait("started anew", lambda _: run.events("start", held).count(HELD) == 2)
    made.flag("go")
    workflow = run.end("Succeeded")
    assert [len(attempts) for shard, attempts in workflow.shards().items() if shard != held] == [1]
    assert_nothing_lost_or_repeated(run, twice={HELD})


@chaos
def test_a_build_whose_pod_is_lost_is_made_again(cluster: Cluster, project: ProjectMaker) -> None:
    files = suite(cluster.registry, "lost-build")
    files["Dockerfile"] += "RUN sleep 20\n"
    run = project("lost-build", files, shards=2, gpus=2).opened(1)
    (attempt,) = run.wait("building", running("build-image")).attempts("build-image")
    delete_at_once(cluster, run.pod_name(attempt))
    run.end("Succeeded")
    assert_nothing_lost_or_repeated(run)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("daemon", "down"), [("workflow-controller", "5"), ("apiserver", "15")], ids=["controller", "api-server"]
)
def test_the_run_survives_the_restart_of(cluster: Cluster, project: ProjectMaker, daemon: str, down: str) -> None:
    name = f"restart-{daemon.removeprefix('workflow-')}"
    made = project(name, suite(cluster.registry, name, held=HOLDS), shards=2, gpus=2)
    run, _ = held_run(made)
    subprocess.run([str(TESTBED / "restart"), daemon, down], check=True, env={**os.environ})
    made.flag("go")
    workflow = run.end("Succeeded")
    # An API server that has just come back refuses what it has no roles for yet; Argo's executor takes that for final, and
    # the shard's pod for failed. Another finds that all is done.
    assert all(len(attempts) <= 2 for attempts in workflow.shards().values())
    assert_nothing_lost_or_repeated(run)


OUT_OF_MEMORY = {
    "memory": """
def test_first(): pass
def test_takes_all(): bytearray(2 << 30)
def test_last(): pass
""",
    "shm": """
import pathlib

def test_first(): pass

def test_takes_all():
    with pathlib.Path("/dev/shm/full").open("wb") as stream:  # it counts against the container's memory
        for _ in range(400):
            stream.write(bytes(1 << 20))
    bytearray(500 << 20)

def test_last(): pathlib.Path("/dev/shm/full").unlink()
""",
}


@pytest.mark.parametrize("where", ["memory", pytest.param("shm", marks=chaos)])
def test_out_of_memory_is_the_tests_own_fault(cluster: Cluster, project: ProjectMaker, where: str) -> None:
    name = f"oom-{where}"
    made = project(name, suite(cluster.registry, name, taker=OUT_OF_MEMORY[where]), shards=2, gpus=2, shm="450Mi")
    run = made.opened(1)
    workflow = run.end("Failed")
    report = run.report()
    assert report["verdict"] == "red"
    assert {shard: len(attempts) for shard, attempts in workflow.shards().items()} == {"01": 1, "02": 1}
    verdict = workflow.node("gpu-tests-passed").output("summary")
    assert "tests/test_taker.py::test_takes_all" in verdict
    assert_nothing_lost_or_repeated(run, red=True)


@chaos
def test_a_killed_runner_is_red_and_a_retry_finishes_what_is_open(cluster: Cluster, project: ProjectMaker) -> None:
    kills = """
import os, signal, time
from control import there

def test_first(): pass
def test_kills_the_runner():
    if not there("mended"):
        time.sleep(2)  # the runner notes how the first one ended: what it has not noted runs again
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
def test_last(): pass
"""
    made = project("killed", suite(cluster.registry, "killed", killer=kills), shards=2, gpus=2)
    run = made.opened(1)
    workflow = run.end("Failed")
    (attempt,) = (one for (one,) in workflow.shards().values() if one.phase == "Failed")
    assert attempt.exit_code == 137
    assert run.report()["verdict"] == "red"
    made.flag("mended")
    run.retry()
    run.end("Succeeded")
    assert_nothing_lost_or_repeated(run, twice={"tests/test_killer.py::test_kills_the_runner"})


def held_run(made: Project) -> tuple[Run, str]:
    """A run one of whose shards is in the middle of `test_holds`, and that shard; the others have ended."""
    run = made.opened(1)

    def in_the_middle(workflow: Workflow) -> bool:
        # Running in Argo's eyes, too: a pod that is gone while its node is Pending is made once more under the same name.
        phases = sorted(attempts[-1].phase for attempts in workflow.shards().values())
        return phases == ["Running", *["Succeeded"] * (len(phases) - 1)] and HELD in run.events("start")

    workflow = run.wait("in the middle of its tests", in_the_middle)
    (held,) = (shard for shard, attempts in workflow.shards().items() if attempts[-1].phase != "Succeeded")
    return run, held


def assert_nothing_lost_or_repeated(run: Run, *, twice: Iterable[str] = (), red: bool = False) -> None:
    """Every planned test counts once, and only `twice` was started again."""
    report = run.report()
    assert report["verdict"] == ("red" if red else "green")
    starts = Counter(run.events("start"))
    assert sum(report["outcomes"].values()) == len(starts)
    assert {node_id for node_id, count in starts.items() if count > 1} <= set(twice)
    assert not {"not_run", "missing"} & report["outcomes"].keys()
