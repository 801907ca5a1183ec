"""Only what a person let through goes into the durations file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import durations
from shardlib.errors import WeightsError
from shardlib.weights.accept import Accepted, Choices, accept, dumps, summary
from shardlib.weights.proposal import Flag, TestWeight
from shardlib.weights.review.compare import compare

from .proposals import HOSTILE, a_test, crowd, in_use, proposal_of


def accepted(tests: list[TestWeight], current: dict[str, float], **choices: object) -> Accepted:
    proposal = proposal_of(*tests)
    return accept(proposal, current, compare(proposal, current, shards=2), Choices(**choices))  # type: ignore[arg-type]


def test_weights_are_sorted_and_rounded_and_the_file_is_read_back(tmp_path: Path) -> None:
    weights = {"b::t": 1.26, "a.py": 0.0432, HOSTILE: 3.14159, "b::half": 0.4567, "b::none": 0.0001}
    found = accepted([a_test(key, weight) for key, weight in weights.items()], {})
    path = tmp_path / "d.json"
    path.write_text(dumps(found.durations), encoding="ascii")
    assert durations.load(path) == {
        "a.py": 0.043,
        "b::half": 0.46,
        "b::none": 0.001,
        "b::t": 1.3,
        HOSTILE: 3.1,
    }
    keys = list(json.loads(path.read_text(encoding="ascii")))
    assert keys == sorted(keys)


def test_implausible_key_keeps_its_old_value_unless_a_person_says_yes() -> None:
    tests = [*crowd(), a_test("a::ms", 8000.0), a_test("a::new", 60.0, Flag.PLACEHOLDER)]
    current = in_use(*crowd()) | {"a::ms": 8.0}
    held = accepted(tests, current)
    assert held.durations["a::ms"] == 8.0
    assert "a::new" not in held.durations
    assert held.held == ("a::ms", "a::new")
    taken = accepted(tests, current, yes=["a::ms"])
    assert taken.durations["a::ms"] == 8000.0
    assert taken.held == ("a::new",)


def test_only_and_except_leave_other_keys_as_they_are() -> None:
    tests = [a_test("a::t[1]", 2.0), a_test("a::t[2]", 2.0), a_test("b::t", 2.0)]
    current = {"a::t[1]": 1.5, "a::t[2]": 1.5, "b::t": 1.5}
    assert accepted(tests, current, only=["a::*"]).durations == {"a::t[1]": 2.0, "a::t[2]": 2.0, "b::t": 1.5}
    one = accepted(
        tests, current, only=["a::*"], without=["a::t[2]"]
    )  # a whole key, though brackets mean more in globs
    assert one.durations == {"a::t[1]": 2.0, "a::t[2]": 1.5, "b::t": 1.5}
    assert one.changed == ("a::t[1]",)


def test_keys_that_no_run_has_need_an_explicit_choice() -> None:
    tests, current = [a_test("a::t", 2.0)], {"a::t": 1.5, "a::gone": 9.0}
    with pytest.raises(WeightsError, match=r"'a::gone'; say --keep-unknown or --drop-unknown"):
        accepted(tests, current)
    assert accepted(tests, current, keep_unknown=True).durations == {"a::gone": 9.0, "a::t": 2.0}
    dropped = accepted(tests, current, keep_unknown=False)
    assert dropped.durations == {"a::t": 2.0}
    assert dropped.removed == ("a::gone",)


def test_estimate_stays_out_of_the_file() -> None:
    found = accepted([a_test("a::t", 30.0, Flag.ESTIMATED, samples=0), a_test("b::t", 2.0)], {})
    assert found.durations == {"b::t": 2.0}
    assert found.estimated == ("a::t",)


def test_only_a_test_that_every_run_skipped_is_0_in_the_file() -> None:
    tests = [
        *crowd(),
        a_test("a::skip", 0.0003, Flag.SKIPPED, samples=0),
        a_test("a::long_skip", 2.0, Flag.SKIPPED, samples=0),
        a_test("a::fast", 0.0),
    ]
    found = accepted(tests, {})
    assert found.durations["a::skip"] == 0.0
    assert found.durations["a::long_skip"] == 2.0
    assert found.durations["a::fast"] > 0
    assert found.skipped == ("a::long_skip", "a::skip")
    assert "2 tests skipped in every run." in summary(found, {}, proposal_of(*tests)).splitlines()


def test_weight_in_use_is_not_given_up_for_skips_without_a_word() -> None:
    tests = [*crowd(), a_test("a::skip", 0.0003, Flag.SKIPPED, samples=0)]
    current = in_use(*crowd()) | {"a::skip": 0.8}
    assert accepted(tests, current).held == ("a::skip",)
    assert accepted(tests, current).durations["a::skip"] == 0.8
    assert accepted(tests, current, yes=["a::skip"]).durations["a::skip"] == 0.0
    assert accepted(tests, current | {"a::skip": 0.0}).held == ()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"only": ["c::*"]}, r"--only 'c::\*' matches no key"),
        ({"without": ["nothing"]}, "--except 'nothing' matches no key"),
        ({"yes": ["a::t"]}, "--yes 'a::t': the review finds it plausible"),
        ({"yes": ["c::t"]}, "--yes 'c::t': no such key"),
    ],
)
def test_choice_that_does_nothing_is_an_error(choices: dict[str, list[str]], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        accepted([a_test("a::t", 2.0)], {}, **choices)


@given(st.dictionaries(st.sampled_from([f"a::t{n}" for n in range(6)]), st.floats(0.1, 1e3).map(lambda v: round(v, 3))))
def test_no_key_changes_that_nobody_chose(current: dict[str, float]) -> None:
    found = accepted([a_test("a::t0", 2.0), a_test("a::t1", 3.0)], current, only=["a::t1"], keep_unknown=True)
    assert {k: v for k, v in found.durations.items() if k != "a::t1"} == {
        k: v for k, v in current.items() if k != "a::t1"
    }


def test_summary_is_a_commit_message() -> None:
    tests = [*crowd(), a_test("a::slow\x1b[31m", 90.0), a_test("a::new", 5.0), a_test("a::odd", 9000.0)]
    current = in_use(*crowd()) | {"a::slow\x1b[31m": 30.0, "a::odd": 9.0, "a::gone": 1.0}
    found = accepted(tests, current, keep_unknown=False)
    subject, empty, *body = summary(found, current, proposal_of(*tests)).splitlines()
    assert subject == "Update GPU test durations: 1 changed, 1 added, 1 removed"
    assert len(subject) <= 72
    assert empty == ""
    assert "  30.0 s -> 1m 30s  a::slow\\x1b[31m" in body
    assert "  a::odd" in body


def test_file_edited_by_hand_stays_valid() -> None:
    found = accepted([a_test("a::t", 2.0)], {"a::t": 3, "b.py": 1.25}, keep_unknown=True)
    assert found.durations == {"a::t": 2.0, "b.py": 1.25}
