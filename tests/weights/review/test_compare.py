"""What a person must look at, and what not."""

from __future__ import annotations

import pytest

from shardlib.weights.proposal import Flag, Shift, TestWeight
from shardlib.weights.review.compare import Concern, Finding, Review, compare

from ..proposals import a_test, crowd, in_use, proposal_of


def review(test: TestWeight, old: float | None) -> Review:
    """Beside a crowd of 400 s on 2 shards: 0.2 % of a shard is 0.4 s and what the test adds."""
    others = crowd()
    current = in_use(*others) | ({} if old is None else {test.id: old})
    return compare(proposal_of(*others, test), current, shards=2)


def concerns(test: TestWeight, old: float | None) -> tuple[Concern, ...]:
    (finding,) = review(test, old).findings or (None,)
    return finding.concerns if isinstance(finding, Finding) else ()


@pytest.mark.parametrize(
    ("old", "new", "scatter", "changed"),
    [
        (10.0, 30.0, 0.1, True),
        (30.0, 10.0, 0.1, True),
        (10.0, 12.0, 0.01, False),  # less than x1.3
        (0.1, 0.3, 0.01, False),  # moves no shard
        (10.0, 15.0, 0.5, False),  # within its noise
        (0.0, 0.4, 0.01, False),  # rounded to 0.0 in the file: no ratio
    ],
)
def test_changed_is_large_matters_and_stands_out_of_the_noise(
    old: float, new: float, scatter: float, changed: bool
) -> None:
    assert concerns(a_test("a::t", new, scatter=scatter), old) == ((Concern.CHANGED,) if changed else ())


def test_what_all_tests_do_together_is_no_change() -> None:
    tests = crowd()
    found = compare(proposal_of(*tests), {key: value / 2 for key, value in in_use(*tests).items()}, shards=2)
    assert found.findings == ()
    assert found.common_factor == pytest.approx(2.0)


def test_test_of_two_speeds_is_flaky_and_not_changed_unless_its_level_shifted() -> None:
    flaky = a_test("a::t", 30.0, Flag.FLAKY, spread=2.0)
    assert concerns(flaky, 10.0) == (Concern.FLAKY,)
    moved = a_test("a::t", 30.0, Flag.FLAKY, Flag.SHIFTED, spread=2.0, shift=Shift(run=7, factor=3.0))
    assert concerns(moved, 10.0) == (Concern.CHANGED, Concern.FLAKY)


@pytest.mark.parametrize(
    ("test", "old"),
    [
        (a_test("a::t", 60.0, Flag.PLACEHOLDER), 60.0),
        (a_test("a::t", 8000.0), 8.0),
        (a_test("a::t", 0.01), 8.0),
        (a_test("a::t", 5 * 3600.0), 4 * 3600.0),
        (a_test("a::t", 9.0, Flag.UNIT), None),
        (a_test("a::t", 0.001, Flag.SKIPPED), 0.1),
    ],
)
def test_implausible_comes_first_and_needs_a_word(test: TestWeight, old: float | None) -> None:
    changed = a_test("b::t", 3000.0)
    current = in_use(*crowd()) | {"b::t": 1000.0} | ({} if old is None else {"a::t": old})
    found = compare(proposal_of(*crowd(), test, changed), current, shards=2)
    assert found.findings[0].test.id == "a::t"
    assert found.implausible == {"a::t"}


def test_observation_in_another_unit_that_does_not_count_leaves_the_weight_plausible() -> None:
    assert concerns(a_test("a::t", 9.0, Flag.UNIT), 9.0) == (Concern.UNIT,)


def test_worst_is_first_by_what_is_at_stake() -> None:
    tests = [a_test(f"a::t{factor}", 10.0 * factor) for factor in (2, 5, 3)]
    current = in_use(*crowd()) | {test.id: 10.0 for test in tests}
    found = compare(proposal_of(*crowd(), *tests), current, shards=2)
    assert [finding.test.id for finding in found.findings] == ["a::t5", "a::t3", "a::t2"]


def test_unsteady_and_thin_tests_are_worth_knowing_but_ask_for_nothing() -> None:
    tests = [a_test("a::flaky", 30.0, Flag.FLAKY, spread=2.0), a_test("a::thin", 30.0, Flag.THIN, samples=2)]
    found = compare(proposal_of(*crowd(), *tests), in_use(*crowd(), *tests), shards=2)
    assert found.urgent == ()
    assert {finding.test.id for finding in found.chronic} == {"a::flaky", "a::thin"}


@pytest.mark.parametrize("old", [None, 0.0, 0.001])
def test_tests_that_every_run_skipped_are_counted_and_ask_for_nothing(old: float | None) -> None:
    current = in_use(*crowd()) | ({} if old is None else {"a::t": old})
    found = compare(proposal_of(*crowd(), a_test("a::t", 0.001, Flag.SKIPPED, samples=0)), current, shards=2)
    assert found.findings == ()
    assert found.counts["always skipped"] == 1


def test_new_and_gone_are_named_and_counted() -> None:
    found = compare(
        proposal_of(a_test("a::new", 1.0), a_test("a::old", 1.0)), {"a::old": 1.0, "a::gone": 9.0}, shards=2
    )
    assert (found.new, found.gone) == (("a::new",), ("a::gone",))
    assert (found.counts["new"], found.counts["gone"]) == (1, 1)


def test_unchanged_file_needs_no_attention() -> None:
    tests = crowd()
    assert compare(proposal_of(*tests), in_use(*tests), shards=2).findings == ()
