"""Dockerfiles that run in Kaniko's pod as root: what they can read, push, and make later steps believe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.errors import RegistryError
from tests.cluster import git_server
from tests.cluster.attacks import code, guarded
from tests.cluster.cluster import Cluster, Run, Workflow
from tests.cluster.projects import ProjectMaker
from tests.cluster.registry import digest_of
from tests.cluster.suites import suite
from tests.cluster.test_attacks import assert_no_token_is_shown
from tests.cluster.test_refusals import assert_no_gpu_pod

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos

GIT_TOKEN = "reads-the-repository"
PULL, PUSH = ("pull",), ("pull", "push", "delete")  # delete: the stand-in for Kaniko gives up uploads


def secret(cluster: Cluster, name: str, kind: str, **data: str) -> None:
    metadata = {"name": name, "namespace": cluster.namespace}
    values = {key.replace("__", "."): value for key, value in data.items()}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": values})


def built(run: Run) -> Workflow:
    return run.wait("built", lambda one: bool(one.attempts("collect-tests")) or one.phase == "Failed")


def test_a_dockerfile_reads_the_builds_logins_and_they_open_nothing_else(
    cluster: Cluster, project: ProjectMaker, served: Path, tmp_path: Path
) -> None:
    rights: dict[str, guarded.Rights] = {
        "build": {"at-login-ci": PUSH, "at-login-ci/*": PUSH},
        "tag": {"at-login-ci": PULL, "at-login": PUSH},
    }
    with (
        guarded.serve(tmp_path / "registry", cluster.node_address, rights) as registry,
        git_server.serve(served, cluster.node_address, tokens=[GIT_TOKEN]) as git_url,
    ):
        for login in rights:
            config = {"__dockerconfigjson": registry.config(login)}
            secret(cluster, f"at-login-{login}", "kubernetes.io/dockerconfigjson", **config)
        secret(cluster, "at-login-git", "Opaque", token=GIT_TOKEN)
        image = f"{registry.address}/at-login"
        evil = [f"{image}:main", f"{registry.address}/another-ci:main", f"{image}-ci:evil"]
        files = {**suite(cluster.registry, "at-login"), "looking.py": code("looking"), "builds.py": code("builds")}
        files["Dockerfile"] += f"RUN PYTHONPATH=/ python3 builds.py {' '.join(evil)}\n"
        made = project(
            "at-login",
            files,
            image=image,
            registry_secret="at-login-build",
            tag_secret="at-login-tag",
            git_url=git_url,
            git_secret="at-login-git",
        )
        run = made.opened(1)
        workflow = built(run)
        cluster.argo("stop", run.name)  # the nodes have no login to pull by
        build = workflow.node("build-image")
        assert build.phase == "Succeeded"
        log = run.log(build)
        found = json.loads(re.findall(r"^FOUND (.*)$", log, re.MULTILINE)[0])
        assert json.loads(found["logins"]) == json.loads(registry.config("build"))
        assert registry.passwords["tag"] not in log
        assert {re.sub(r"[0-9.]{3,}[^/]*|[0-9]+", "*", path) for path in found["secrets"]} == {
            "/kaniko/.docker/config.json",
            "/kaniko/.docker/*/config.json",
        }
        assert (found["shared"], found["api"]) == (False, 403)
        assert found["pushes"].pop(f"{image}-ci:evil") == "pushed"
        assert len(found["pushes"]) == 2
        assert all("401" in answer for answer in found["pushes"].values())
        assert_no_token_is_shown(run, workflow)

        source = f"{image}-ci@{build.output('digest')}"
        for login, code_ in (("build", RegistryError.exit_code), ("tag", 0)):
            (tmp_path / login).write_text(registry.config(login))
            words = ["tag-image", "--source", source, "--target", f"{image}:main", "--insecure"]
            assert cli.main([*words, "--docker-config", str(tmp_path / login)]) == code_


DIGESTS = {
    "template": "{{workflow.name}}",
    "expression": "{{=1+1}}",
    "foreign": "",  # an image's that was not built here
    "token": "",
}
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@chaos
def test_a_digest_that_a_dockerfile_made_up_is_never_run(cluster: Cluster, project: ProjectMaker) -> None:
    foreign = digest_of(cluster, "small:latest")
    assert foreign is not None
    made = project("at-digest", suite(cluster.registry, "at-digest"), shards=2, gpus=2)
    dockerfile = suite(cluster.registry, "at-digest")["Dockerfile"]
    runs = {}
    for number, (kind, text) in enumerate(DIGESTS.items(), 1):
        # It goes on while Kaniko writes its own.
        line = f"while sleep 0.02; do printf %s '{text or foreign}' >/told/digest; done"
        line = (
            f"setsid sh -c {json.dumps(line)} >/dev/null 2>&1 & sleep 1"
            if kind != "token"
            else f"ln -sf {TOKEN} /told/digest; true"
        )
        head = made.repository.push(kind, {"Dockerfile": f"{dockerfile}RUN {line}\n"}, base="main")
        runs[kind] = made.submit(number, head)
    for run in runs.values():
        run.suspended()
        run.resume()
    images = {}
    for kind, run in runs.items():
        workflow = built(run)
        wait_for_image(run)
        cluster.argo("stop", run.name)
        assert_no_gpu_pod(workflow)
        assert_no_token_is_shown(run, workflow)
        (collecting,) = (pod for pod in cluster.pods(run.name) if "-collect-tests-" in pod.metadata.name)
        (images[kind],) = (one.image for one in collecting.spec.containers if one.name == "main")
    repository = f"{cluster.registry}/at-digest-ci@"
    assert images["template"] == images["expression"] == f"{repository}sha256:not-a-digest"
    assert images["foreign"] == f"{repository}{foreign}"  # of which this repository has nothing
    assert re.fullmatch(re.escape(repository) + "sha256:[0-9a-f]{64}", images["token"])


def wait_for_image(run: Run) -> None:
    run.wait("at its image", lambda _: bool(waiting(run)))


def waiting(run: Run) -> list[str]:
    """Why the pod of collect-tests does not start, or that it did."""
    states = [
        status.state
        for pod in run.cluster.pods(run.name)
        if "-collect-tests-" in pod.metadata.name
        for status in pod.status.container_statuses or []
        if status.name == "main"
    ]
    return [
        state.waiting.reason if state.waiting else ""
        for state in states
        if not state.waiting or state.waiting.reason != "PodInitializing"
    ]
