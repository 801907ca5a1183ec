"""What comes to the gate from GitHub, from people and from parameters, and must not open it."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import Cluster, names
from tests.cluster.gated import is_live
from tests.cluster.projects import GatedMaker
from tests.cluster.test_refusals import assert_no_gpu_pod
from tests.cluster.test_webhook import make, refused, shown, waits

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos

TEXTS = "{{workflow.name}} {{=1+1}} {{=sprig.fail('x')}} $(id) $$ `id` '\" \r\n\x1b[31m </script> \u202e"


def test_texts_of_a_delivery_go_nowhere(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "ag-texts")
    payload = made.opened()
    pull = payload["pull_request"]
    pull |= {"title": TEXTS, "body": TEXTS, "head": {**pull["head"], "ref": TEXTS, "label": TEXTS}}
    pull["labels"] = [{"name": TEXTS}]
    made.github.state.pulls[1].title = TEXTS
    made.github.state.pulls[1].head_ref = TEXTS
    made.tell({**payload, "sender": {"login": TEXTS}, "label": {"name": TEXTS}})
    run = waits(made)
    for workflow in (*made.looked(), run.now()):
        text = json.dumps(workflow.body["spec"].get("arguments")) + json.dumps(names(workflow.nodes))
        assert "{{" not in text
        assert "sprig" not in text
        assert workflow.phase in ("Succeeded", "Running")
    assert {json.dumps(one.body["spec"]["arguments"]) for one in made.looks()} == {
        json.dumps({"parameters": [{"name": "pr", "value": "1"}]})
    }


@chaos
def test_a_number_that_is_none_goes_nowhere(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "ag-numbers")
    payload = made.opened()
    made.github.state.close(1)  # or the sweep may find it
    answers = []
    for number in ("{{workflow.name}}", "{{=1+1}}", "1; id", "../2", -1, 1.5, True, [1], {"a": 1}, 10**400):
        pull = {**payload["pull_request"], "number": number}
        answers.append(made.deliver("pull_request", {**payload, "number": number, "pull_request": pull}))
    assert {one.status for one in answers} <= {200, 401}  # 401: it is no delivery of GitHub's, whoever signed it
    for look in made.looked():
        assert "{{" not in json.dumps(look.body["spec"]["arguments"])
        assert look.phase == "Failed", look.body["spec"]["arguments"]
    assert made.runs() == []


def test_resuming_by_hand_opens_nothing_and_neither_does_a_retry_with_other_parameters(
    cluster: Cluster, gated: GatedMaker
) -> None:
    made = make(gated, cluster, "ag-resume")
    made.tell(made.opened())
    run = waits(made)
    run.resume()
    refused(made, run, "the label run-gpu-tests is not there")
    made.opened("labelled", {"src/kernel.py": "# harmless\n"})
    made.labelled(2)
    head = made.github.state.pulls[2].head_sha
    run.retry("-p", f"sha={head}", "-p", "pr=2")
    refused(made, run, "the label run-gpu-tests is not there", attempts=1)  # asked for the first one again


@chaos
def test_a_push_after_the_label_is_refused(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "ag-push")
    made.tell(made.opened())
    waits(made)
    label = made.labelled(1)
    made.tell(made.pushed(1, {"src/kernel.py": "# evil\n"}))
    head = made.github.state.pulls[1].head_sha
    run = made.run(head=head)
    made.tell(label)  # late; the look after the push has seen the label, too
    workflow = run.wait("refused", lambda one: not is_live(one))
    assert "not before the label" in workflow.attempts("verify-gate")[-1].output("summary")
    assert shown(made, head)[0] == "action_required"
    assert workflow.attempts("build-image") == []
    assert_no_gpu_pod(workflow)


@chaos
def test_a_fork_is_refused_whoever_labels_it(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "ag-fork")
    made.tell(made.opened(fork="evil/ag-fork", by="stranger"))
    run = waits(made)
    made.tell(made.labelled(1))
    refused(made, run, "its head is in the fork evil/ag-fork")
