from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import junitparser
import pytest
from _pytest.junitxml import mangle_test_address
from hypothesis import given
from hypothesis import strategies as st

from shardlib import evidence
from shardlib.model import Outcome
from shardlib.reports.junit import junit, names
from shardlib.runfolder import RunFolder
from shardlib.verdict import Verdict, judge
from tests.runs import attempt_body, finish, make_plan, result_body, write_run


def verdict_on(folder: RunFolder) -> Verdict:
    plan = folder.read_plan()
    return judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))


def cases_of(text: str, path: Path) -> list[junitparser.TestCase]:
    path.write_text(text, encoding="utf-8")
    suites = list(junitparser.JUnitXml.fromfile(str(path)))
    assert len(suites) == 1
    cases = list(suites[0])
    assert suites[0].tests == len(cases)
    results = [type(result).__name__ for case in cases for result in case.result]
    counts = (suites[0].failures, suites[0].errors, suites[0].skipped)
    assert counts == tuple(results.count(kind) for kind in ("Failure", "Error", "Skipped"))
    return cases


def properties_of(case: junitparser.TestCase) -> dict[str, str]:
    return {prop.name: prop.value for prop in case.child(junitparser.Properties)}  # type: ignore[no-untyped-call]


def test_a_green_run_reads_back_with_where_each_test_ran(tmp_path: Path) -> None:
    cases = cases_of(junit(verdict_on(write_run(tmp_path / "run", make_plan())), 12.5), tmp_path / "x.xml")
    assert [(case.classname, case.name) for case in cases] == [
        ("a", "one"),
        ("a", "two"),
        ("b.C", "three[x]"),
        ("c", "four"),
    ]
    assert all(case.is_passed and case.time == 1.5 for case in cases)
    assert properties_of(cases[3]) == {
        "shard": "02",
        "attempt": "0",
        "mode": "concurrent",
        "gpus": "1",
        "group": "g00003",
    }


@pytest.mark.parametrize("outcome", list(Outcome))
def test_each_outcome_is_what_ci_systems_call_it(tmp_path: Path, outcome: Outcome) -> None:
    text = junit(verdict_on(write_run(tmp_path / "run", make_plan(), two=outcome.value)), 1)
    case = next(case for case in cases_of(text, tmp_path / "x.xml") if case.name == "two")
    if outcome in (Outcome.PASSED, Outcome.XPASSED):
        assert case.is_passed
    elif outcome.ok:
        assert case.is_skipped
    else:
        expected = junitparser.Error if outcome in (Outcome.ERROR, Outcome.MISSING, Outcome.NOT_RUN) else None
        assert isinstance(case.result[0], expected or junitparser.Failure)


def test_what_the_proof_lacks_is_an_error_of_its_own(tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path / "run", plan)
    folder.shard("07").start_attempt(attempt_body(plan, "07"))
    folder.shard("02").start_attempt(attempt_body(plan, "02"))
    cases = cases_of(junit(verdict_on(folder), 1), tmp_path / "x.xml")
    errors = [case for case in cases if case.classname == "shardlib.proof"]
    assert ["shard 02" in errors[0].name, "no shard 07" in errors[1].name] == [True, True]
    assert all(isinstance(case.result[0], junitparser.Error) for case in errors)


@pytest.mark.parametrize("setting", ["green", "red"])
def test_flaky_tests_and_reruns_are_marked(tmp_path: Path, setting: str) -> None:
    plan = make_plan(flaky=setting)
    folder = write_run(tmp_path / "run", plan)
    shard = folder.shard("01")
    attempt = shard.start_attempt(attempt_body(plan, "01"))
    body = result_body(plan, "01", "g00001", attempt)
    body["tests"][0] |= {"earlier": ["failed", "crashed"], "reruns": 2}
    shard.write_result("g00001", body)
    finish(shard, plan, attempt)
    case = cases_of(junit(verdict_on(folder), 1), tmp_path / "x.xml")[0]
    properties = properties_of(case)
    assert (properties["flaky"], properties["earlier"], properties["reruns"]) == ("true", "failed, crashed", "2")
    assert case.is_passed is (setting == "green")


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_id_and_reason_give_well_formed_xml(
    tmp_path_factory: pytest.TempPathFactory, name: str, reason: str
) -> None:
    plan = make_plan({"01": {"a.py": [f"a.py::t[{name}]"]}})
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_plan(plan)
    shard = folder.shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    body = result_body(plan, "01", "g00001")
    body["tests"][0] |= {"outcome": "failed", "reason": reason, "detail": reason + name}
    body["extra"] = [name]
    shard.write_result("g00001", body)
    finish(shard, plan, status=1)
    root = ET.fromstring(junit(verdict_on(folder), 1).encode())
    assert len(root.findall(".//failure")) == 1
    assert len(root.findall(".//error")) == 2  # the stranger, and the exit code


PLAIN = st.from_regex(r"[A-Za-z_][A-Za-z0-9_ .]{0,8}", fullmatch=True)


@given(
    st.lists(PLAIN, min_size=1, max_size=3), st.lists(PLAIN, min_size=1, max_size=3), st.text("ab:[]/-.\n", max_size=8)
)
def test_names_are_those_of_pytests_own_report(path: list[str], inner: list[str], parameters: str) -> None:
    file = "/".join(path) + ".py"
    node_id = "::".join([file, *inner]) + (f"[{parameters}]" if parameters else "")
    *classes, name = mangle_test_address(node_id)
    assert names(node_id, file) == (".".join(classes), name)


def test_a_bracket_in_a_files_name_is_no_parameter() -> None:
    assert names("d[1]/test_x.py::C::t[a::b]", "d[1]/test_x.py") == ("d[1].test_x.C", "t[a::b]")


def test_ids_without_two_colons_are_a_name_alone() -> None:
    assert names("README.rst", "README.rst") == ("", "README.rst")
    assert re.match("docs", names("docs/a.txt::a.txt", "other")[0])
