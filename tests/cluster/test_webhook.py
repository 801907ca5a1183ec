"""GitHub's signed deliveries, to Argo's server: what runs of a pull request there are, and what its check says."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from tests.cluster.cluster import Cluster, Run, Workflow, running
from tests.cluster.gated import Answer, GatedProject, is_live
from tests.cluster.projects import GatedMaker
from tests.cluster.registry import digest_of
from tests.cluster.suites import suite
from tests.cluster.test_infrastructure import HELD, HOLDS
from tests.cluster.test_refusals import assert_no_gpu_pod
from tests.cluster.test_stopping import BUILDS_FOR_EVER

pytestmark = pytest.mark.cluster
chaos = pytest.mark.chaos

WAITING = ("action_required", "Waiting for the label run-gpu-tests")
AT_THE_GATE = ("action_required", "Ended at the gate: nothing was run")
RUNNING = (None, "Running")
FLIPS = 300


def make(gated: GatedMaker, cluster: Cluster, name: str, **settings: object) -> GatedProject:
    return gated(name, suite(cluster.registry, name), **{"shards": 2, "gpus": 2, **settings})


def shown(made: GatedProject, head: str | None = None) -> tuple[str | None, str]:
    """How the check of a head ended (None: it has not), and its title."""
    check = made.check(head)
    assert check is not None, f"no check of {head or made.head}"
    return check["conclusion"], check["output"]["title"]


def waits(made: GatedProject, head: str | None = None) -> Run:
    """The run of a head, once it is at the gate and its check says so."""
    run = made.run(head=head)
    run.suspended()
    assert shown(made, head) == WAITING
    return run


def passed(run: Run) -> Workflow:
    """The run once verify-gate let it through."""
    return run.wait("through the gate", lambda one: bool(one.attempts("build-image")))


def refused(made: GatedProject, run: Run, why: str, attempts: int = 1) -> Workflow:
    """The run once verify-gate refused it for a reason, which its summary and the check give."""
    workflow = run.wait("refused", lambda one: len(one.attempts("verify-gate")) == attempts and not is_live(one))
    assert workflow.phase == "Failed"
    gate = workflow.attempts("verify-gate")[-1]
    assert gate.exit_code == 1
    assert why in gate.output("summary")
    conclusion, title = shown(made)
    assert conclusion == "action_required"
    assert title.startswith("Refused: ")
    assert why in title
    assert workflow.attempts("build-image") == []
    assert_no_gpu_pod(workflow)
    return workflow


def assert_looked(made: GatedProject) -> None:
    """Every look ended well, or because another took over from it."""
    ends = {(one.phase, one.body["status"].get("message", "")) for one in made.looked()}
    assert ends <= {("Succeeded", ""), ("Failed", "Stopped with strategy 'Stop'")}


def test_the_label_opens_the_way_to_the_tag(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-green")
    began = time.monotonic()
    made.tell(made.opened())
    run = waits(made)
    print(f"{'signed delivery to suspended':<58} {time.monotonic() - began:6.1f} s")
    began = time.monotonic()
    made.tell(made.labelled(1))
    run.wait("at its shards", running("gpu-tests"))
    print(f"{'label to the first running GPU pod':<58} {time.monotonic() - began:6.1f} s")
    workflow = run.end("Succeeded")
    assert workflow.node("verify-gate").output("sha") == made.head
    assert digest_of(cluster, "wh-green:main") == workflow.node("build-image").output("digest")
    conclusion, title = shown(made)
    assert conclusion == "success"
    assert title.startswith("GREEN: 12 tests in 2 shards")
    assert len(made.runs()) == 1
    assert_looked(made)


def test_runs_follow_the_head_and_end_with_the_pull_request(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-follow")
    made.tell(made.opened())
    first = waits(made)
    made.tell(made.pushed(1, {"src/kernel.py": "# faster still\n"}))
    head = made.github.state.pulls[1].head_sha
    second = waits(made, head)
    gate = first.end("Failed").node("wait-for-label")
    assert (gate.phase, gate.message) == ("Failed", f"the head is {head} now")
    assert shown(made) == AT_THE_GATE
    made.tell(made.closed(1))
    gate = second.end("Failed").node("wait-for-label")
    assert (gate.phase, gate.message) == ("Failed", "the pull request is closed")
    made.tell(made.reopened(1))
    made.tell(made.labelled(1))
    passed(second)
    made.tell(made.closed(1))  # in the middle of its build
    second.end("Failed")
    second.wait("without pods", lambda _: second.living_pods() == [])
    assert len(made.runs()) == 2
    assert_looked(made)


def test_a_reader_opens_nothing_and_a_writer_does_afterwards(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-reader")
    made.tell(made.opened())
    run = waits(made)
    made.tell(made.labelled(1, by="reader"))
    refused(made, run, "the label was put by reader, whose permission is read")
    made.tell(made.unlabelled(1))
    made.tell(made.labelled(1))
    passed(run)
    assert shown(made) == RUNNING
    cluster.argo("terminate", run.name)  # which runs no exit handler
    run.end("Failed")
    made.swept().end("Succeeded")  # which does not start it again, though the label is there
    assert shown(made) == ("cancelled", "Stopped")
    assert not is_live(run.now())


@chaos
def test_without_gpu_code_the_check_is_green_and_says_why(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-docs", gpu_paths=["src/*"])
    made.tell(made.opened("docs", {"README.md": "words\n"}))
    head = made.github.state.pulls[1].head_sha
    workflow = made.run(head=head).end("Succeeded")
    assert {node.template for node in workflow.nodes if node.body["type"] == "Pod"} == {"find-changed", "conclude"}
    assert shown(made, head) == ("success", "Not needed: no GPU code changed")
    made.tell(made.labelled(1))  # changes nothing
    assert_looked(made)
    assert not is_live(made.run(head=head).now())
    assert shown(made, head) == ("success", "Not needed: no GPU code changed")


def test_no_delivery_is_answered_by_an_error_that_means_nothing(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-status")
    opened = made.opened()
    pull = opened["pull_request"]
    none_of_ours: list[tuple[str, object]] = [
        ("ping", {"zen": "Keep it logically awesome.", "hook_id": 1, "repository": opened["repository"]}),
        ("push", {"ref": "refs/heads/main", "repository": opened["repository"]}),
        ("check_suite", {"action": "requested", "check_suite": {"id": 1}, "repository": opened["repository"]}),
        ("installation", {"action": "created", "installation": {"id": 1}}),
        ("issues", {"action": "labeled", "issue": {"number": 1}, "repository": opened["repository"]}),
        *(
            ("pull_request", {**opened, **change})
            for change in (
                {"action": "edited"},
                {"action": "assigned", "assignee": None},
                {"action": "labeled", "label": {"name": "another"}},
                {"action": "labeled", "label": None},
                {"action": "labeled"},
                {"action": None},
                {"pull_request": None},
                {"pull_request": {**pull, "number": None}},
                {"repository": None},
                {"repository": {"full_name": "somebody/else"}},
                {"repository": {"full_name": None}},
            )
        ),
        ("pull_request", {}),
        ("pull_request", {"action": "opened"}),
        ("pull_request", {"action": "closed", "repository": opened["repository"]}),
    ]
    answers = [(event, payload, made.deliver(event, payload)) for event, payload in none_of_ours]
    assert [one for one in answers if one[2].status != 200] == []
    for signature in ("", "sha256=" + "0" * 64, "sha1=" + "0" * 40):
        assert made.deliver("pull_request", opened, signature=signature).status == 401
    assert made.looks() == []
    again = [made.deliver("pull_request", opened, delivery="72d3162e-cc78-11e3-81ab-4c9367dc0958") for _ in range(3)]
    assert [one.status for one in again] == [200, 200, 200]
    waits(made)
    assert len(made.runs()) == 1
    assert_looked(made)


@chaos
def test_a_label_before_the_gate_is_reached_counts(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-early")
    made.tell(made.opened())
    made.tell(made.labelled(1))
    passed(made.run())
    assert shown(made) == RUNNING
    assert len(made.runs()) == 1
    assert_looked(made)


@chaos
def test_a_label_that_is_gone_before_it_is_verified_opens_nothing(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-unlabel")
    made.tell(made.opened())
    run = waits(made)
    labelled, unlabelled = made.labelled(1), made.unlabelled(1)
    made.tell(labelled)
    assert made.deliver("pull_request", unlabelled).status == 200
    assert_looked(made)
    waits(made)  # still
    run.resume()  # by hand
    refused(made, run, "the label run-gpu-tests is not there")
    made.tell(made.labelled(1))
    passed(run)


@chaos
def test_a_label_after_the_gates_deadline_starts_again_from_there(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-late", deadline_seconds=60)
    made.tell(made.opened())
    run = waits(made)
    assert "deadline" in run.end("Failed").node("wait-for-label").message
    assert shown(made) == AT_THE_GATE
    made.tell(made.labelled(1))
    workflow = passed(run)
    assert len(workflow.attempts("find-changed")) == 1
    assert len(made.runs()) == 1


@chaos
def test_a_head_that_comes_back_needs_a_new_label(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-back")
    made.tell(made.opened())
    first = waits(made)
    made.tell(made.pushed(1, {"src/kernel.py": "# evil\n"}))
    other = made.github.state.pulls[1].head_sha
    second = waits(made, other)
    first.end("Failed")
    made.tell(made.labelled(1))
    passed(second)
    made.tell(made.force_pushed(1, made.head))
    second.end("Failed")
    refused(made, first, "its branch was force-pushed")
    made.tell(made.unlabelled(1))
    made.tell(made.labelled(1))
    passed(first)
    assert len(made.runs()) == 2
    assert_looked(made)


@chaos
def test_deliveries_may_come_in_any_order_and_twice(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-order")
    old = made.opened()
    pushed = made.pushed(1, {"src/kernel.py": "# faster still\n"})
    closed, reopened, labelled = made.closed(1), made.reopened(1), made.labelled(1)
    for payload in (labelled, closed, reopened, closed, pushed, old, labelled, old):
        made.tell(payload)
    run = made.run(head=pushed["after"])
    passed(run)
    assert_looked(made)
    assert [one.body["metadata"]["name"] for one in made.runs()] == [run.name]  # no look ever saw the old head


@chaos
def test_github_being_down_keeps_the_gate_closed_until_it_is_back(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-down")
    made.tell(made.opened())
    run = waits(made)
    assert_looked(made)
    labelled = made.labelled(1)
    down = made.github.fault(".*", status=503, headers={"Retry-After": "3600"}, times=None)
    run.resume()  # what the look would do that GitHub being down keeps from it
    workflow = run.end("Failed")
    assert [node.exit_code for node in workflow.attempts("verify-gate")] == [75, 75, 75]
    assert_no_gpu_pod(workflow)
    made.github.faults.remove(down)
    once = made.github.fault(r"/app/installations/\d+/access_tokens", status=503, headers={"Retry-After": "3600"})
    made.tell(labelled)
    workflow = passed(run)
    assert once.times == 0
    assert shown(made) == RUNNING


@chaos
def test_a_run_that_was_terminated_at_its_gate_starts_again_by_the_label(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-sweep")
    made.opened()  # whose delivery is lost
    made.swept().end("Succeeded")
    run = waits(made)
    cluster.argo("terminate", run.name)
    run.end("Failed")
    made.swept().end("Succeeded")
    assert shown(made) == WAITING  # which is still what has to be done
    made.github.state.now = datetime.now(timezone.utc)
    made.labelled(1)  # and this one's
    made.swept().end("Succeeded")
    passed(run)
    assert len(made.runs()) == 1


@chaos
def test_a_run_that_is_built_again_proves_everything_again(cluster: Cluster, gated: GatedMaker) -> None:
    files = suite(cluster.registry, "wh-again", held=HOLDS)
    made = gated("wh-again", files, shards=2, gpus=2)
    made.tell(made.opened())
    run = waits(made)
    made.tell(made.labelled(1))
    run.wait("in the middle of its tests", lambda _: HELD in run.events("start"))
    first = passed(run).node("build-image").output("digest")
    made.tell(made.closed(1))
    run.end("Failed")
    (cluster.volume / "control" / made.name / "go").touch()
    made.tell(made.unlabelled(1))
    made.tell(made.reopened(1))
    made.tell(made.labelled(1))
    workflow = run.wait("green", lambda one: one.phase == "Succeeded")
    assert workflow.attempts("build-image")[-1].output("digest") != first
    report = run.report()
    assert report["verdict"] == "green"
    assert sum(report["outcomes"].values()) == len(run.events("start"))  # none of them counts from before
    assert shown(made)[0] == "success"


@chaos
def test_the_tag_waits_for_the_merge(cluster: Cluster, gated: GatedMaker) -> None:
    made = make(gated, cluster, "wh-merge", tag_when="merged")
    made.tell(made.opened())
    run = made.run()
    made.tell(made.labelled(1))
    workflow = run.end("Succeeded")
    assert digest_of(cluster, "wh-merge:main") is None
    made.tell(made.merged(1))
    run.wait("tagged", lambda one: digest_of(cluster, "wh-merge:main") is not None)
    workflow = run.end("Succeeded")
    assert digest_of(cluster, "wh-merge:main") == workflow.node("build-image").output("digest")
    assert len(workflow.attempts("build-image")) == len(workflow.attempts("gpu-tests-passed")) == 1
    assert_looked(made)


@chaos
def test_a_burst_of_labels_leaves_one_run_and_no_look(cluster: Cluster, gated: GatedMaker) -> None:
    files = suite(cluster.registry, "wh-burst")
    files["Dockerfile"] += BUILDS_FOR_EVER
    made = gated("wh-burst", files, shards=2, gpus=2)
    made.tell(made.opened())
    run = waits(made)
    flips, order = itertools.cycle((made.labelled, made.unlabelled)), threading.Lock()

    def flip(_: int) -> Answer:
        with order:
            payload = next(flips)(1)
        return made.deliver("pull_request", payload)

    with counting(made) as live:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(flip, range(FLIPS + 1)))  # the last one labels
        print(f"{f'{len(answers)} deliveries answered':<58} {time.monotonic() - began:6.1f} s")
        assert {answer.status for answer in answers} == {200}
        looks = made.looked(
            1800
        )  # Argo ends each one that was stopped by itself: on two busy cores one in a second or two
        print(f"{'all looks ended':<58} {time.monotonic() - began:6.1f} s")
        assert_looked(made)
        passed(run)
    began_to_look = sum(look.phase == "Succeeded" for look in looks)
    print(f"{'looks that looked, of one for each label':<58} {began_to_look:4} of {len(looks)}")
    assert max(live) == 1
    assert [one.body["metadata"]["name"] for one in made.runs()] == [run.name]
    made.tell(made.closed(1))
    run.end("Failed")
    assert_looked(made)
    run.wait("without pods", lambda _: run.living_pods() == [])


@contextlib.contextmanager
def counting(made: GatedProject) -> Iterator[list[int]]:
    """Counts the live runs, again and again."""
    counts, over = [0], threading.Event()

    def count() -> None:
        while not over.wait(0.5):
            counts.append(sum(is_live(one) for one in made.runs()))

    watcher = threading.Thread(target=count)
    watcher.start()
    try:
        yield counts
    finally:
        over.set()
        watcher.join()
