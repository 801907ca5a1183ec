from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardlib import evidence
from shardlib.gate.annotations import (
    MAX_ANNOTATIONS,
    Annotations,
    annotate,
    failure_line,
    plain,
    repository_path,
)
from shardlib.model import Outcome
from shardlib.plan import Plan
from shardlib.verdict import CountedTest, Verdict, judge
from tests.gate import github_checks
from tests.gate.github_state import State
from tests.runs import make_plan, write_run

LONG = """call:
def test_one():
>       helper()

a.py:5:
_ _ _ _ _ _ _ _

    def helper():
>       lib.check()

a.py:9:
_ _ _ _ _ _ _ _
lib.py:3: in check
    raise ValueError
E   ValueError
----- Captured stdout call -----
a.py:999: not a place, but what the test printed
"""
SHORT = "setup:\n../r/a.py:8: in fixture\n    raise ValueError\nE   ValueError: a.py:4: not at the line's start"
NATIVE = 'Traceback (most recent call last):\n  File "/lib/lib.py", line 3, in x\n  File "/r/a.py", line 7, in y\nError'
CRASH = 'Fatal Python error: Segmentation fault\n\nThread 0x1:\n  File "/lib/x.py", line 2 in x\n  File "/r/a.py", line 6 in y'


def failed_test(plan: Plan, detail: str) -> CountedTest:
    group = plan.groups[0]
    return CountedTest(
        planned=group.tests[0],
        group=group,
        shard="01",
        outcome=Outcome.FAILED,
        attempt=0,
        shared_seconds={},
        detail=detail,
    )


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (LONG.replace(".py:5:", ".py:5: ").replace(".py:9:", ".py:9: "), 9),
        (SHORT, 8),
        (NATIVE, 7),
        (CRASH, 6),
        ("no trace at all", 1),
        ("a.py:0: nonsense", 1),
        ("other/a.py:5: another file of that name", 1),
        ("", 1),
    ],
)
def test_the_line_is_the_deepest_one_in_the_tests_own_file(report: str, line: int) -> None:
    plan = make_plan()  # in /r
    assert failure_line(plan, failed_test(plan, report)) == line


SUITE = """
    import os, pytest
    def helper():
        assert 1 == 2
    def test_assertion():
        helper()
    @pytest.fixture
    def broken():
        raise ValueError("a\\nb")
    def test_setup(broken): pass
    class TestClass:
        @pytest.mark.parametrize("x", ["a@b"])
        def test_parameter(self, x):
            os.stat("/nope")
"""
LINES = {"test_assertion": 4, "test_setup": 9, "test_parameter": 14}


@pytest.mark.parametrize("style", ["auto", "long", "short", "native"])
def test_the_lines_of_real_reports_are_found(tmp_path: Path, style: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.py").write_text(textwrap.dedent(SUITE))
    (tmp_path / "reporter.py").write_text(
        "def pytest_runtest_logreport(report):\n"
        "    if report.failed: print(f'\\n@@{report.nodeid}@@{report.when}:\\n{report.longreprtext}@@')\n"
    )
    options = ["-p", "reporter", "-p", "no:cacheprovider", "-s", f"--tb={style}", "--rootdir", str(tmp_path), "a.py"]
    command = [sys.executable, "-m", "pytest", *options]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path / "deep", env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    reports = dict(re.findall(r"\n@@(.+?)@@(.+?)@@", done.stdout, re.DOTALL))
    found = {}
    for node_id, report in reports.items():
        plan = make_plan({"01": {"deep/a.py": [node_id]}})
        moved = Plan(**{**vars_of(plan), "pytest": run_in(plan, str(tmp_path), str(tmp_path / "deep"))})
        name = re.sub(r"\[.*", "", node_id).rpartition("::")[2]
        found[name] = failure_line(moved, failed_test(moved, report))
    assert found == LINES, done.stdout + done.stderr


def vars_of(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in ("settings", "strategy", "shards", "groups", "prediction")}


def run_in(plan: Plan, rootdir: str, cwd: str) -> Any:
    return type(plan.pytest)(**{**vars(plan.pytest), "rootdir": rootdir, "cwd": cwd})


def annotations_of(path: Path, plan: Plan, prefix: str = "", **outcomes: str) -> tuple[Verdict, Annotations]:
    folder = write_run(path, plan, **outcomes)
    verdict = judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))
    return verdict, annotate(plan, verdict, prefix=prefix)


