"""What must end a run early: red, with the reason where a person looks, and before any GPU is held."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, Workflow
from tests.cluster.projects import ProjectMaker
from tests.cluster.registry import digest_of
from tests.cluster.suites import suite

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos


def assert_no_gpu_pod(workflow: Workflow) -> None:
    assert workflow.attempts("gpu-tests") == []
    assert workflow.attempts("cpu-tests") == []
    assert workflow.attempts("tag-image") == []


def test_a_failed_build_starts_no_gpu_pod(cluster: Cluster, project: ProjectMaker) -> None:
    files = suite(cluster.registry, "build-fails")
    files["Dockerfile"] += "RUN exit 75\n"  # infrastructure's code, which a Dockerfile can use as it likes
    run = project("build-fails", files, shards=2, gpus=2).opened(1)
    workflow = run.end("Failed")
    (build,) = workflow.attempts("build-image")
    assert (build.phase, build.exit_code) == ("Failed", 75)
    assert_no_gpu_pod(workflow)


@pytest.mark.parametrize(
    ("case", "change", "step", "code", "said"),
    [
        pytest.param(
            "no-tests",
            {"tests/conftest.py": "collect_ignore_glob = ['*']\n"},
            "collect-tests",
            13,
            "no tests",
            marks=chaos,
        ),
        pytest.param(
            "broken-test", {"tests/test_x.py": "import nowhere\n"}, "collect-tests", 13, "test_x.py", marks=chaos
        ),
        (
            "durations",
            {"durations.json": '{"tests/test_a.py::test_b": "NaN"}'},
            "calculate-shards",
            14,
            "durations.json",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(
    cluster: Cluster, project: ProjectMaker, case: str, change: dict[str, str], step: str, code: int, said: str
) -> None:
    files = {**suite(cluster.registry, case), "durations.json": "{}", **change}
    run = project(case, files, shards=2, gpus=2, durations="durations.json").opened(1)
    workflow = run.end("Failed")
    (refused,) = workflow.attempts(step)  # it is not retried: it would say the same
    assert (refused.phase, refused.exit_code) == ("Failed", code)
    assert said in run.log(refused)
    assert_no_gpu_pod(workflow)


def test_a_label_that_never_comes_closes_the_gate(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("no-label", suite(cluster.registry, "no-label"), shards=2, gpus=2, deadline_seconds=60)
    run = made.submit(1, made.head)
    workflow = run.end("Failed")
    gate = workflow.node("wait-for-label")
    assert gate.phase == "Failed"
    assert "deadline" in gate.message
    assert [node.template for node in workflow.nodes if node.body["type"] == "Pod"] == ["find-changed", "conclude"]
    assert workflow.attempts("conclude")[0].phase == "Succeeded"
    assert digest_of(cluster, "no-label-ci:main") is None


def test_without_gpu_code_the_run_is_green_and_cheap(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("no-gpu-code", suite(cluster.registry, "no-gpu-code"), shards=2, gpus=2, gpu_paths=["src/*"])
    run = made.submit(1, made.repository.push("docs", {"README.md": "words\n"}, base="main"))
    workflow = run.end("Succeeded")
    assert {node.template for node in workflow.nodes if node.body["type"] == "Pod"} == {"find-changed", "conclude"}
    assert "no GPU test is needed" in run.log(workflow.node("find-changed"))
