from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlib.errors import GateError
from shardlib.gate.approval import Actor, Decision, Event, Facts, Move, PullRequest, Question, decide, explain
from shardlib.gate.github import connect
from shardlib.gate.reading import read_facts
from tests.gate.github_server import USER_TOKEN, GitHubServer
from tests.gate.github_state import State, sha

GOOD, EVIL = sha("good"), sha("evil")
FORK = "stranger/training"
SAME_SECOND = timedelta(0)


def ask(server: GitHubServer, head: str = GOOD, *, number: int = 1, allow_forks: bool = False) -> Decision:
    """Reads and judges, as the command does."""
    question = Question(
        repository=server.state.repository, pr=number, sha=head, label="run-gpu-tests", allow_forks=allow_forks
    )
    github = connect(server.url, USER_TOKEN, patience_seconds=0)
    facts = read_facts(github, question)
    assert explain(question, facts)
    return decide(question, facts)


def approved(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1)


@pytest.mark.parametrize("by", ["maintainer", "writer"])
def test_a_label_put_by_a_writer_after_the_last_push_opens(server: GitHubServer, by: str) -> None:
    server.state.open("feature", head=EVIL)
    server.state.force_push("feature", GOOD)
    server.state.label(1, by=by)
    assert ask(server) == Decision(reasons=())


def test_an_admin_opens_and_so_does_a_label_put_again_after_anything(server: GitHubServer) -> None:
    state = server.state
    state.user("owner", "admin")
    state.open("feature", head=GOOD)
    state.label(1, by="reader")
    state.close(1)
    state.reopen(1)
    state.force_push("feature", EVIL)
    state.force_push("feature", GOOD)
    assert not ask(server).allowed
    state.unlabel(1, by="reader")
    state.label(1, by="owner")
    assert ask(server).allowed


def never_labelled(state: State) -> None:
    state.open("feature", head=GOOD)


def another_label(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1, "Run-GPU-Tests")
    state.label(1, "run-gpu-tests ")


def label_on_another_pull_request_of_the_same_commit(state: State) -> None:
    state.open("feature", head=GOOD)
    state.open("copy", head=GOOD)
    state.label(2)


def label_taken_away(state: State) -> None:
    approved(state)
    state.unlabel(1, by="triager")


def label_deleted_from_the_repository(state: State) -> None:
    """Which takes it from every pull request, without an event."""
    approved(state)
    state.pulls[1].labels.clear()


def by_a_reader(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1, by="reader")


def by_a_triager(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1, by="triager")


def put_again_by_a_triager(state: State) -> None:
    approved(state)
    state.unlabel(1, by="triager")
    state.label(1, by="triager")


def by_a_bot_that_may_write(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1, by="labeler[bot]")


def by_someone_who_may_no_longer_write(state: State) -> None:
    approved(state)
    state.permissions["maintainer"] = "read"


def by_someone_whose_account_is_gone(state: State) -> None:
    approved(state)
    del state.users["maintainer"]


def pushed_after_the_label(state: State) -> None:
    state.open("feature", head=EVIL)
    state.label(1)
    state.push("feature", GOOD)


def pushed_after_the_run_was_submitted(state: State) -> None:
    approved(state)
    state.push("feature", EVIL)


def labelled_before_there_was_a_run(state: State) -> None:
    state.open("feature", head=sha("first"))
    state.label(1)
    state.force_push("feature", GOOD)


def back_to_an_old_head_by_force(state: State) -> None:
    """Suites of an old head are old: only the force push tells."""
    state.open("feature", head=GOOD)
    state.force_push("feature", sha("benign"))
    state.label(1)
    state.force_push("feature", GOOD)
    state.activity.clear()
    state.has_activity, state.enterprise = False, "3.8.1"


def known_from_another_branch_then_forward(state: State) -> None:
    """No force push, and old suites: only the activity tells."""
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.push("feature", GOOD)


def pushed_while_closed(state: State) -> None:
    """A closed pull request has no events of pushes."""
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.close(1)
    state.push("feature", GOOD)
    state.reopen(1)


