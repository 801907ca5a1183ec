from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from shardlib.errors import GateError, InfrastructureError, ShardlibError, UsageError
from shardlib.gate.argo import ArgoServer, server_address
from shardlib.gate.following import Stage
from shardlib.gate.runs import Phase
from shardlib.gate.workflows import TEMPLATE, run_of, stage_of, untagged
from tests.gate.argo_server import TOKEN, ArgoStandIn, serving_argo

SHA = "a" * 40
STARTED = datetime(2030, 1, 1, tzinfo=timezone.utc)
REPOSITORY = "org/training"
VALUES = {"pr": "7", "sha": SHA, "repo": REPOSITORY}


@pytest.fixture
def argo() -> Iterator[ArgoStandIn]:
    with serving_argo() as server:
        yield server


def stage(argo: ArgoServer, name: str) -> Stage | None:
    staged = argo.staged("gpu-ci", name, repository=REPOSITORY)
    return staged.stage if staged else None


def client(server: ArgoStandIn, token: str = TOKEN) -> ArgoServer:
    return ArgoServer(server.url, namespace="ns", token=token)


def test_runs_are_those_of_the_template_with_a_pull_request_s_parameters_oldest_first(argo: ArgoStandIn) -> None:
    for name in ("b", "a"):
        argo.workflows.add(name, **VALUES)
    argo.workflows.add("other", **VALUES)["spec"]["workflowTemplateRef"] = {"name": "another"}
    argo.workflows.add("inline", **VALUES)["spec"].pop("workflowTemplateRef")
    argo.workflows.add("no-number", **{**VALUES, "pr": "{{x}}"})
    argo.workflows.add("no-values")
    runs = client(argo).runs("gpu-ci", repository=REPOSITORY)
    assert [(run.name, run.pr, run.sha, run.repository) for run in runs] == [
        (name, "7", SHA, "org/training") for name in ("b", "a")
    ]
    assert {run.phase for run in runs} == {Phase.PENDING}


def test_a_run_that_does_not_say_its_repository_is_of_the_one_that_is_set_up(argo: ArgoStandIn) -> None:
    argo.workflows.add("by-hand", pr="7", sha=SHA)  # argo submit --from leaves out what has a default
    argo.workflows.add("empty", pr="7", sha=SHA, repo="")
    server = client(argo)
    assert [run.repository for run in server.runs("gpu-ci", repository=REPOSITORY)] == [REPOSITORY] * 2
    staged = server.staged("gpu-ci", "by-hand", repository=REPOSITORY)
    assert staged is not None
    assert staged.run.repository == REPOSITORY


@pytest.mark.parametrize("archived", [0, 3])
def test_a_list_has_every_workflow_once_however_many_there_are(argo: ArgoStandIn, archived: int) -> None:
    """Without an archive the server ends at a limit and says nothing of more; with one it says so always."""
    names = [f"run-{number:04}" for number in range(1100)]
    for name in names:
        argo.workflows.add(name, **VALUES)
    for name in names[:archived]:
        argo.workflows.end(name, "Failed")
        argo.workflows.archive(name)
    found = [item["metadata"]["name"] for item in client(argo).workflows("gpu-ci")]
    assert sorted(found) == names[archived:]
    assert len(client(argo).runs("gpu-ci", repository=REPOSITORY, ended_since=STARTED)) == len(names)


