from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.api_server import ARGO, CORE, ApiServer, serving
from tests.workflows.chains import ROOT
from workflows import settings
from workflows.cli import main
from workflows.cluster import Cluster
from workflows.commands.preflight import Check, preflight

EXAMPLE = settings.load(ROOT / "gpu-ci.toml")


@pytest.fixture
def served() -> Iterator[tuple[ApiServer, Cluster]]:
    with serving() as both:
        yield both


def checks(server: ApiServer, cluster: Cluster) -> list[Check]:
    host = server.url.removeprefix("http://")
    return list(preflight(replace(EXAMPLE, image=f"{host}/ml/training", registry_insecure=True), cluster))


def failed(server: ApiServer, cluster: Cluster) -> list[Check]:
    return [check for check in checks(server, cluster) if not check.good]


def test_a_cluster_that_is_set_up_passes_every_check(served: tuple[ApiServer, Cluster]) -> None:
    assert failed(*served) == []
    assert len(checks(*served)) == 31


Damage = Callable[[ApiServer], Any]
DAMAGES: list[tuple[Damage, str, str]] = [
    (
        lambda s: s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]["items"].pop(),
        "CRDs",
        "taskresults",
    ),
    (lambda s: s.objects.update({"/apis/apps/v1/namespaces/argo/deployments": {"items": []}}), "controller", "Argo v4"),
    (lambda s: s.objects.pop("/api/v1/namespaces/gpu-ci"), "namespace gpu-ci", "kubectl create namespace"),
    (
        lambda s: s.objects["/api/v1/namespaces/gpu-ci"]["metadata"].update(
            labels={"pod-security.kubernetes.io/enforce": "baseline"}
        ),
        "Pod Security baseline",
        "SYS_NICE",
    ),
    (lambda s: s.objects.pop(f"{CORE}/serviceaccounts/gpu-ci"), "ServiceAccount gpu-ci", "kubectl apply -k"),
    (lambda s: s.objects.pop(f"{CORE}/configmaps/gpu-ci-semaphore"), "ConfigMap", "kubectl apply -k"),
    (lambda s: s.allowed.discard(("gpu-ci-executor", "patch", "workflowtaskresults")), "may patch", "kubectl apply"),
    (lambda s: s.allowed.add(("gpu-ci", "get", "secrets")), "may not get secrets", "remove the binding"),
    (lambda s: s.objects.pop(f"{CORE}/secrets/gpu-ci-executor.service-account-token"), "Secret gpu-ci-ex", "apply -k"),
    (
        lambda s: s.objects[f"{CORE}/secrets/gpu-ci-tag-registry"].update(type="Opaque"),
        "type Opaque",
        "docker-registry",
    ),
    (lambda s: s.objects.pop(f"{CORE}/secrets/gpu-ci-github"), "Secret gpu-ci-github", "docs/github.md"),
    (
        lambda s: s.objects[f"{CORE}/secrets/argo-workflows-webhook-clients"].update(data={"github.com": "eA=="}),
        "keys github.com",
        "the webhook's secret under gpu-ci-webhook",
    ),
    (lambda s: s.objects.pop(f"{ARGO}/workfloweventbindings/gpu-ci-submit"), "Binding gpu-ci-submit", "apply -k"),
    (lambda s: s.objects.pop(f"{ARGO}/cronworkflows/gpu-ci-sweep"), "CronWorkflow gpu-ci-sweep", "apply -k"),
    (lambda s: s.objects.pop(f"{CORE}/persistentvolumeclaims/mnt-ci"), "mnt-ci", "create it"),
    (
        lambda s: s.objects[f"{CORE}/persistentvolumeclaims/mnt-ci"]["spec"].update(accessModes=["ReadWriteOnce"]),
        "mnt-ci is ReadWriteMany",
        "several nodes",
    ),
    (lambda s: s.objects["/api/v1/nodes"]["items"].pop(), "11 of 11 matching nodes", "fewer nodes than shards"),
    (lambda s: s.objects["/api/v1/nodes"]["items"][0]["status"].update(allocatable={}), "0 of 12", "device plugin"),
    (lambda s: s.objects.pop("/v2/"), "registry 127.0.0.1", "404, which is no registry's answer"),
    (
        lambda s: s.forbidden.add("/api/v1/nodes"),
        "nodes",
        "cannot be checked: listing nodes: the API server answers 403",
    ),
]


