"""`argo retry`, the button of the UI: it repeats what failed, and inside of that only the tests that did not pass."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.cluster import Cluster, Workflow
from tests.cluster.projects import ProjectMaker
from tests.cluster.registry import digest_of
from tests.cluster.suites import suite

pytestmark = pytest.mark.cluster

FAILS = """
from control import there

def test_before(): pass
def test_fails_until_mended(): assert there("mended")
def test_after(): pass
"""
RED = "tests/test_red.py::test_fails_until_mended"


def test_retry_repeats_what_failed_and_keeps_gate_image_plan_and_green_shards(
    cluster: Cluster, project: ProjectMaker
) -> None:
    made = project("retry", suite(cluster.registry, "retry", red=FAILS), shards=3, gpus=2)
    tagged = digest_of(cluster, "retry:main")
    run = made.opened(1)
    before = run.end("Failed")
    assert run.report()["verdict"] == "red"
    (red,) = (shard for shard, (attempt,) in before.shards().items() if attempt.phase == "Failed")
    (attempt,) = before.shards()[red]
    assert (attempt.exit_code, attempt.output("summary")) == (1, f"shard {red}: 1 failed: {RED}")
    shown = [node.name for node in before.nodes if node.template == "gpu-tests" and node.body["type"] == "Retry"]
    assert [name[: len("shard-01-of-03-")] for name in sorted(shown)] == [f"shard-0{n}-of-03-" for n in (1, 2, 3)]
    verdict = before.node("gpu-tests-passed")
    assert verdict.phase == "Failed"
    assert f"red shards: {red}" in verdict.output("summary")
    assert digest_of(cluster, "retry:main") == tagged

    made.flag("mended")
    run.retry()
    after = run.end("Succeeded")
    assert (after.uid, after.node("build-image").output("digest")) == (
        before.uid,
        before.node("build-image").output("digest"),
    )
    kept = pods(before) & pods(after)
    assert {template for _, _, template in pods(after) - kept} == {
        "gpu-tests",
        "gpu-tests-passed",
        "tag-image",
        "conclude",
    }
    assert [template for _, _, template in kept].count("gpu-tests") == len(before.shards()) - 1
    starts = Counter(run.events("start"))
    assert starts.pop(RED) == 2
    assert set(starts.values()) == {1}, "a test that had passed ran again"
    report = run.report()
    assert report["verdict"] == "green"
    assert [test["id"] for test in report["flaky"]] == [RED]
    assert RED in run.log(after.node("gpu-tests-passed"))
    assert digest_of(cluster, "retry:main") == before.node("build-image").output("digest")


@pytest.mark.chaos
def test_resubmit_starts_clean(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("resubmit", suite(cluster.registry, "resubmit", red=FAILS), shards=2, gpus=2)
    run = made.opened(1)
    run.end("Failed")
    made.flag("mended")
    second = made.follow(cluster.argo("resubmit", run.name, "-o", "name").stdout.strip())
    second.suspended()
    second.resume()
    second.end("Succeeded")
    assert second.folder != run.folder
    assert set(Counter(second.events("start")).values()) == {1}
    assert second.report()["flaky"] == []


def pods(workflow: Workflow) -> set[tuple[str, str, str]]:
    """Each pod that was started: its node's id, its start and its template."""
    found = [node for node in workflow.nodes if node.body["type"] == "Pod"]
    return {(node.body["id"], node.body["startedAt"], node.template) for node in found}