def test_a_look_does_not_read_the_whole_archive(argo: ArgoStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardlib.gate.argo._MAX_BYTES", 1000)
    for number in range(10):
        argo.workflows.add(f"run-{number}", **VALUES)
        argo.workflows.archive(f"run-{number}")
    assert client(argo).workflows("gpu-ci") == []


def test_what_is_archived_is_asked_for_by_its_name_as_long_as_the_cluster_has_it(argo: ArgoStandIn) -> None:
    argo.workflows.add("x", **VALUES)
    argo.workflows.end("x", "Failed")
    argo.workflows.archive("x")
    server = client(argo)
    assert server.runs("gpu-ci", repository=REPOSITORY) == []
    assert stage(server, "x") is Stage.CLOSED
    del argo.workflows.items["x"]  # the server still answers, from its archive
    assert stage(server, "x") is None


def test_archived_runs_are_listed_on_demand_and_what_the_cluster_says_of_one_counts(argo: ArgoStandIn) -> None:
    for name in ("gone", "again", "another", "older"):
        argo.workflows.add(name, **VALUES)
        argo.workflows.end(name, "Failed", "Stopped with strategy 'Stop'")
    argo.workflows.items["another"]["metadata"]["labels"] = {TEMPLATE: "gpu-ci-open-gate"}
    argo.workflows.items["older"]["status"]["startedAt"] = "2029-01-01T00:00:00Z"
    for name in list(argo.workflows.items):
        argo.workflows.archive(name)
    del argo.workflows.items["gone"]
    server = client(argo)
    assert server.retry_gate("again") == ""
    runs = server.runs("gpu-ci", repository=REPOSITORY, ended_since=STARTED)
    assert [(run.name, run.phase, run.stopped) for run in runs] == [
        ("gone", Phase.FAILED, True),
        ("again", Phase.PENDING, False),
    ]


def test_a_workflow_of_another_template_is_no_run_whatever_its_name(argo: ArgoStandIn) -> None:
    argo.workflows.add("x", **VALUES)["spec"]["workflowTemplateRef"] = {"name": "another"}
    assert stage(client(argo), "x") is None


def test_an_answer_is_bounded_by_its_bytes(argo: ArgoStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardlib.gate.argo._MAX_BYTES", 300)
    argo.workflows.body = '{"items": [], "x": "é"}'.encode()
    assert client(argo).workflows("gpu-ci") == []
    argo.workflows.body = f'{{"items": [], "x": "{"é" * 200}"}}'.encode()  # 226 characters
    with pytest.raises(GateError, match="more than 300 bytes"):
        client(argo).workflows("gpu-ci")


def test_an_empty_namespace_has_no_runs(argo: ArgoStandIn) -> None:
    assert client(argo).runs("gpu-ci", repository=REPOSITORY) == []  # Argo's `items` is null then


def test_a_run_is_submitted_once_under_its_name(argo: ArgoStandIn) -> None:
    server = client(argo)
    assert server.submit("gpu-ci", "gpu-ci-7-x", VALUES) == ""
    assert "already exists" in server.submit("gpu-ci", "gpu-ci-7-x", VALUES)
    assert argo.workflows.calls == ["submit gpu-ci-7-x"]
    assert [run.sha for run in server.runs("gpu-ci", repository=REPOSITORY)] == [SHA]


def test_a_resume_that_comes_too_early_says_so_and_does_nothing(argo: ArgoStandIn) -> None:
    argo.workflows.add("x", **VALUES)
    assert "no suspend nodes" in client(argo).resume("x")
    argo.workflows.reach_the_gate("x")
    assert client(argo).resume("x") == ""
    assert stage(client(argo), "x") is Stage.PAST
    assert "no suspend nodes" in client(argo).resume("x")  # and one too late, too


def test_a_stop_fails_the_gate_with_its_reason_and_elsewhere_the_run(argo: ArgoStandIn) -> None:
    argo.workflows.add("x", **VALUES)
    argo.workflows.reach_the_gate("x")
    assert client(argo).stop("x", "closed") == ""
    argo.workflows.add("y", **VALUES)
    assert client(argo).stop("y", "closed") == ""
    assert argo.workflows.calls == ["stop x: closed", "stop y"]
    assert {stage(client(argo), name) for name in "xy"} == {Stage.STOPPING}
    argo.workflows.end("y", "Failed", "Stopped with strategy 'Stop'")
    assert "already finished" in client(argo).stop("y", "closed")


def test_a_retry_is_for_finished_runs(argo: ArgoStandIn) -> None:
    argo.workflows.add("x", **VALUES)
    argo.workflows.reach_the_gate("x")
    assert "Cannot retry" in client(argo).retry_gate("x")
    argo.workflows.end("x", "Failed")
    assert client(argo).retry_gate("x") == ""
    assert stage(client(argo), "x") is Stage.AHEAD


def test_what_is_gone_has_no_stage_and_refuses_to_be_touched(argo: ArgoStandIn) -> None:
    assert stage(client(argo), "x") is None
    assert "not found" in client(argo).resume("x")


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (301, GateError),
        (401, GateError),
        (403, GateError),
        (405, GateError),
        (429, InfrastructureError),
        (503, InfrastructureError),
    ],
)
def test_a_server_that_forbids_is_not_asked_again_and_one_that_is_down_may_be(
    argo: ArgoStandIn, status: int, family: type[ShardlibError]
) -> None:
    argo.workflows.add("x", **VALUES)
    argo.workflows.reach_the_gate("x")
    argo.workflows.broken.append(status)
    with pytest.raises(family, match=rf"{status}") as caught:
        client(argo).resume("x")
    assert "\x1b" not in str(caught.value)
    assert argo.workflows.calls == []


