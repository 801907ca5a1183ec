"""Pull requests that try to get out of their pods, into other runs, or to the verdict: what each of them gets.

Most of the attacks are tests of the hostile suites in attacks/pod, which pass where they are refused. docs/security.md has
the table.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from xml.etree import ElementTree

import pytest

from tests.cluster.attacks import code
from tests.cluster.cluster import Cluster, Run, Workflow, names
from tests.cluster.projects import ProjectMaker
from tests.cluster.registry import digest_of
from tests.cluster.suites import suite
from tests.cluster.test_refusals import assert_no_gpu_pod

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos

TOKEN = "eyJhbGciOi"  # what every service account's token begins with


def files(cluster: Cluster, case: str, kind: str = "", **tests: str) -> dict[str, str]:
    """A repository whose code can look around; `kind` is what its conftest does where it is collected."""
    own = {"looking.py": code("looking")}
    if kind:
        own["tests/conftest.py"] = code("collects").replace('"KIND", "CASE"', f'"{kind}", "{case}"')
    return {**suite(cluster.registry, case, **tests), **own}


def assert_no_token_is_shown(run: Run, workflow: Workflow) -> None:
    """Neither in the workflow, nor in what any container of its pods printed."""
    assert TOKEN not in json.dumps(workflow.body)
    for pod in run.cluster.pods(run.name):
        command = ("kubectl", "logs", "-n", run.cluster.namespace, pod.metadata.name, "--all-containers")
        logs = run.cluster.run(*command, check=False)  # some may not have started, if it was stopped
        assert TOKEN not in logs.stdout, pod.metadata.name


def assert_only_the_build_has_a_secret(run: Run, allowed: set[str]) -> None:
    """In the pods that run code of the pull request; Argo's own containers have the executor's token."""
    foreign = ("build-image", "collect-tests", "gpu-tests", "cpu-tests")
    seen = set()
    for pod in run.cluster.pods(run.name):
        template = pod.metadata.name.removeprefix(f"{run.name}-").rsplit("-", 1)[0]
        if template not in foreign:
            continue
        seen.add(template)
        secret = {volume.name: volume.secret.secret_name for volume in pod.spec.volumes if volume.secret}
        (main,) = (one for one in pod.spec.containers if one.name == "main")
        mounted = {secret[mount.name] for mount in main.volume_mounts if mount.name in secret}
        assert mounted <= (allowed if template == "build-image" else set())
        assert not any(one.value_from and one.value_from.secret_key_ref for one in main.env)
        assert not pod.spec.automount_service_account_token
    assert seen == set(foreign)


def test_code_of_a_pull_request_stays_in_its_pods(cluster: Cluster, project: ProjectMaker) -> None:
    reach = {name: code("reach").replace("MODE", name) for name in ("concurrent", "cpu")}
    made = project("at-reach", files(cluster, "at-reach", "looks", **reach), shards=2, gpus=2)
    victim = cluster.volume / "runs" / "victim"
    victim.mkdir(exist_ok=True)
    victim.joinpath("secret").write_text("of another run")
    run = made.opened(1)
    workflow = run.end("Succeeded")
    found = json.loads((run.folder / "collect" / "found.json").read_text())
    assert found == {"secrets": {}, "runs": [workflow.uid], "api": [403, 403], "unmounted": False, "written": []}
    refused = code("reach").count("\ndef test_") + 2  # one has three cases
    assert run.report()["outcomes"] == {"passed": 2 * refused + 12}
    assert_only_the_build_has_a_secret(run, set())
    assert_no_token_is_shown(run, workflow)
    assert list(run.folder.rglob("*forged*")) == []
    assert [one for where in ("", "control/", "tags/") for one in cluster.volume.glob(f"{where}forged")] == []
    assert [path.name for path in victim.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("removed", "collect.json"),
        pytest.param("link", "is a link", marks=chaos),
        pytest.param("fifo", "not a regular file", marks=chaos),
        pytest.param("huge", "2147483648 bytes", marks=chaos),
        pytest.param("malformed", "not valid JSON", marks=chaos),
    ],
)
def test_a_collection_is_refused_that_was(cluster: Cluster, project: ProjectMaker, kind: str, said: str) -> None:
    """The tests beside one that is removed would be collected, and run, where other runs can be written."""
    run = project(f"at-{kind}", files(cluster, f"at-{kind}", kind), shards=2, gpus=2).opened(1)
    workflow = run.end("Failed")
    (planning,) = workflow.attempts("calculate-shards")
    assert (planning.phase, planning.exit_code) == ("Failed", 15)
    assert said in run.log(planning)
    assert_no_gpu_pod(workflow)
    assert list(cluster.volume.glob("runs/forged*")) == []


@chaos
def test_forged_node_ids_are_red_by_name(cluster: Cluster, project: ProjectMaker) -> None:
    run = project("at-forged", files(cluster, "at-forged", "forged"), shards=2, gpus=2).opened(1)
    workflow = run.end("Failed")
    assert run.report()["verdict"] == "red"
    verdict = workflow.node("gpu-tests-passed").output("summary")
    assert "tests/test_quick_0.py::((workflow.name))" in verdict
    assert "12 tests" in verdict
    assert_nothing_was_evaluated(run, workflow)


WANTED = Counter(test_passes=12, test_says=13, test_raises=2)


def test_texts_of_tests_are_nothing_but_text(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("at-texts", files(cluster, "at-texts", says=code("texts")), shards=2, gpus=2)
    run = made.opened(1)
    workflow = run.end("Failed")
    report = run.folder / "report"
    assert run.report()["outcomes"] == {"failed": 15, "passed": 12}
    assert_nothing_was_evaluated(run, workflow)
    cases = ElementTree.parse(report / "junit.xml").getroot().iter("testcase")
    found = Counter(case.get("name", "").partition("[")[0] for case in cases)
    assert found - Counter(f"shard shard {n}: attempt 0 exited 1" for n in ("01", "02")) == WANTED
    for name in ("report.html", "summary.md"):
        text = (report / name).read_text()
        assert re.findall(r"<script|<img|\x1b|\x07|\u202e", text) == []
        assert name == "report.html" or not re.findall(r"\]\(|^::", text, re.MULTILINE)  # where they mean nothing
    other = made.repository.push("evil", {"tests/test_says.py": "def test_says(): pass\n"}, base="main")
    made.flag("mended")
    run.retry("-p", f"sha={other}", "-p", "pr=666", "-p", "repo=evil/evil")
    workflow = run.end("Succeeded")
    assert len(workflow.attempts("build-image")) == len(workflow.attempts("find-changed")) == 1
    assert len(run.report()["flaky"]) == 15
    digest = workflow.node("build-image").output("digest")
    mains = [one for pod in cluster.pods(run.name) for one in pod.spec.containers if one.name == "main"]
    assert {one.image for one in mains if "at-texts" in one.image} == {f"{cluster.registry}/at-texts-ci@{digest}"}
    assert digest_of(cluster, "at-texts:main") == digest
    assert digest_of(cluster, f"at-texts-ci:{made.head}") == digest


def assert_nothing_was_evaluated(run: Run, workflow: Workflow) -> None:
    """Names and outputs of nodes have no template left, and none that became something else."""
    told = [node.output("summary") for node in workflow.nodes if "summary" in json.dumps(node.body.get("outputs", {}))]
    assert told
    for text in (*told, *names(workflow.nodes)):
        assert "{{" not in text
        assert text.isprintable()
        assert f"[{run.name}]" not in text
        assert f"[{workflow.uid}]" not in text


@chaos
def test_a_shard_forges_its_own_report_and_no_others(cluster: Cluster, project: ProjectMaker) -> None:
    honest = 'import pytest\n\n@pytest.mark.gpu(mode="cpu")\ndef test_fails(): assert False\n'  # a shard of its own
    made = project("at-forges", files(cluster, "at-forges", forges=code("forges"), honest=honest), shards=2, gpus=2)
    run = made.opened(1)
    workflow = run.end("Failed")
    assert [one.exit_code for (one,) in workflow.shards().values()].count(137) == 1
    report = run.report()
    assert report["outcomes"]["failed"] == 1  # the other's, which was forged to have passed
    assert sum(report["outcomes"].values()) == 14
    verdict = workflow.node("gpu-tests-passed").output("summary")
    assert "red shards: cpu" in verdict
    assert "tests/test_honest.py::test_fails" in verdict
    assert digest_of(cluster, "at-forges:main") != workflow.node("build-image").output("digest")


@chaos
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("link", "0.jsonl: it, or a folder on the way to it, is a link"),
        ("fifo", "not a regular file"),
        ("many", "not a JSON record"),
        ("large", "a line of more than"),
    ],
)
def test_a_report_is_refused_whose_files_were_replaced_by(
    cluster: Cluster, project: ProjectMaker, kind: str, said: str
) -> None:
    name = f"at-files-{kind}"
    made = project(
        name, files(cluster, name, replaces=code("replaces").replace('"KIND"', f'"{kind}"')), shards=2, gpus=2
    )
    run = made.opened(1)
    workflow = run.end("Failed")
    (verdict,) = workflow.attempts("gpu-tests-passed")
    assert (verdict.phase, verdict.exit_code) == ("Failed", 1)
    assert said in json.dumps(run.report())
    assert "root:x:0" not in json.dumps(run.report()) + run.log(verdict)
    assert digest_of(cluster, f"{name}:main") != workflow.node("build-image").output("digest")
    shutil.rmtree(run.folder)  # of a gigabyte, or 100,000 files


def test_parameters_are_a_number_a_commit_and_a_repository_or_refused(cluster: Cluster, project: ProjectMaker) -> None:
    made = project("at-values", files(cluster, "at-values"), shards=2, gpus=2)
    good = {"pr": "1", "sha": made.head, "repo": "example/at-values"}
    bad = {
        "template": {"sha": "{{workflow.name}}"},
        "expression": {"sha": "{{=1+1}}"},
        "option": {"sha": "--upload-pack=touch /tmp/x"},
        "short": {"sha": made.head[:12]},
        "newline": {"pr": "1\n2"},
        "shell": {"pr": "$(id)"},
        "path": {"repo": "../../etc/passwd"},
        "address": {"repo": "example/at-values@evil.example.com"},
    }
    runs = []
    for name, change in bad.items():
        values = [word for key, value in {**good, **change}.items() for word in ("-p", f"{key}={value}")]
        cluster.argo("submit", "--from", "workflowtemplate/at-values", "--name", f"at-values-{name}", *values)
        runs.append(Run(cluster, f"at-values-{name}"))
    for run in runs:
        workflow = run.end("Failed")
        (checked,) = workflow.attempts("find-changed")
        assert (checked.phase, checked.exit_code) == ("Failed", 11)
        assert {node.template for node in workflow.nodes if node.body["type"] == "Pod"} == {"find-changed", "conclude"}