def reopened_where_nothing_tells_of_pushes(state: State) -> None:
    pushed_while_closed(state)
    state.has_activity, state.enterprise = False, "3.8.1"


def deleted_and_made_again(state: State) -> None:
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.delete_branch("feature")
    state.push("feature", GOOD)
    state.reopen(1)


def pushed_and_taken_back(state: State) -> None:
    """The head is the approved one again, but what is built may have been fetched in between."""
    approved(state)
    state.force_push("feature", EVIL)
    state.force_push("feature", GOOD)


def in_the_second_of_the_push(state: State) -> None:
    state.open("feature", head=sha("benign"))
    state.push("feature", GOOD)
    state.step = SAME_SECOND
    state.label(1)


def in_the_second_of_the_force_push(state: State) -> None:
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.step = SAME_SECOND
    state.force_push("feature", GOOD)
    state.has_activity, state.enterprise = False, "3.8.1"


def in_the_second_of_a_move_forward(state: State) -> None:
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.step = SAME_SECOND
    state.push("feature", GOOD)


def in_the_second_of_its_removal(state: State) -> None:
    state.open("feature", head=GOOD)
    state.label(1, by="reader")
    state.step = SAME_SECOND
    state.unlabel(1)
    state.label(1)


def closed(state: State) -> None:
    approved(state)
    state.close(1)


def merged(state: State) -> None:
    approved(state)
    state.merge(1)


def from_a_fork(state: State) -> None:
    state.open("feature", head=GOOD, by="stranger", repository=FORK)
    state.label(1)


def from_a_deleted_fork(state: State) -> None:
    from_a_fork(state)
    state.pulls[1].head_repository = None


def without_check_suites(state: State) -> None:
    state.apps_with_checks = ()
    approved(state)


def github_is_behind(state: State) -> None:
    """The pull request shows a push that the activity does not show yet."""
    state.push("elsewhere", GOOD)
    state.open("feature", head=sha("benign"))
    state.label(1)
    state.push("feature", GOOD)
    del state.activity[-1]


def without_any_activity(state: State) -> None:
    approved(state)
    state.activity.clear()


def may_not_read_activity(state: State) -> None:
    approved(state)
    state.has_activity = False


ATTACKS: list[tuple[Callable[[State], None], str]] = [
    (never_labelled, "label run-gpu-tests is not there"),
    (another_label, "label run-gpu-tests is not there"),
    (label_on_another_pull_request_of_the_same_commit, "label run-gpu-tests is not there"),
    (label_taken_away, "label run-gpu-tests is not there"),
    (label_deleted_from_the_repository, "label run-gpu-tests is not there"),
    (by_a_reader, "put by reader, whose permission is read"),
    (by_a_triager, "put by triager, whose permission is read"),
    (put_again_by_a_triager, "put by triager, whose permission is read"),
    (by_a_bot_that_may_write, r"put by labeler\[bot\], which is a Bot"),
    (by_someone_who_may_no_longer_write, "put by maintainer, whose permission is read"),
    (by_someone_whose_account_is_gone, "has no account any more"),
    (pushed_after_the_label, "head was pushed at 2026-03-02T09:04:00Z, not before the label"),
    (pushed_after_the_run_was_submitted, f"its head is {EVIL} by now"),
    (labelled_before_there_was_a_run, "force-pushed at"),
    (back_to_an_old_head_by_force, "force-pushed at"),
    (known_from_another_branch_then_forward, "head's branch moved at"),
    (pushed_while_closed, "head's branch moved at"),
    (reopened_where_nothing_tells_of_pushes, "it was reopened at"),
    (deleted_and_made_again, "its branch was deleted at"),
    (pushed_and_taken_back, "force-pushed at"),
    (in_the_second_of_the_push, "head was pushed at .*, not before the label"),
    (in_the_second_of_the_force_push, "force-pushed at .*, not before the label"),
    (in_the_second_of_a_move_forward, "head's branch moved at .*, not before the label"),
    (in_the_second_of_its_removal, "no event says who put the label"),
    (closed, "is closed"),
    (merged, "is closed"),
    (from_a_fork, "in the fork stranger/training"),
    (from_a_deleted_fork, "repository of its head is gone"),
    (without_check_suites, "no check suite"),
    (github_is_behind, "last move of the head's branch that GitHub tells of is not to this commit"),
    (without_any_activity, "last move of the head's branch that GitHub tells of is not to this commit"),
    (may_not_read_activity, "contents: read"),
]