def test_a_wrong_token_is_refused_and_never_shown(argo: ArgoStandIn) -> None:
    with pytest.raises(GateError, match="token not valid") as caught:
        client(argo, "sesame-open").runs("gpu-ci", repository=REPOSITORY)
    assert "sesame-open" not in str(caught.value)
    assert client(argo, f"Bearer {TOKEN}").runs("gpu-ci", repository=REPOSITORY) == []  # as the argo command has it


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"items": NaN}', b'"x"'])
def test_an_answer_that_is_not_argo_s_is_refused(argo: ArgoStandIn, body: bytes) -> None:
    argo.workflows.body = body
    with pytest.raises(GateError):
        client(argo).runs("gpu-ci", repository=REPOSITORY)


def test_a_server_that_is_not_there_is_worth_another_try() -> None:
    with pytest.raises(InfrastructureError):
        ArgoServer("http://127.0.0.1:1", namespace="ns", token=TOKEN).runs("gpu-ci", repository=REPOSITORY)


@pytest.mark.parametrize("name", ["", "../x", "x/resume", "{{x}}", "X"])
def test_nothing_but_a_name_gets_into_an_address(argo: ArgoStandIn, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a workflow"):
        stage(client(argo), name)


@pytest.mark.parametrize(
    ("address", "secure", "url"),
    [
        ("https://argo.example.com/", True, "https://argo.example.com"),
        ("argo.example.com:2746", True, "https://argo.example.com:2746"),
        ("10.0.0.1:2746", False, "http://10.0.0.1:2746"),
        ("http://argo:2746/base", True, "http://argo:2746/base"),
    ],
)
def test_a_server_is_named_by_url_or_as_the_argo_command_has_it(address: str, secure: bool, url: str) -> None:
    assert server_address(address, secure=secure) == url


@pytest.mark.parametrize("address", ["", "argo", "ftp://x", "https://user:secret@x", "https://x?y", "https://x y"])
def test_what_is_no_server_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--argo-server"):
        server_address(address)


def workflow(phase: str | None, message: str = "", shutdown: str = "", **nodes: str) -> dict[str, Any]:
    named = {f"id-{task}": {"name": f"w.{task.replace('_', '-')}", "phase": state} for task, state in nodes.items()}
    status = {"phase": phase, "message": message, "nodes": named}
    return {"metadata": {"name": "w"}, "spec": {"shutdown": shutdown}, "status": status}


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        (workflow(None), Stage.AHEAD),
        (workflow("Pending"), Stage.AHEAD),
        (workflow("Running", find_changed="Running"), Stage.AHEAD),
        (workflow("Running", wait_for_label="Running"), Stage.WAITING),
        (workflow("Running", wait_for_label="Succeeded"), Stage.PAST),
        (workflow("Running", wait_for_label="Skipped", verify_gate="Pending"), Stage.VERIFYING),
        (workflow("Running", wait_for_label="Succeeded", verify_gate="Running"), Stage.VERIFYING),
        (workflow("Running", wait_for_label="Succeeded", verify_gate="Succeeded"), Stage.PAST),
        (workflow("Running", wait_for_label="Succeeded", verify_gate="Failed"), Stage.STOPPING),
        (workflow("Running", wait_for_label="Succeeded", verify_gate="Running", shutdown="Stop"), Stage.STOPPING),
        (workflow("Running", wait_for_label="Omitted"), Stage.PAST),  # the exit handler of one that failed early
        (workflow("Running", wait_for_label="Failed"), Stage.STOPPING),
        (workflow("Running", wait_for_label="Running", shutdown="Stop"), Stage.STOPPING),
        (workflow("Succeeded", wait_for_label="Skipped"), Stage.DONE),  # no GPU code
        (workflow("Succeeded", wait_for_label="Succeeded", verify_gate="Succeeded"), Stage.DONE),
        (workflow("Failed", wait_for_label="Succeeded", verify_gate="Succeeded", shard="Failed"), Stage.DONE),
        (workflow("Failed", wait_for_label="Succeeded"), Stage.DONE),  # no verify-gate, without a GitHub to ask
        (workflow("Failed", wait_for_label="Failed", verify_gate="Omitted"), Stage.CLOSED),
        (workflow("Failed", wait_for_label="Succeeded", verify_gate="Failed"), Stage.CLOSED),
        (workflow("Error", wait_for_label="Skipped", verify_gate="Error"), Stage.CLOSED),
        (workflow("Failed", find_changed="Failed", wait_for_label="Omitted"), Stage.CLOSED),
        (workflow("Failed", find_changed="Failed"), Stage.CLOSED),
        (workflow("Failed", "Stopped with strategy 'Stop'", wait_for_label="Succeeded"), Stage.CLOSED),
        (workflow("Failed", shutdown="Terminate", wait_for_label="Succeeded"), Stage.CLOSED),
        (workflow("Running", wait_for_label="Succeeded", gpu_tests_passed="Succeeded"), Stage.DONE),  # the tag is left
        (workflow("Running", wait_for_label="Succeeded", gpu_tests_passed="Failed"), Stage.PAST),
    ],
)
def test_how_far_a_run_is_is_read_from_its_gate(body: dict[str, Any], stage: Stage) -> None:
    assert stage_of(body) is stage


