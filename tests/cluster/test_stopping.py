"""`argo stop` and `argo terminate` only ever ask: whatever runs must end by itself, or its GPUs stay held."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, Run, Workflow, running
from tests.cluster.projects import Project, ProjectMaker
from tests.cluster.suites import suite
from tests.cluster.test_infrastructure import HELD, HOLDS, assert_nothing_lost_or_repeated, held_run

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos

COLLECTS_FOR_EVER = "from control import wait_for\nwait_for('never')\n"
BUILDS_FOR_EVER = "RUN while true; do sleep 1; done\n"


def in_gate(made: Project) -> Run:
    run = made.submit(1, made.head)
    run.suspended()
    return run


def in_build(made: Project) -> Run:
    run = made.opened(1)
    run.wait("building", running("build-image"))
    return run


def in_collect(made: Project) -> Run:
    run = made.opened(1)
    run.wait("collecting", running("collect-tests"))
    return run


def in_tests(made: Project) -> Run:
    return held_run(made)[0]


PHASES = {"gate": in_gate, "build": in_build, "collect": in_collect, "tests": in_tests}


@pytest.mark.parametrize(
    ("how", "phase"),
    [
        ("stop", "tests"),
        *(pytest.param("stop", phase, marks=chaos) for phase in ("gate", "build", "collect")),
        *(pytest.param("terminate", phase, marks=chaos) for phase in PHASES),
    ],
)
def test_no_pod_outlives(cluster: Cluster, project: ProjectMaker, how: str, phase: str) -> None:
    name = f"{how}-{phase}"
    files = suite(cluster.registry, name, held=HOLDS if phase == "tests" else COLLECTS_FOR_EVER)
    files["Dockerfile"] += BUILDS_FOR_EVER if phase == "build" else ""
    made = project(name, files, shards=2, gpus=2)
    run = PHASES[phase](made)
    cluster.argo(how, run.name)
    workflow = run.end("Failed")
    workflow = run.wait("without pods", lambda _: run.living_pods() == [])
    ran = {node.template for node in workflow.nodes if node.body["type"] == "Pod"}
    assert ("conclude" in ran) == (how == "stop")
    assert "tag-image" not in ran
    if phase == "tests":
        assert_stopped_in_order(run, workflow, made)


def assert_stopped_in_order(run: Run, workflow: Workflow, made: Project) -> None:
    """The shard said that it was stopped; what had passed counts, and a retry finishes only what is open."""
    (stopped,) = (path for path in run.folder.glob("shards/*/attempts/0.done") if "stopped" in path.read_text())
    assert stopped.parent.parent.name in workflow.shards()
    made.flag("go")
    run.retry()
    run.end("Succeeded")
    assert_nothing_lost_or_repeated(run, twice={HELD})
