from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import PlanError, UsageError
from shardlib.model import Group, Mode, PlannedTest, Shard, WeightSource
from shardlib.plan import Plan, Prediction
from shardlib.pytestrun import PytestRun
from shardlib.settings import Settings

RUN = PytestRun(
    version="9.2.0",
    python="3.11.7",
    rootdir="/r",
    inifile=None,
    cwd="/r/sub",
    args=("-k", "not slow", "tests"),
    hash_seed="0",
    random_seed=7,
)
TOLD = Prediction(makespan_ms=10, lower_bound_ms=8, bottleneck="area", known=1, estimated=2, stale=3)


def group(name: str, *ids: str, mode: Mode = Mode.CONCURRENT, gpus: int = 1) -> Group:
    tests = (PlannedTest(id=node_id, weight_ms=5, source=WeightSource.KNOWN, timeout_seconds=3) for node_id in ids)
    return Group(id=name, file="a.py", mode=mode, gpus=gpus, setup_ms=2, tests=tuple(tests))


def shard(name: str, *groups: str, slots: int = 8) -> Shard:
    return Shard(name=name, slots=slots, groups=groups, predicted_ms=10)


def make(shards: tuple[Shard, ...], groups: tuple[Group, ...]) -> Plan:
    return Plan(pytest=RUN, settings=Settings(), strategy="timeline", shards=shards, groups=groups, prediction=TOLD)


PLAN = make(
    (shard("01", "g00002", "g00001"), shard("cpu", "g00003", slots=4)),
    (
        group("g00001", "a.py::x", "a.py::y[1]"),
        group("g00002", "a.py::z", mode=Mode.SEQUENTIAL, gpus=8),
        group("g00003", "a.py::w", mode=Mode.CPU, gpus=0),
    ),
)


def test_a_plan_is_read_back_as_it_was_and_its_text_is_ascii() -> None:
    text = PLAN.dumps()
    assert Plan.loads(text, "p") == PLAN
    assert Plan.loads(text, "p").digest == PLAN.digest
    assert Plan.loads(text, "p").dumps() == text
    assert text.isascii()


@pytest.mark.versions
@given(st.lists(st.text(st.characters(codec=None), min_size=1), min_size=1, max_size=20, unique=True))
def test_any_node_id_survives(ids: list[str]) -> None:
    plan = make((shard("01", "g00001"),), (group("g00001", *ids),))
    again = Plan.loads(plan.dumps(), "p")
    assert again == plan
    assert again.digest == plan.digest


@pytest.mark.parametrize(
    "node_id", ["a.py::b[${{x}}]", "a.py::b[\n]", "a.py::b[\ud800]", "a.py::b['\"]", "a.py::b[" + "x" * 10_000 + "]"]
)
def test_a_hostile_node_id_survives(node_id: str) -> None:
    plan = make((shard("01", "g00001"),), (group("g00001", node_id),))
    assert Plan.loads(plan.dumps(), "p").groups[0].tests[0].id == node_id


def test_the_digest_covers_everything() -> None:
    changes: list[dict[str, Any]] = [
        {"pytest": replace(RUN, args=())},
        {"settings": Settings(unknown_seconds=31)},
        {"strategy": "lpt"},
        {"shards": (shard("01", "g00001", "g00002"), PLAN.shards[1])},
        {"groups": (replace(PLAN.groups[0], setup_ms=3), *PLAN.groups[1:])},
        {"prediction": replace(TOLD, stale=4)},
    ]
    digests = {replace(PLAN, **change).digest for change in changes}
    assert len(digests | {PLAN.digest}) == len(changes) + 1


