"""What the runner costs: contenders are compared only when they ran the same tests with the same outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.runner import Round


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> runner.Suite:
    return runner.tiny_suite(tmp_path_factory.mktemp("tiny") / "suite", 30)


def a_round(*, wall: float = 1.0, failed: tuple[str, ...] = (), names: str = "abcd") -> Round:
    outcomes = {("tests.test_x", name): "failed" if name in failed else "passed" for name in names}
    return Round(wall_seconds=wall, cpu_seconds=1.0, outcomes=outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("contender", [runner.plain, runner.xdist, runner.split, runner.ours])
def test_every_contender_runs_every_test(contender: runner.Contender, suite: runner.Suite, tmp_path: Path) -> None:
    suite = runner.Suite(arguments=suite.arguments, slots=2, folder=suite.folder)
    ran = contender(suite, tmp_path)
    names = {f"test_{number}" for number in range(30)}
    assert {name for _, name in ran.outcomes} == names
    assert len(ran.outcomes) == 30
    assert set(ran.outcomes.values()) == {"passed"}
    assert ran.outcomes.keys() == runner.plain(suite, tmp_path).outcomes.keys()
    assert ran.cpu_seconds > 0
    assert ran.wall_seconds > 0


def test_a_test_fails_if_one_of_its_cases_does(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<testsuites><testsuite><testcase classname="m" name="a"/><testcase classname="m" name="a"><failure/></testcase>'
        '<testcase classname="m" name="b"><error/></testcase><testcase classname="m" name="c"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    (tmp_path / "b.xml").write_text(
        '<testsuites><testsuite><testcase classname="n" name="a"/></testsuite></testsuites>'
    )
    assert runner.read_outcomes([tmp_path / "a.xml", tmp_path / "b.xml"]) == {
        ("m", "a"): "failed",
        ("m", "b"): "failed",
        ("m", "c"): "skipped",
        ("n", "a"): "passed",
    }


@pytest.mark.parametrize("other", [a_round(names="abc"), a_round(failed=("b",)), a_round(names="abcde")])
def test_a_contender_that_disagrees_with_pytest_is_named(other: Round, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.report("x", {"pytest": [a_round()], "shardlib": [a_round()]}, against="pytest")
    assert not runner.report("x", {"pytest": [a_round()], "shardlib": [a_round(), other]}, against="pytest")
    assert "round 2: not as under pytest: tests.test_x::" in capsys.readouterr().out


def test_overhead_is_of_medians_and_by_the_test() -> None:
    ran = {
        "pytest": [a_round(wall=1.0), a_round(wall=9.0), a_round(wall=2.0)],
        "shardlib": [a_round(wall=2.2), a_round(wall=1.0), a_round(wall=9.0)],
    }
    assert runner.overhead_seconds(ran) == pytest.approx(0.2 / 4)