def test_what_failed_is_annotated_and_what_never_ran_or_passed_is_not(tmp_path: Path) -> None:
    outcomes = {"one": "not_run", "two": "crashed", "four": "missing"}
    _, found = annotations_of(tmp_path, make_plan(), "sub/dir", **outcomes)
    assert [(one.path, one.title, one.message) for one in found.shown] == [
        ("sub/dir/a.py", "a.py::two", "crashed"),
        ("sub/dir/c.py", "c.py::four", "missing"),
    ]
    assert found.left_out == 0


def test_a_flaky_test_is_annotated_where_flaky_is_red(tmp_path: Path) -> None:
    plan = make_plan(flaky="red")
    group, shard = plan.groups[0], plan.shards[0].name
    folder = write_run(tmp_path, plan)
    shards, _ = evidence.read(folder, [shard])
    record = shards[shard].groups[group.id].versions[0]
    assert isinstance(record["tests"], list)
    record["tests"][0]["earlier"] = ["failed"]
    found = annotate(plan, judge(plan, {**evidence.read(folder, ["02"])[0], **shards}))
    assert [one.title for one in found.shown] == ["a.py::one"]
    assert found.shown[0].message.startswith("flaky")


def test_the_annotations_are_bounded_and_the_rest_counted(tmp_path: Path) -> None:
    many = MAX_ANNOTATIONS + 30
    plan = make_plan({"01": {"a.py": [f"a.py::t{index}" for index in range(many)]}})
    _, found = annotations_of(tmp_path, plan, **{f"t{index}": "failed" for index in range(many)})
    assert (len(found.shown), found.left_out) == (MAX_ANNOTATIONS, 30)
    assert [one.title for one in found.shown[:2]] == ["a.py::t0", "a.py::t1"]


@pytest.mark.parametrize(
    ("file", "prefix", "path"),
    [
        ("tests/a.py", "", "tests/a.py"),
        ("tests/a.py", "python/", "python/tests/a.py"),
        ("../a.py", "python", "a.py"),
        ("../a.py", "", None),
        ("../../a.py", "python", None),
        ("/etc/passwd", "python", None),
        ("a\nb.py", "", None),
        ("a\x1b.py", "", None),
        ("a" * 1001, "", None),
        (".", "", None),
    ],
)
def test_only_files_of_the_repository_are_annotated(file: str, prefix: str, path: str | None) -> None:
    assert repository_path(file, prefix) == path


def test_a_test_in_no_file_of_the_repository_is_counted_as_left_out(tmp_path: Path) -> None:
    plan = make_plan({"01": {"../x.py": ["../x.py::t"], "a.py": ["a.py::u"]}})
    _, found = annotations_of(tmp_path, plan, t="failed", u="failed")
    assert ([one.path for one in found.shown], found.left_out) == (["a.py"], 1)


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("by @mallory", r"@\w"),
        ("<img src=x>", r"<\w"),
        ("see https://evil.example/", r"://\w"),
        ("see www.evil.example", r"www\."),
        ("[click](x)", r"\]\("),
        ("[click][x] [x]: y", r"\]\["),
        ("&lt;b&gt;", r"&\w"),
    ],
)
def test_nothing_in_an_annotation_is_a_mention_a_link_or_a_tag(text: str, active: str) -> None:
    assert re.search(active, text)
    assert not re.search(active, plain(text, 100))
    assert plain(text, 100).replace("\u200b", "") == text


@given(st.text(), st.integers(20, 300))
@example("@" * 100, 60)
@example("x" * 100, 60)
def test_any_text_becomes_one_bounded_line(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert len(shown) <= limit
    assert shown.replace("\u200b", "").isprintable()
    assert not re.search(r"@\w|<\w|://\w|www\.\w|\]\(", shown)


@given(st.text(min_size=1), st.text(min_size=1), st.text())
def test_github_takes_an_annotation_whatever_the_test_is_called(
    tmp_path_factory: pytest.TempPathFactory, file: str, node_id: str, prefix: str
) -> None:
    plan = make_plan({"01": {file: [node_id]}})
    _, found = annotations_of(tmp_path_factory.mktemp("run"), plan, prefix, **{node_id.rpartition("::")[2]: "failed"})
    assert len(found.shown) + found.left_out == 1
    body = {"name": "n", "head_sha": "0" * 40, "output": {"title": "t", "summary": "s"}}
    body["output"] |= {"annotations": [one.to_json() for one in found.shown]}  # type: ignore[operator]
    assert github_checks.create(State(), body, "app")[0] == 201