@pytest.mark.parametrize(
    ("shards", "groups", "message"),
    [
        ((), (), "no tests"),
        ((shard("01", "g00001"),), (group("g00001", "a", "a"),), "'a' is in group g00001 and again in g00001"),
        (
            (shard("01", "g00001", "g00002"),),
            (group("g00001", "a"), group("g00002", "a")),
            "'a' is in group g00001 and again in g00002",
        ),
        ((shard("01", "g00001"),), (group("g00001"),), "g00001 has no tests"),
        ((shard("01", "g1"),), (group("g1", "a"),), "'g1': a group's id"),
        ((shard("01", "../../x"),), (group("../../x", "a"),), "a group's id"),
        ((shard("01", "g00001"),), (group("g00001\n", "a"),), "a group's id"),
        ((shard("1", "g00001"),), (group("g00001", "a"),), "shard '1'"),
        ((shard("01/..", "g00001"),), (group("g00001", "a"),), "shard '01/..'"),
        ((shard("01"),), (group("g00001", "a"),), "shard '01'"),
        (
            (shard("01", "g00001"), shard("01", "g00002")),
            (group("g00001", "a"), group("g00002", "b")),
            "shard '01'",
        ),
        ((shard("01", "g00001", "g00001"),), (group("g00001", "a"),), "in shard 01 and again in 01"),
        ((shard("01", "g00001"), shard("02", "g00001")), (group("g00001", "a"),), "in shard 01 and again in 02"),
        ((shard("01", "g00001", "g00009"),), (group("g00001", "a"),), "'g00009' that does not exist"),
        ((shard("01", "g00001"),), (group("g00001", "a"), group("g00002", "b")), "g00002 is in no shard"),
        ((shard("01", "g00001", slots=2),), (group("g00001", "a", gpus=4),), "does not fit shard 01 of 2 slots"),
        ((shard("01", "g00001"),), (group("g00001", "a", mode=Mode.CPU, gpus=0),), "does not fit shard 01"),
        ((shard("cpu", "g00001"),), (group("g00001", "a"),), "does not fit shard cpu"),
        ((shard("cpu", "g00001"),), (group("g00001", "a", mode=Mode.CPU),), "mode 'cpu' with 1 GPUs"),
        ((shard("01", "g00001"),), (group("g00001", "a", gpus=0),), "mode 'concurrent' with 0 GPUs"),
    ],
)
def test_what_is_not_exactly_once_is_no_plan_made_or_read(
    shards: tuple[Shard, ...], groups: tuple[Group, ...], message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        make(shards, groups)
    assert message in str(caught.value)
    document = json.loads(PLAN.dumps())
    body = [
        {"id": g.id, "file": g.file, "mode": g.mode, "gpus": g.gpus, "setup_ms": 0, "tests": json_tests(g)}
        for g in groups
    ]
    document |= {
        "shards": [{"name": s.name, "slots": s.slots, "groups": list(s.groups), "predicted_ms": 1} for s in shards],
        "groups": body,
    }
    with pytest.raises(PlanError) as caught:
        Plan.loads(signed(document), "p")
    assert message in str(caught.value)


def json_tests(of: Group) -> list[dict[str, Any]]:
    return [{"id": test.id, "weight_ms": 1, "source": "known"} for test in of.tests]


def signed(document: dict[str, Any]) -> str:
    """The document as someone would forge it: with the right digest."""
    body = {key: value for key, value in document.items() if key != "digest"}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({**body, "digest": hashlib.sha256(canonical.encode()).hexdigest()})


def test_a_changed_plan_is_refused_by_its_digest() -> None:
    text = PLAN.dumps().replace('"weight_ms":5', '"weight_ms":6', 1)
    with pytest.raises(PlanError, match=r"plan\.json: its digest is .* make the plan again"):
        Plan.loads(text, "plan.json")


def test_a_plan_of_another_version_is_refused_before_anything_else() -> None:
    text = PLAN.dumps().replace("shardlib.plan/1", "shardlib.plan/2")
    with pytest.raises(PlanError, match=r"'schema' is 'shardlib\.plan/2'.*another version"):
        Plan.loads(text, "p")


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "1", '"x"', "{}", '{"schema": "shardlib.plan/1"}'])
def test_what_is_no_plan_at_all_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="p"):
        Plan.loads(text, "p")


JUNK: list[Any] = [None, True, -1, 0.5, 10**30, "", "x", "\ud800", [], ["x"], [[]], {}, {"x": 1}]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in inner for path in paths(item, (*at, key)))]


def changed(document: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    copy = json.loads(json.dumps(document))
    target = copy
    for key in path[:-1]:
        target = target[key]
    change(target, path[-1])
    return copy


@given(st.data())
def test_a_forged_plan_with_any_field_changed_is_read_or_refused_and_never_breaks(data: st.DataObject) -> None:
    document = json.loads(PLAN.dumps())
    path = data.draw(st.sampled_from(paths(document)[1:]))
    junk = data.draw(st.sampled_from(JUNK))

    def put(target: Any, key: Any) -> None:
        target[key] = junk

    try:
        plan = Plan.loads(signed(changed(document, path, put)), "p")
    except PlanError:
        return
    ids = [test.id for part in plan.groups for test in part.tests]
    assert len(ids) == len(set(ids)) > 0


@pytest.mark.parametrize("path", [path for path in paths(json.loads(PLAN.dumps()))[1:] if isinstance(path[-1], str)])
def test_a_plan_that_lacks_a_field_or_has_one_more_is_refused(path: tuple[Any, ...]) -> None:
    document = json.loads(PLAN.dumps())

    def drop(target: Any, key: Any) -> None:
        del target[key]

    def add(target: Any, key: Any) -> None:
        target["unheard-of"] = 1

    optional = {"timeout_seconds", "inifile", "random_seed"}
    rewritten = {"digest"}  # `signed` puts it back
    if path[-1] not in optional | rewritten:
        with pytest.raises(PlanError):
            Plan.loads(signed(changed(document, path, drop)), "p")
    with pytest.raises(PlanError, match="unheard-of"):
        Plan.loads(signed(changed(document, path, add)), "p")


def test_lookups() -> None:
    assert PLAN.shard("cpu") is PLAN.shards[1]
    assert [g.id for g in PLAN.groups_of(PLAN.shard("01"))] == ["g00002", "g00001"]
    assert PLAN.group_of["a.py::y[1]"].id == "g00001"
    assert PLAN.shard_of["g00003"].name == "cpu"
    with pytest.raises(UsageError, match=r"no shard '02' in the plan; its shards: 01, cpu"):
        PLAN.shard("02")


def test_the_gap_of_a_plan_without_gpu_work_is_zero() -> None:
    assert replace(TOLD, makespan_ms=0, lower_bound_ms=0).gap == 0
    assert TOLD.gap == pytest.approx(0.25)
