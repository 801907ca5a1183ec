"""proposal.json round trips, and is refused whole if anything is not as the format has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import WeightsError
from shardlib.weights.proposal import (
    HISTORY_RUNS,
    Flag,
    Mark,
    Point,
    Proposal,
    ProposedRun,
    Shift,
    SlowPod,
    TestWeight,
    dumps,
    load,
    loads,
    write,
)

from .proposals import HOSTILE, a_test, proposal_of

TEXT = st.text(st.characters(), min_size=1, max_size=20)  # lone surrogates included
SECONDS = st.floats(0, 1e6)
RUN = st.integers(0, 4)
TESTS = st.builds(
    TestWeight,
    id=TEXT,
    mode=st.none() | TEXT,
    weight=SECONDS,
    p10=SECONDS,
    p90=SECONDS,
    samples=RUN,
    effective=st.floats(0, 5),
    scatter=SECONDS,
    last_seen=RUN,
    flags=st.lists(st.sampled_from(Flag), unique=True).map(tuple),
    shift=st.none() | st.builds(Shift, run=RUN, factor=SECONDS),
    why=st.text(),
    history=st.lists(st.builds(Point, run=RUN, seconds=SECONDS, mark=st.sampled_from(Mark)), max_size=4).map(tuple),
)
PROPOSALS = st.builds(
    Proposal,
    settings=st.dictionaries(TEXT, SECONDS | st.booleans(), max_size=3),
    runs=st.lists(
        st.builds(ProposedRun, run=TEXT, when=st.none() | SECONDS, kind=TEXT, tests=st.integers(0, 9), factor=SECONDS),
        min_size=5,
        max_size=5,
    ).map(tuple),
    slow_pods=st.lists(st.builds(SlowPod, run=RUN, pod=TEXT, factor=SECONDS), max_size=2).map(tuple),
    tests=st.lists(TESTS, unique_by=lambda test: test.id, max_size=4).map(tuple),
)


@given(PROPOSALS)
def test_document_round_trips(proposal: Proposal) -> None:
    assert loads(dumps(proposal), "here") == proposal


def test_file_round_trips_with_hostile_ids(tmp_path: Path) -> None:
    proposal = proposal_of(a_test(HOSTILE, 3.0, Flag.THIN))
    write(proposal, tmp_path / "p.json")
    assert load(tmp_path / "p.json") == proposal


def change(path: tuple[str | int, ...], value: object) -> Callable[[Any], None]:
    def apply(body: Any) -> None:
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return apply


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (change(("schema",), "shardlib.proposal/9"), "schema is 'shardlib.proposal/9'"),
        (change(("extra",), 1), "unknown field 'extra'"),
        (change(("settings",), {"shards": "12"}), "'settings'"),
        (change(("runs", 0, "when"), -1), r"runs\[0\]: 'when' is -1"),
        (change(("tests", 0, "weight"), -1), r"tests\[0\]: 'weight' is -1"),
        (change(("tests", 0, "weight"), True), "'weight' is True"),
        (change(("tests", 0, "id"), ""), "'id'"),
        (change(("tests", 0, "flags"), ["odd"]), "'flags' is 'odd'"),
        (change(("tests", 0, "last_seen"), 10), "'last_seen' is 10"),
        (change(("tests", 0, "shift"), {"run": 99, "factor": 2}), "'run' is 99"),
        (change(("tests", 0, "history"), [[0, 1.0, "?"]]), "history has"),
        (change(("tests", 0, "history"), [[99, 1.0, ""]]), "history has"),
        (change(("tests", 0, "history"), [[0, "1", ""]]), "history has"),
        (change(("tests", 0, "history"), [[0, 1.0, ""]] * (HISTORY_RUNS + 1)), "'history'"),
        (change(("tests", 1, "id"), "a::t"), "a test is there twice"),
        (change(("slow_pods",), [{"run": 77, "pod": "x", "factor": 1.2}]), "'run' is 77"),
    ],
)
def test_anything_else_is_refused_with_its_place(mutate: Callable[[Any], None], message: str) -> None:
    body = json.loads(dumps(proposal_of(a_test("a::t", 1.0), a_test("b::t", 1.0))))
    mutate(body)
    with pytest.raises(WeightsError, match=message):
        loads(json.dumps(body), "p.json")


def test_missing_file_and_no_json_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no such file"):
        load(tmp_path / "p.json")
    (tmp_path / "p.json").write_text('{"schema": NaN}', encoding="ascii")
    with pytest.raises(WeightsError, match=r"p\.json: not valid JSON"):
        load(tmp_path / "p.json")
    (tmp_path / "p.json").write_bytes(b"\xff")
    with pytest.raises(WeightsError, match="not ASCII"):
        load(tmp_path / "p.json")