@pytest.mark.parametrize(
    ("phase", "outputs", "expected"),
    [
        ("Succeeded", {"parameters": [{"name": "tagged", "value": "false"}]}, True),
        ("Succeeded", {"parameters": [{"name": "tagged", "value": "true"}]}, False),
        ("Running", {"parameters": [{"name": "tagged", "value": "false"}]}, False),
        ("Succeeded", {"parameters": []}, False),
        ("Succeeded", None, False),  # tagged when green, which says nothing
    ],
)
def test_a_run_that_waits_for_the_merge_says_that_it_did_not_tag(phase: str, outputs: Any, expected: bool) -> None:
    body = workflow(phase, wait_for_label="Succeeded", tag_image="Succeeded")
    body["status"]["nodes"]["id-tag_image"]["outputs"] = outputs
    assert untagged(body) is expected
    assert not untagged(workflow(phase, wait_for_label="Succeeded"))


def test_a_node_of_another_workflow_s_name_is_no_gate() -> None:
    body = workflow("Running")
    body["status"]["nodes"]["x"] = {"name": "w.gpu-tests.wait-for-label", "phase": "Running"}
    assert stage_of(body) is Stage.AHEAD


@pytest.mark.parametrize(
    "damage", [{"status": None}, {"status": []}, {"spec": None}, {"metadata": {}}, {"metadata": None}]
)
def test_a_workflow_that_lacks_what_it_must_have_is_no_run(damage: dict[str, Any]) -> None:
    body = {
        "metadata": {"name": "w", "uid": "u", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"arguments": {"parameters": [{"name": key, "value": value} for key, value in VALUES.items()]}},
        "status": {"phase": "Running"},
    }
    assert run_of(body, REPOSITORY) is not None
    run = run_of({**body, **damage}, REPOSITORY)
    assert run is None or run.phase is Phase.PENDING
