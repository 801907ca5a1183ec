"""The whole chain on a suite that nobody wrote for us: the CUDA tests of the numba wheel, on numba's own simulator."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import numba
import pytest

from shardlib.runfolder import RunFolder
from tests.cluster.cluster import Cluster, Run, Workflow
from tests.cluster.projects import ProjectMaker
from tests.cluster.registry import digest_of
from tests.parity.checkout import Checkout, Sharded
from tests.parity.test_numba import RACY

pytestmark = pytest.mark.cluster

SITE = "/venv/lib/python3.11/site-packages"  # of the image: Debian 12's Python
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "numba"
DESELECTED = [line for line in (EXAMPLE / "deselected.txt").read_text().splitlines() if line and line[0] != "#"]
LIMIT_SECONDS = 1500.0

ARGUMENTS = ["-c", "pytest.ini", f"--rootdir={SITE}", "--pyargs", "numba.cuda.tests"]
SETTINGS = {
    # 96 workers of 150 MB each are more than a small machine holds; the slots of the plan stay 8.
    "run_args": ["--simulated-gpus", "--max-workers", "2"],
    "gpu_memory": "1Gi",
    "collect_memory": "1Gi",
}


def files(cluster: Cluster) -> dict[str, str]:
    dockerfile = f"FROM {cluster.registry}/numba:latest\nWORKDIR /workspace\nCOPY . .\n"
    return {"Dockerfile": dockerfile, "pytest.ini": (EXAMPLE / "pytest.ini").read_text()}


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What plain pytest says of each test, here."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "pytest.ini").write_text("[pytest]\n", "ascii")
    site = Path(numba.__file__).parents[1]
    suite = Checkout(site, environment={"NUMBA_ENABLE_CUDASIM": "1"}, results=folder, timeout_seconds=LIMIT_SECONDS)
    arguments = ["-c", str(folder / "pytest.ini"), f"--rootdir={site}", "-p", "no:cacheprovider", "numba/cuda/tests"]
    return suite.plain(*arguments)


def outcomes(run: Run) -> dict[str, str]:
    found = Sharded(folder=RunFolder(run.folder), code=0, output="").outcomes
    return {node_id: outcome for node_id, (outcome, _) in found.items() if node_id not in RACY}


def assert_pods_are_what_the_mission_asks_for(cluster: Cluster, run: Run, workflow: Workflow) -> None:
    digest = workflow.node("build-image").output("digest")
    pods = {pod.metadata.annotations["workflows.argoproj.io/node-id"]: pod for pod in cluster.pods(run.name)}
    for attempts in workflow.shards().values():
        (main,) = (one for one in pods[attempts[0].body["id"]].spec.containers if one.name == "main")
        assert main.image == f"{cluster.registry}/numba-green-ci@{digest}"
        assert main.resources.limits["nvidia.com/gpu"] == "8"
        assert main.security_context.capabilities.add == ["SYS_NICE"]
        assert {mount.mount_path for mount in main.volume_mounts} >= {"/mnt/ci", "/dev/shm"}
        assert not any("serviceaccount" in mount.mount_path for mount in main.volume_mounts)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="compares with pytest on this Python; the image has 3.11")
def test_the_chain_is_green_and_each_test_ends_as_under_plain_pytest(
    cluster: Cluster, project: ProjectMaker, plain: dict[str, tuple[str, str]]
) -> None:
    deselected = [f"--deselect={node_id}" for node_id in DESELECTED]
    made = project("numba-green", files(cluster), **SETTINGS, pytest_args=ARGUMENTS + deselected)
    ready = made.installation.workflows("preflight", check=False).stdout
    failed = [line.split()[1] for line in ready.splitlines() if line.startswith("FAIL")]
    # The controller is no Deployment here, and there is one node for 12 shards.
    assert failed == ["workflow", "1"], ready
    head = made.repository.push("pr-7", {"src/kernel.py": "# faster\n"}, base="main")
    run = made.submit(7, head)
    waiting = run.suspended()
    assert [node.template for node in waiting.nodes if node.body["type"] == "Pod"] == ["find-changed"]
    run.resume()
    workflow = run.end("Succeeded", LIMIT_SECONDS)

    shards = workflow.shards()
    assert list(shards) == [f"{number:02}" for number in range(1, 13)]
    assert all(len(attempts) == 1 for attempts in shards.values())
    assert_pods_are_what_the_mission_asks_for(cluster, run, workflow)
    ours = outcomes(run)
    # What is deselected here fails under plain pytest too, for reasons of its own.
    wanted = {i: outcome for i, (outcome, _) in plain.items() if i not in RACY and i not in set(DESELECTED)}
    assert ours == wanted
    report = run.report()
    assert report["verdict"] == "green"
    assert sum(report["outcomes"].values()) == len(ours) > 1000
    assert workflow.node("gpu-tests-passed").output("summary").startswith("GREEN: ")
    assert digest_of(cluster, "numba-green:main") == workflow.node("build-image").output("digest")
    print(_times(workflow))


def test_the_whole_suite_is_red_and_says_what_failed(
    cluster: Cluster, project: ProjectMaker, plain: dict[str, tuple[str, str]]
) -> None:
    made = project("numba-red", files(cluster), **SETTINGS, pytest_args=ARGUMENTS)
    head = made.repository.push("pr-8", {"src/kernel.py": "# wrong\n"}, base="main")
    run = made.submit(8, head)
    run.suspended()
    run.resume()
    workflow = run.end("Failed", LIMIT_SECONDS)
    ours = outcomes(run)
    assert ours == {i: outcome for i, (outcome, _) in plain.items() if i not in RACY}
    assert Counter(ours.values())["error"] == 10
    red = {shard for shard, (attempt,) in workflow.shards().items() if attempt.phase == "Failed"}
    verdict = workflow.node("gpu-tests-passed")
    assert (verdict.phase, verdict.output("summary")[:4]) == ("Failed", "RED:")
    assert red == set(re.findall(r"(\d\d) \(\d+\)", verdict.output("summary").partition("red shards: ")[2]))
    for shard in red:
        (attempt,) = workflow.shards()[shard]
        assert attempt.exit_code == 1
        assert attempt.output("summary").startswith(f"shard {shard}: ")
    assert digest_of(cluster, "numba-red:main") is None


def _times(workflow: Workflow) -> str:
    lines = [f"{node.name:<44} {node.body['startedAt']}  {node.body['finishedAt']}" for node in workflow.nodes]
    return "\n".join(lines)
