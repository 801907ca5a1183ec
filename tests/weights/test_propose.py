"""A fit in words: flags, reasons, histories, and relatives for what never ran."""

from __future__ import annotations

import pytest

from shardlib.weights.fit import FitSettings, fit
from shardlib.weights.matrix import Matrix
from shardlib.weights.proposal import HISTORY_RUNS, Flag, Mark, TestWeight, dumps, loads
from shardlib.weights.propose import propose

from .histories import matrix_of
from .test_fit import steady


def proposed(matrix: Matrix) -> dict[str, TestWeight]:
    proposal = propose(matrix, fit(matrix, FitSettings()), FitSettings())
    assert loads(dumps(proposal), "here") == proposal
    return {test.id: test for test in proposal.tests}


def test_history_says_what_became_of_each_observation() -> None:
    flags = {("a::t", 2): "skipped", ("a::t", 4): "timed_out", ("a::t", 5): "timed_out", ("a::t", 6): "failed"}
    test = proposed(matrix_of({**steady(), "a::t": [5.0] * 20}, flags=flags))["a::t"]
    assert [point.mark for point in test.history[:8]] == [
        Mark.USED,
        Mark.USED,
        Mark.SKIPPED,
        Mark.USED,
        Mark.TIMED_OUT,
        Mark.TIMED_OUT,
        Mark.FAILED,
        Mark.USED,
    ]
    assert test.samples == 16
    assert test.why == "mean of 16 of 20 observations; without: 1 skipped, 2 timed out, 1 failed"
    assert Flag.TIMED_OUT in test.flags


def test_history_is_bounded_to_the_newest_runs() -> None:
    test = proposed(matrix_of(steady(tests=3, runs=HISTORY_RUNS + 5)))["tests/test_f.py::t00"]
    assert [point.run for point in test.history] == list(range(5, HISTORY_RUNS + 5))


def test_shift_is_told_with_its_run() -> None:
    test = proposed(matrix_of({**steady(), "a::t": [10.0] * 15 + [30.0] * 5}))["a::t"]
    assert Flag.SHIFTED in test.flags
    assert test.shift is not None
    assert test.shift.run == 15
    assert test.shift.factor == pytest.approx(3.0, rel=0.1)
    assert test.why.endswith("since run run-15")


@pytest.mark.parametrize(
    ("node_id", "seconds", "why"),
    [
        ("f.py::g[new]", 4.0, "no usable run; the median of the same function's other parameters"),
        ("f.py::new", 4.0, "no usable run; the median of the same file's tests"),
        ("e.py::new", 5.5, "no usable run; the median of the same mode's tests"),
    ],
)
def test_test_without_a_usable_run_gets_its_relatives_median(node_id: str, seconds: float, why: str) -> None:
    rows: dict[str, list[float | None]] = {f"f.py::g[{n}]": [v] * 6 for n, v in enumerate((3.0, 4.0, 5.0))}
    rows |= {f"d.py::t{n}": [6.0] * 6 for n in range(3)}
    matrix = matrix_of({**rows, node_id: [0.0] * 6}, flags={(node_id, run): "crashed" for run in range(6)})
    test = proposed(matrix)[node_id]
    assert test.weight == pytest.approx(seconds, rel=0.01)
    assert test.why == why
    assert test.flags == (Flag.ESTIMATED,)


def test_test_that_every_run_skipped_is_weighed_as_what_its_skips_took() -> None:
    rows: dict[str, list[float | None]] = {**steady(), "a::t": [None, *[0.2] * 18, 0.4], "a::once": [3.0, *[0.0] * 19]}
    flags = {("a::t", run): "skipped" for run in range(1, 20)} | {("a::once", run): "skipped" for run in range(1, 20)}
    found = proposed(matrix_of(rows, flags=flags))
    assert found["a::t"].weight == pytest.approx(0.2)
    assert found["a::t"].flags == (Flag.SKIPPED,)
    assert found["a::t"].why == "skipped in all 19 runs; the median of what the skips took"
    assert found["a::once"].weight == pytest.approx(3.0, rel=0.05)
    assert Flag.SKIPPED not in found["a::once"].flags


def test_setup_without_a_usable_run_has_no_weight() -> None:
    found = proposed(matrix_of({**steady(), "a.py": [1.0, *[None] * 19]}, flags={("a.py", 0): "truncated"}))
    assert "a.py" not in found


def test_setup_is_weighed_like_a_test() -> None:
    test = proposed(matrix_of({**steady(), "tests/test_f.py": [7.0] * 20}))["tests/test_f.py"]
    assert test.is_setup
    assert test.weight == pytest.approx(7.0, rel=0.03)


def test_thin_flaky_and_unseen_tests_are_flagged() -> None:
    rows: dict[str, list[float | None]] = {
        **steady(),
        "a::thin": [None] * 18 + [5.0, 5.1],
        "a::gone": [5.0] * 8 + [None] * 12,
        "a::two": [10.0, 11.0, 40.0, 10.5] * 5,
        "a::fails": [5.0] * 20,
    }
    flags = {("a::fails", run): "failed" for run in (2, 7, 12)}
    found = proposed(matrix_of(rows, flags=flags))
    assert found["a::thin"].flags == (Flag.THIN,)
    assert Flag.UNSEEN in found["a::gone"].flags
    assert Flag.FLAKY in found["a::two"].flags
    assert Flag.FLAKY in found["a::fails"].flags
    assert not any(test.flags for key, test in found.items() if key.startswith("tests/"))