@pytest.mark.parametrize(("attack", "reason"), ATTACKS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_gate_stays_closed(server: GitHubServer, attack: Callable[[State], None], reason: str) -> None:
    attack(server.state)
    decision = ask(server)
    assert not decision.allowed
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError("\n".join(decision.reasons))


# Where one rule alone closes, the others must not be what saves us.
ALONE = [
    by_a_bot_that_may_write,
    known_from_another_branch_then_forward,
    back_to_an_old_head_by_force,
    reopened_where_nothing_tells_of_pushes,
    in_the_second_of_the_force_push,
    in_the_second_of_a_move_forward,
    in_the_second_of_its_removal,
    github_is_behind,
    from_a_fork,
]


@pytest.mark.parametrize("attack", ALONE)
def test_some_attacks_only_one_rule_refuses(server: GitHubServer, attack: Callable[[State], None]) -> None:
    attack(server.state)
    assert len(ask(server).reasons) == 1


def test_a_fork_opens_where_forks_are_allowed_and_its_own_branch_is_what_counts(server: GitHubServer) -> None:
    from_a_fork(server.state)
    assert ask(server, allow_forks=True).allowed
    server.state.push("elsewhere", EVIL)
    server.state.push("feature", EVIL, repository=FORK)
    assert not ask(server, EVIL, allow_forks=True).allowed


def test_an_old_enterprise_server_opens_without_activity(server: GitHubServer) -> None:
    approved(server.state)
    server.state.has_activity, server.state.enterprise = False, "3.8.1"
    assert ask(server).allowed


def test_a_fork_stays_closed_where_an_enterprise_server_does_not_tell_how_its_branch_moved(
    server: GitHubServer,
) -> None:
    """A push that goes forward to a commit of an older pull request leaves nothing else to see."""
    from_a_fork(server.state)
    server.state.has_activity, server.state.enterprise = False, "3.8.1"
    assert any(
        "does not tell how the head's branch moved" in reason for reason in ask(server, allow_forks=True).reasons
    )


def test_a_new_base_does_not_change_what_runs(server: GitHubServer) -> None:
    approved(server.state)
    server.state.retarget(1, "release")
    assert ask(server).allowed


def test_names_of_repositories_have_no_case(server: GitHubServer) -> None:
    approved(server.state)
    server.state.pulls[1].head_repository = "Org/Training"
    for entry in server.state.activity:
        entry["repository"] = "Org/Training"
    assert ask(server).allowed


def test_a_login_that_somebody_else_took_over_is_no_approval(server: GitHubServer) -> None:
    approved(server.state)
    for event in server.state.events[1]:
        event["actor"] = "gone"
    server.state.user("gone", "read")
    server.state.users["gone"].login = "maintainer"  # the event's actor has this login, but not maintainer's id
    with pytest.raises(GateError, match="another account"):
        ask(server)


ACTIONS = st.sampled_from(
    ["push", "force_push", "back", "label", "label by reader", "unlabel", "close", "reopen", "elsewhere"]
)


@settings(max_examples=50)
@given(actions=st.lists(ACTIONS, max_size=12), same_second=st.sets(st.integers(0, 11), max_size=4))
def test_whatever_people_do_only_a_head_that_a_writer_labelled_last_opens(
    actions: list[str], same_second: set[int]
) -> None:
    with GitHubServer() as server:
        state = server.state
        state.open("feature", head=GOOD)
        approval: str | None = None  # what a person who looks at the head and puts the label means
        moved = state.now
        heads = [GOOD]
        for index, action in enumerate(actions):
            state.step = SAME_SECOND if index in same_second else timedelta(seconds=1)
            pull = state.pulls[1]
            before = (state.branches[state.repository, "feature"], pull.state)
            if action in ("push", "force_push", "back"):
                head = heads[0] if action == "back" else sha(f"commit {index % 3}")
                (state.push if action == "push" else state.force_push)("feature", head)
                heads.append(head)
                approval, moved = None, state.now
            elif action == "elsewhere":
                state.push("other", sha(f"commit {index % 3}"))
            elif action in ("label", "label by reader"):
                if "run-gpu-tests" not in pull.labels:
                    approval = None
                    if action == "label" and before[1] == "open":
                        approval = before[0]
                state.label(1, by="maintainer" if action == "label" else "reader")
                if approval is not None and state.now <= moved:
                    approval = None
            elif action == "unlabel":
                state.unlabel(1)
                approval = None
            elif action == "close" and pull.state == "open":
                state.close(1)
            elif action == "reopen" and pull.state == "closed":
                state.reopen(1)
                approval, moved = None, state.now
        head = state.pulls[1].head_sha
        allowed = ask(server, head).allowed
        if allowed:
            assert approval == head
            assert state.pulls[1].state == "open"
        state.step = timedelta(seconds=60)
        if state.pulls[1].state == "closed":
            state.reopen(1)
        state.unlabel(1)
        state.label(1)
        assert ask(server, state.pulls[1].head_sha).allowed


BASE = datetime(2026, 3, 2, tzinfo=timezone.utc)
WRITER = Actor(login="w", id=1, kind="User")
QUESTION = Question(repository="o/r", pr=1, sha=GOOD, label="go")
OPEN = Facts(
    pull=PullRequest(is_open=True, head_sha=GOOD, head_ref="f", head_repository="o/r", labels=("go",)),
    events=(Event(id=1, kind="labeled", label="go", at=BASE, actor=WRITER),),
    suites=(BASE - timedelta(seconds=9),),
    moves=(Move(after=GOOD, at=BASE - timedelta(seconds=9), kind="push"),),
    permission="write",
)
SECONDS = st.integers(-3, 3).map(lambda seconds: BASE + timedelta(seconds=seconds))
KINDS = st.sampled_from(["head_ref_force_pushed", "head_ref_deleted", "head_ref_restored", "reopened"])


@given(kind=KINDS, at=SECONDS, ids=st.integers(0, 3))
def test_an_event_of_the_head_closes_exactly_when_it_is_not_before_the_label(kind: str, at: datetime, ids: int) -> None:
    event = Event(id=ids, kind=kind, at=at, actor=WRITER)
    assert decide(QUESTION, replace(OPEN, events=(event, *OPEN.events))).allowed is (at < BASE)


@given(at=SECONDS)
def test_a_move_closes_exactly_when_it_is_not_before_the_label(at: datetime) -> None:
    assert decide(QUESTION, replace(OPEN, moves=(Move(after=GOOD, at=at, kind="push"),))).allowed is (at < BASE)


@given(suites=st.lists(SECONDS, max_size=3))
def test_the_first_suite_must_be_before_the_label(suites: list[datetime]) -> None:
    allowed = decide(QUESTION, replace(OPEN, suites=tuple(suites))).allowed
    assert allowed is (min(suites, default=BASE) < BASE)


@given(st.text(max_size=60))
def test_what_is_shown_never_moves_a_cursor(text: str) -> None:
    actor = Actor(login=text, id=1, kind=text)
    events = (Event(id=1, kind="labeled", label="go", at=BASE, actor=actor),)
    pull = replace(OPEN.pull, labels=("go", text), head_ref=text)
    facts = replace(OPEN, pull=pull, events=events, permission=text, moves=None, enterprise=text or None)
    lines = [*explain(QUESTION, facts), *decide(QUESTION, facts).reasons]
    assert all(line.isprintable() for line in lines)