@pytest.mark.parametrize(("damage", "what", "todo"), DAMAGES, ids=[what for _, what, _ in DAMAGES])
def test_each_thing_that_is_missing_is_named_with_what_to_do(
    served: tuple[ApiServer, Cluster], damage: Damage, what: str, todo: str
) -> None:
    server, cluster = served
    damage(server)
    found = failed(server, cluster)
    assert any(what in str(check) and todo in check.todo for check in found), [str(check) for check in found]
    assert len(found) <= 2  # what is right stays right


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    cluster = f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
    path.write_text(
        f"apiVersion: v1\nkind: Config\n{cluster}users: [{{name: u, user: {{}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    return path


def test_the_command_prints_a_line_for_each_check_and_its_code_says_whether_all_are_good(
    served: tuple[ApiServer, Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _ = served
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig(tmp_path, server.url))
    )
    text = (ROOT / "gpu-ci.toml").read_text()
    own = tmp_path / "gpu-ci.toml"
    image = f'image = "{server.url.removeprefix("http://")}/ml/training"'
    own.write_text(text.replace('image = "registry.example.com/ml/training"', f"{image}\nregistry_insecure = true"))
    argv = ["preflight", "--settings", str(own)]
    assert main(argv) == 0
    assert "31 checks, 0 failed" in capsys.readouterr().out
    server.objects.pop(f"{CORE}/serviceaccounts/gpu-ci")
    assert main(argv) == 1
    assert "FAIL  ServiceAccount gpu-ci: kubectl apply -k manifests/" in capsys.readouterr().out


def test_a_run_is_submitted_once_for_a_head(
    served: tuple[ApiServer, Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _ = served
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig(tmp_path, server.url))
    )
    sha = "0123456789abcdef0123456789abcdef01234567"
    argv = ["submit", "--settings", str(ROOT / "gpu-ci.toml"), "--pr", "123", "--sha", sha]
    assert main(argv) == 0
    assert "argo resume -n gpu-ci gpu-ci-123-0123456789abcdef0123456789abcdef" in capsys.readouterr().out
    assert main(argv) == 0
    assert "is there already" in capsys.readouterr().out
    ((path, body),) = server.posted.items()
    assert path.endswith("/namespaces/gpu-ci/workflows/gpu-ci-123-0123456789abcdef0123456789abcdef")
    assert body["spec"] == {
        "workflowTemplateRef": {"name": "gpu-ci"},
        "arguments": {
            "parameters": [
                {"name": "pr", "value": "123"},
                {"name": "sha", "value": sha},
                {"name": "repo", "value": "example/training"},
            ]
        },
    }


@pytest.mark.parametrize(("option", "value"), [("--pr", "{{x}}"), ("--sha", "HEAD"), ("--repository", "a/b/c")])
def test_what_is_no_head_is_refused_before_a_cluster_is_asked(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"--pr": "1", "--sha": "a" * 40, "--repository": "a/b", option: value}
    argv = ["submit", "--settings", str(ROOT / "gpu-ci.toml"), *(f"{name}={text}" for name, text in values.items())]
    assert main(argv) == 11
    assert option in capsys.readouterr().err


def test_no_cluster_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    assert main(["preflight", "--settings", str(ROOT / "gpu-ci.toml")]) == 11
    assert "KUBECONFIG" in capsys.readouterr().err
    with serving() as (server, _):
        url = server.url
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig(tmp_path, url)))
    assert main(["submit", "--settings", str(ROOT / "gpu-ci.toml"), "--pr", "1", "--sha", "a" * 40]) == 75
    assert "does not answer" in capsys.readouterr().err
