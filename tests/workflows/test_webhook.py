"""What deliveries start, as rendered; how Argo evaluates it is tested on a cluster."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import pytest
import yaml

from shardlib.errors import SettingsError
from shardlib.gate.runs import run_name
from tests.workflows.chains import REQUIRED, damaged, make_settings
from workflows import render, webhook
from workflows.commands.lint import lint_texts
from workflows.linting.bindings import lint_binding
from workflows.linting.document import Document
from workflows.linting.rules import lint
from workflows.telling import no_progress

SETTINGS = make_settings(
    github_secret="github-app", webhook=True, argo_server="https://argo-server.argo:2746", label="gpu: go"
)
DOCUMENTS = webhook.documents(SETTINGS)


def of(kind: str, name: str = "") -> dict[str, Any]:
    found = [one for one in DOCUMENTS if one["kind"] == kind and name in ("", one["metadata"]["name"])]
    (one,) = found
    return one


BINDINGS = [one for one in DOCUMENTS if one["kind"] == "WorkflowEventBinding"]
WORKFLOWS = [one for one in DOCUMENTS if one["kind"] in ("WorkflowTemplate", "CronWorkflow")]


def spec(workflow: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workflow["spec"].get("workflowSpec", workflow["spec"])
    return found


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (workflow["metadata"]["name"], one)
        for workflow in WORKFLOWS
        for one in spec(workflow)["templates"]
        if "container" in one
    ]


def test_nothing_is_rendered_without_the_webhook() -> None:
    assert "webhook.yaml" not in render.render(make_settings(github_secret="github-app"))
    assert "webhook.yaml" in render.render(SETTINGS)


def test_no_rule_complains() -> None:
    assert lint_texts(render.render(SETTINGS), artifacts=False) == []


def test_every_delivery_submits_a_template_that_is_there() -> None:
    assert {one["metadata"]["name"] for one in BINDINGS} == {"gpu-ci-submit", "gpu-ci-open-gate", "gpu-ci-close-gate"}
    for one in BINDINGS:
        of("WorkflowTemplate", one["spec"]["submit"]["workflowTemplateRef"]["name"])


def test_of_a_payload_only_the_number_gets_in() -> None:
    for one in BINDINGS:
        submit = one["spec"]["submit"]
        (parameter,) = submit["arguments"]["parameters"]
        assert parameter == {"name": "pr", "valueFrom": {"event": "string(int(payload.pull_request.number))"}}
        assert submit["metadata"].keys() == {"generateName"}
        assert submit["metadata"]["generateName"].endswith(' + string(int(payload.pull_request.number)) + "-"')


def test_other_repositories_events_and_labels_submit_nothing() -> None:
    for one in BINDINGS:
        selector = one["spec"]["event"]["selector"]
        assert f'payload.repository?.full_name == "{REQUIRED["repository"]}"' in selector
        assert 'metadata["x-github-event"] == ["pull_request"]' in selector
        assert "||" not in selector
    (labels,) = (one for one in BINDINGS if "labeled" in str(one))
    assert 'payload.label?.name == "gpu: go"' in labels["spec"]["event"]["selector"]


def test_every_command_exists_and_understands_its_arguments() -> None:
    commands = []
    for _, one in pods():
        words = one["container"]["command"]
        assert words[:4] == ["python3", "-P", "-m", "shardlib"]
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"shardlib.commands.{words[4].replace('-', '_')}").add_arguments(parser)
        assert parser.parse_args(words[5:])
        commands.append(words[4])
    assert commands == ["open-gate", "close-gate", "open-gate", "sweep"]


def test_a_token_that_ends_is_in_these_pods_and_in_their_main_alone() -> None:
    for workflow in WORKFLOWS:
        assert spec(workflow)["automountServiceAccountToken"] is False
        assert spec(workflow)["serviceAccountName"] == "gpu-ci-gate"
    for _, one in pods():
        (source,) = (volume["projected"]["sources"][0] for volume in one["volumes"] if "projected" in volume)
        assert source["serviceAccountToken"]["expirationSeconds"] <= 3600
        (mount,) = (mount for mount in one["container"]["volumeMounts"] if mount["name"] == "argo-token")
        assert mount["readOnly"] is True
        assert f"--argo-token={mount['mountPath']}/token" in one["container"]["command"]
        assert one["container"]["securityContext"]["readOnlyRootFilesystem"] is True
        assert "initContainers" not in one


def test_a_burst_runs_a_few_at_a_time_and_everything_ends_by_itself() -> None:
    for command in ("open-gate", "close-gate"):
        one = of("WorkflowTemplate", f"gpu-ci-{command}")
        (semaphore,) = one["spec"]["synchronization"]["semaphores"]
        assert semaphore["configMapKeyRef"] == {"name": "gpu-ci-semaphore", "key": "gate-looks"}
        assert "--take-over={{workflow.name}}" in str(one["spec"]["templates"])
    assert webhook.limits() == {"gate-looks": "4"}
    for workflow in WORKFLOWS:
        assert spec(workflow)["ttlStrategy"]["secondsAfterCompletion"] <= 3600
    for _, one in pods():
        assert one["activeDeadlineSeconds"] <= 900
        assert one["retryStrategy"]["backoff"]["duration"]
        assert "'75'" in one["retryStrategy"]["expression"]
    assert of("CronWorkflow")["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_limit_of_looks_is_there_even_where_runs_have_none() -> None:
    values = {"webhook": True, "github_secret": "g", "argo_server": "http://argo:2746"}
    texts = render.render(make_settings(**values, runs_at_once=0))
    assert "gate-looks: '4'" in texts["semaphore.yaml"]
    assert "gpu-runs" not in texts["semaphore.yaml"]
    assert "semaphore.yaml" not in render.render(make_settings(runs_at_once=0))


def rights(name: str) -> set[tuple[str, str]]:
    rules = of("Role", name)["rules"]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_each_account_may_do_what_it_is_for_and_no_more() -> None:
    submits = {("workfloweventbindings", "list"), ("workflowtemplates", "get"), ("workflows", "create")}
    assert rights("gpu-ci-webhook") == submits
    looks = {("workflows", verb) for verb in ("create", "get", "list", "patch", "update")}
    assert rights("gpu-ci-gate") == looks | {("workflowtemplates", "get"), ("pods", "delete")}
    for name in ("gpu-ci-gate", "gpu-ci-webhook"):
        (subject,) = of("RoleBinding", name)["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": name, "namespace": "gpu-ci"}
        assert of("ServiceAccount", name)["automountServiceAccountToken"] is False
    secret = of("Secret")
    assert secret["metadata"]["name"] == "gpu-ci-webhook.service-account-token"  # the name that Argo looks for


def test_a_cluster_without_checks_has_no_pod_for_them() -> None:
    values = {"webhook": True, "github_secret": "g", "argo_server": "http://argo:2746", "check_name": ""}
    cron = webhook.sweep(make_settings(**values))
    assert [one["name"] for one in spec(cron)["templates"]] == ["sweep", "follow"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("payload.repository?.full_name", "payload.repository.full_name", "answered by 500; use `?.`"),
        ("string(int(payload.pull_request.number))", "payload.pull_request.title", "only string(int("),
        ("string(int(payload.pull_request.number))", "string(payload.pull_request.number)", "only string(int("),
        ("generateName", "name", "use generateName"),
        ("generateName: '", "labels: 'payload.action + ", "only string(int("),
    ],
)
def test_a_mistake_in_a_binding_is_found(old: str, new: str, said: str) -> None:
    text = render.dumps([BINDINGS[0]])
    assert old in text
    found = list(lint_binding(yaml.safe_load(text.replace(old, new)), "webhook.yaml"))
    assert found
    assert {finding.rule for finding in found} == {"binding"}
    assert any(said in finding.text for finding in found)


def test_a_token_beside_another_image_is_found() -> None:
    workflow = damaged(of("WorkflowTemplate", "gpu-ci-open-gate"))
    other = damaged(workflow["spec"]["templates"][0])
    other["name"], other["container"]["image"], other["volumes"] = "other", "{{inputs.parameters.image}}", []
    other["inputs"] = {"parameters": [{"name": "image"}]}
    other["podSpecPatch"] = no_progress()
    workflow["spec"]["templates"].append(other)
    assert [finding.rule for finding in lint(Document(workflow, "webhook.yaml"))] == ["token"]


def test_names_of_runs_and_looks_fit_into_a_label_whatever_the_settings_and_the_number() -> None:
    values = {"webhook": True, "github_secret": "g", "argo_server": "http://argo:2746"}
    with pytest.raises(SettingsError, match="at most 20"):
        make_settings(name="x" * 21, **values)
    own = make_settings(name="x" * 20, **values)
    for one in webhook.documents(own):
        assert len(one["metadata"]["name"]) <= 63 or one["kind"] == "Secret"
    for command in ("open-gate", "close-gate"):
        assert len(f"{own.name}-{command}-{'9' * 9}-abcde") <= 63
    assert len(run_name(own.name, "9" * 9, "f" * 40)) <= 63
