"""Both sides over real HTTP: what stands on GitHub and in the cluster after a look, whatever went before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from shardlib.cli import main
from shardlib.errors import GateError, InfrastructureError
from shardlib.gate.argo import ArgoServer
from shardlib.gate.bursts import take_over
from shardlib.gate.github import connect
from shardlib.gate.runs import run_name
from shardlib.gate.steering import Steering
from tests.gate import github_checks
from tests.gate.argo_server import TOKEN, ArgoStandIn, serving_argo
from tests.gate.github_server import USER_TOKEN, GitHubServer

LABEL = "run-gpu-tests"


class World:
    """A pull request, a cluster, and `on_sleep`: what happens while we wait."""

    def __init__(self, github: GitHubServer, argo: ArgoStandIn) -> None:
        self.github, self.argo = github, argo
        self.pull = github.state.open("feature")
        self.said: list[str] = []
        self.slept = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return run_name("gpu-ci", "1", self.pull.head_sha)

    @property
    def calls(self) -> list[str]:
        return self.argo.workflows.calls

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.on_sleep()

    def look(self) -> None:
        """One delivery, whatever it is about."""
        steering = Steering(
            github=connect(self.github.url, USER_TOKEN, sleep=self.sleep),
            argo=ArgoServer(self.argo.url, namespace="ns", token=TOKEN),
            template="gpu-ci",
            repository="org/training",
            pr="1",
            label=LABEL,
            say=self.said.append,
            sleep=self.sleep,
        )
        steering.settle()

    def gate(self) -> None:
        """Runs come to the gate."""
        for name, item in self.argo.workflows.items.items():
            if "phase" not in item["status"]:
                self.argo.workflows.reach_the_gate(name)


@pytest.fixture
def world(server: GitHubServer) -> Iterator[World]:
    with serving_argo() as argo:
        yield World(server, argo)


def test_a_pull_request_gets_a_run_and_a_second_delivery_changes_nothing(world: World) -> None:
    world.look()
    world.look()
    assert world.calls == [f"submit {world.name}"]
    values = {
        item["name"]: item["value"]
        for item in world.argo.workflows.items[world.name]["spec"]["arguments"]["parameters"]
    }
    assert values == {"pr": "1", "sha": world.pull.head_sha, "repo": "org/training"}


def test_a_label_that_comes_before_the_gate_is_reached_is_waited_for(world: World) -> None:
    world.look()
    world.github.state.label(1)
    world.on_sleep = world.gate
    world.look()
    assert world.calls == [f"submit {world.name}", f"resume {world.name}"]


def test_a_label_that_was_there_from_the_start_needs_no_resume(world: World) -> None:
    world.github.state.label(1)
    world.argo.workflows.labelled_early = True
    world.on_sleep = world.gate
    world.look()
    assert world.calls == [f"submit {world.name}"]


@pytest.mark.parametrize("archived", [False, True])
def test_a_label_after_the_deadline_starts_the_run_again_from_the_gate_on(world: World, archived: bool) -> None:
    world.look()
    world.gate()
    world.argo.workflows.node(world.name, "wait-for-label", "Failed", "Step exceeded its deadline")
    world.argo.workflows.end(world.name, "Failed")
    if archived:
        world.argo.workflows.archive(world.name)
    world.look()
    assert world.calls == [f"submit {world.name}"]  # without a label nothing is wanted
    world.github.state.label(1)
    world.on_sleep = world.gate
    world.look()
    assert world.calls[1:] == [f"retry {world.name}", f"resume {world.name}"]


def test_a_run_that_only_the_archive_has_is_gone(world: World) -> None:
    world.look()
    world.argo.workflows.end(world.name, "Failed")
    world.argo.workflows.archive(world.name)
    del world.argo.workflows.items[world.name]
    world.look()
    assert world.calls == [f"submit {world.name}"] * 2


def test_a_run_that_was_submitted_without_the_template_s_defaults_follows_its_pull_request(world: World) -> None:
    world.argo.workflows.add(world.name, pr="1", sha=world.pull.head_sha)
    world.gate()
    world.github.state.label(1)
    world.look()
    assert world.calls == [f"resume {world.name}"]
    world.github.state.close(1)
    world.look()
    assert world.calls[1:] == [f"stop {world.name}"]


def test_two_heads_that_agree_in_as_much_as_can_be_forged_have_a_run_each(world: World) -> None:
    world.look()
    old, forged = world.name, world.pull.head_sha[:31].ljust(40, "f")  # 2^62 hashes of 124 bits
    world.github.state.push("feature", forged)
    world.look()
    assert world.calls == [f"submit {old}", f"stop {old}", f"submit {world.name}"]


def test_a_sweep_starts_nothing_again_that_nobody_has_wanted_since(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardlib.gate.steering.FIRST_PAUSE_SECONDS", 0.01)
    world.look()
    world.gate()
    world.github.state.label(1, by="reader")
    world.argo.workflows.node(world.name, "wait-for-label", "Succeeded")
    world.argo.workflows.node(world.name, "verify-gate", "Failed")
    world.argo.workflows.end(world.name, "Failed")  # in 2030
    command = argv(world, tmp_path, "open-gate", "--lately")
    assert main(command) == 0
    assert world.calls == [f"submit {world.name}"]
    world.github.state.now = datetime(2030, 1, 2, tzinfo=timezone.utc)
    world.github.state.unlabel(1)
    world.github.state.label(1, by="writer")
    assert main(command) == 0
    assert world.calls[1:] == [f"retry {world.name}"]


def test_what_verify_gate_refuses_at_once_is_tried_again_by_the_next_look_and_not_by_this_one(world: World) -> None:
    world.github.state.label(1, by="reader")

    def refuse() -> None:
        world.gate()
        if world.calls[-1].startswith("resume"):
            world.argo.workflows.node(world.name, "verify-gate", "Failed")
            world.argo.workflows.end(world.name, "Failed")

    world.on_sleep = refuse
    world.look()
    assert world.calls == [f"submit {world.name}", f"resume {world.name}"]
    world.github.state.unlabel(1)
    world.github.state.label(1, by="writer")
    world.look()
    assert world.calls[2:] == [f"retry {world.name}", f"resume {world.name}"]


def test_a_label_put_while_verify_gate_asks_is_not_left_with_a_run_that_it_refuses(world: World) -> None:
    world.look()
    world.gate()
    argo = world.argo.workflows
    argo.node(world.name, "wait-for-label", "Succeeded")
    argo.node(world.name, "verify-gate", "Running")  # it has read that a reader put the label
    world.github.state.label(1, by="writer")
    steps: Iterator[Callable[[], None]] = iter(
        [
            world.gate,  # it is slow
            world.gate,
            lambda: argo.node(world.name, "verify-gate", "Failed"),  # the exit handler runs
            lambda: argo.end(world.name, "Failed"),
        ]
    )

    def go_on() -> None:
        next(steps, world.gate)()

    world.on_sleep = go_on
    world.look()
    assert world.calls[1:] == [f"retry {world.name}", f"resume {world.name}"]


def test_a_push_stops_the_old_head_s_run_and_a_force_push_back_takes_it_up_again(world: World) -> None:
    first, old = world.pull.head_sha, world.name
    world.look()
    world.gate()
    world.github.state.push("feature", "b" * 40)
    world.look()
    new = world.name
    assert world.calls[1:] == [f"stop {old}: the head is {'b' * 40} now", f"submit {new}"]
    world.argo.workflows.end(old, "Failed")
    world.gate()
    world.github.state.force_push("feature", first)
    world.github.state.label(1)
    world.on_sleep = world.gate
    world.look()
    assert world.calls[3:] == [f"stop {new}: the head is {first} now", f"retry {old}", f"resume {old}"]


def test_closing_stops_a_run_wherever_it_is_and_reopening_starts_no_second_one(world: World) -> None:
    world.look()
    world.github.state.close(1)
    world.look()
    assert world.calls[1:] == [f"stop {world.name}"]
    world.argo.workflows.end(world.name, "Failed", "Stopped with strategy 'Stop'")
    world.look()
    world.github.state.reopen(1)
    world.look()
    assert world.calls[2:] == []


def green_run(world: World, tagged: str) -> dict[str, str]:
    """A run that ended green; returns the output by which tag-image says whether it tagged."""
    world.look()
    world.gate()
    for task in ("wait-for-label", "gpu-tests-passed", "tag-image"):
        world.argo.workflows.node(world.name, task, "Succeeded")
    world.argo.workflows.end(world.name, "Succeeded")
    output = {"name": "tagged", "value": tagged}
    tag = world.argo.workflows.items[world.name]["status"]["nodes"][f"{world.name}-tag-image"]
    tag["outputs"] = {"parameters": [output]}
    return output


@pytest.mark.parametrize("archived", [False, True])
def test_a_merge_lets_a_green_run_tag_once(world: World, archived: bool) -> None:
    tagged = green_run(world, "false")
    if archived:
        world.argo.workflows.archive(world.name)
    world.look()
    assert world.calls == [f"submit {world.name}"]
    world.github.state.merge(1)

    def end() -> None:
        if world.calls[-1].startswith("tag"):
            tagged["value"] = "true"
            world.argo.workflows.end(world.name, "Succeeded")

    world.on_sleep = end
    world.look()
    world.look()
    assert world.calls[1:] == [f"tag {world.name}"]


def test_what_ended_green_or_red_is_left_alone_whatever_the_label_does(world: World) -> None:
    world.look()
    world.gate()
    world.argo.workflows.node(world.name, "wait-for-label", "Succeeded")
    world.argo.workflows.end(world.name, "Failed")
    for flip in (world.github.state.label, world.github.state.unlabel, world.github.state.label):
        flip(1)
        world.look()
    assert world.calls == [f"submit {world.name}"]


def test_github_may_be_behind_its_own_webhook(world: World) -> None:
    world.look()
    world.gate()
    old, slept = world.name, world.slept

    def arrive() -> None:
        if world.pull.head_sha != "b" * 40:
            world.github.state.push("feature", "b" * 40)

    world.on_sleep = arrive  # after the first look
    world.look()
    assert world.calls[1:] == [f"stop {old}: the head is {'b' * 40} now", f"submit {world.name}"]
    assert world.slept > slept


def test_a_pull_request_that_is_closed_while_its_run_starts_leaves_none(world: World) -> None:
    world.on_sleep = lambda: world.github.state.close(1)
    world.look()
    assert world.calls == [f"submit {world.name}", f"stop {world.name}"]


def test_a_run_that_never_comes_to_its_gate_is_left_to_the_next_look(world: World) -> None:
    world.github.state.label(1)
    with pytest.raises(InfrastructureError, match=r"is ahead, and comes no further; the next look goes on") as caught:
        world.look()
    assert caught.value.exit_code == 75
    assert 60 < world.slept < 600


def test_a_template_that_is_not_there_is_told_in_argo_s_words(world: World) -> None:
    world.argo.workflows.act = lambda *_: (500, "x")  # type: ignore[method-assign]
    world.look()
    world.gate()
    world.github.state.label(1)
    with pytest.raises(InfrastructureError, match="500 x"):
        world.look()


def test_another_repository_s_pull_request_of_the_number_is_none_of_ours(world: World) -> None:
    world.argo.workflows.add("theirs", pr="1", sha="c" * 40, repo="org/other")
    world.argo.workflows.add("ours", pr="1", sha="c" * 40, repo="Org/Training")  # GitHub's names have no case
    world.look()
    assert world.calls == ["stop ours", f"submit {world.name}"]


def test_a_github_that_lies_moves_nothing(world: World) -> None:
    world.look()
    world.github.fault("/repos/org/training/pulls/1", body=b'{"state": "open"}')
    with pytest.raises(GateError, match="'head' is missing"):
        world.look()
    assert world.calls == [f"submit {world.name}"]


def test_a_look_takes_over_from_all_younger_ones_of_its_pull_request_that_wait_for_their_turn(world: World) -> None:
    for template, name, pr, phase in [
        ("gpu-ci-open-gate", "first", "1", "Running"),
        ("gpu-ci-open-gate", "older", "1", "Pending"),  # the server's list may be behind: it has begun, too
        ("gpu-ci-open-gate", "this", "1", "Pending"),
        ("gpu-ci-open-gate", "waits", "1", "Pending"),
        ("gpu-ci-close-gate", "unseen", "1", None),
        ("gpu-ci-open-gate", "over", "1", "Succeeded"),
        ("gpu-ci-open-gate", "theirs", "11", "Pending"),
        ("gpu-ci", "a-run", "1", "Pending"),
    ]:
        item = world.argo.workflows.add(name, pr=pr)
        item["spec"]["workflowTemplateRef"]["name"] = template
        item["status"] = {"phase": phase} if phase else {}
    argo = ArgoServer(world.argo.url, namespace="ns", token=TOKEN)
    gates = ["gpu-ci-open-gate", "gpu-ci-close-gate"]
    assert list(take_over(argo, gates, pr="1", this="this")) == ["waits", "unseen"]
    assert world.calls == ["stop waits", "stop unseen"]
    assert list(take_over(argo, gates, pr="1", this="younger than the list")) == []
    assert list(take_over(argo, gates, pr="1", this="older")) == ["this", "waits", "unseen"]


def argv(world: World, folder: Path, command: str, *more: str) -> list[str]:
    (folder / "token").write_text(f"{TOKEN}\n")
    credentials = world.github.write_credentials(folder / "github")
    options = [command, "--repository", "org/training", "--github-api", world.github.url]
    options += ["--credentials", str(credentials), "--argo-server", world.argo.url, "--namespace", "ns"]
    return [*options, "--argo-token", str(folder / "token"), *more]


def test_a_sweep_makes_up_for_lost_deliveries_and_waits_for_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardlib.gate.steering.FIRST_PAUSE_SECONDS", 0.01)
    other = world.github.state.open("other")
    closed = world.github.state.open("closed")
    world.argo.workflows.add("late", pr=str(closed.number), sha=closed.head_sha, repo="org/training")
    world.github.state.close(closed.number)
    world.github.state.label(1)
    command = argv(world, tmp_path, "open-gate", "--lately", "--check-name=gpu-tests")
    assert main(command) == 0
    names = {run_name("gpu-ci", str(pull.number), pull.head_sha) for pull in (world.pull, other)}
    assert world.calls[0] == "stop late"
    assert set(world.calls[1:]) == {f"submit {name}" for name in names}
    world.argo.workflows.end("late", "Failed")
    world.gate()
    world.github.fault(f"/repos/org/training/pulls/{other.number}", body=b"{}")
    assert main(command) == 1  # of two, one cannot be looked at
    assert world.calls[3:] == [f"resume {world.name}"]
    assert (
        f"pull request {other.number}: /repos/org/training/pulls/{other.number}: 'state' is missing"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reported", [True, False])
def test_a_sweep_gives_a_head_whose_run_was_removed_no_other(
    world: World, tmp_path: Path, reported: bool, named: bool
) -> None:
    if reported:
        run = {"name": "gpu-tests", "head_sha": world.pull.head_sha, "external_id": "uid-1", "status": "in_progress"}
        github_checks.create(world.github.state, run, "app")
    assert main(argv(world, tmp_path, "open-gate", "--lately", *(["--check-name=gpu-tests"] if named else []))) == 0
    assert world.calls == ([f"submit {world.name}"] if named and not reported else [])
    world.look()  # a delivery
    assert world.calls == [f"submit {world.name}"]


def test_a_sweep_lets_a_merged_head_s_run_tag_whose_delivery_was_lost(world: World, tmp_path: Path) -> None:
    tagged = green_run(world, "overtaken")
    world.github.state.merge(1)
    command = argv(world, tmp_path, "open-gate", "--lately")
    assert main(command) == 0
    assert world.calls == [f"submit {world.name}"]
    tagged["value"] = "false"
    assert main(command) == 0
    assert world.calls[1] == f"tag {world.name}"


def test_a_stuck_pull_request_keeps_no_other_from_the_sweep_which_says_so_at_its_end(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardlib.commands.open_gate.SWEEP_PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr("shardlib.gate.steering.FIRST_PAUSE_SECONDS", 0.01)
    pulls = [world.pull, *(world.github.state.open(branch) for branch in ("b", "c", "d"))]
    stuck = run_name("gpu-ci", str(pulls[2].number), pulls[2].head_sha)
    world.argo.workflows.add(stuck)  # something else has its name
    world.github.fault(f"/repos/org/training/pulls/{pulls[1].number}", body=b"{}")
    assert main(argv(world, tmp_path, "open-gate", "--lately", "--check-name=gpu-tests")) == 75
    out = capsys.readouterr().out
    assert f"pull request {pulls[2].number}: POST {world.argo.url}" in out
    assert f"refused: pull requests {pulls[1].number}\nto be looked at again: pull requests {pulls[2].number}\n" in out
    assert {f"submit {run_name('gpu-ci', str(pull.number), pull.head_sha)}" for pull in (pulls[0], pulls[3])} <= set(
        world.calls
    )


@pytest.mark.parametrize("command", ["open-gate", "close-gate"])
def test_the_commands_do_the_same_for_a_pull_request_as_it_is(
    world: World, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardlib.gate.steering.LAG_SECONDS", 0.0)
    monkeypatch.setattr("shardlib.gate.steering.FIRST_PAUSE_SECONDS", 0.01)
    options = argv(world, tmp_path, command, "--pr", "1", "--take-over", "this")
    for name in ("this", "waiting"):
        item = world.argo.workflows.add(name, pr="1")
        item["spec"]["workflowTemplateRef"]["name"] = f"gpu-ci-{command}"
    assert main(options) == 0
    assert world.calls.pop(0) == "stop waiting"
    del world.argo.workflows.items["waiting"]
    world.gate()
    world.github.state.close(1)
    assert main(options) == 0
    assert world.calls == [f"submit {world.name}", f"stop {world.name}: the pull request is closed"]
    out = capsys.readouterr().out
    assert f"submit {world.name}" in out
    assert "closed, not labelled" in out


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--pr", "1; rm -rf /", "--pr"),
        ("--pr", "{{workflow.name}}", "--pr"),
        ("--repository", "org/training/../x", "--repository"),
        ("--argo-server", "ftp://x", "--argo-server"),
        ("--argo-token", "/nowhere", "--argo-token"),
        ("--namespace", "../x", "--namespace"),
    ],
)
def test_what_is_not_what_it_must_be_asks_nobody(
    world: World, option: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    credentials = world.github.write_credentials(tmp_path / "github")
    options = {
        "--repository": "org/training",
        "--pr": "1",
        "--github-api": world.github.url,
        "--credentials": str(credentials),
        "--argo-server": world.argo.url,
        "--argo-token": str(tmp_path / "token"),
        "--namespace": "ns",
        option: value,
    }
    assert main(["open-gate", *(text for pair in options.items() for text in pair)]) == 11
    assert said in capsys.readouterr().err
    assert world.github.requests == []
