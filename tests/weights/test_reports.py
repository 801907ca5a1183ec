"""JUnit XML, pytest-reportlog and durations files as samples; hostile and broken ones."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.reports.junit import names
from shardlib.weights import junit, logs, reportlog, sources, splits, streams
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample
from shardlib.weights.sources import Parser


def parse(parser: Parser, data: str | bytes) -> tuple[list[Found], Unread]:
    unread = Unread(source="file")
    raw = data if isinstance(data, bytes) else data.encode("utf-8")
    return list(parser(streams.opened(io.BytesIO(raw)), unread)), unread


def cases(*bodies: str) -> str:
    return f'<?xml version="1.0"?><testsuites><testsuite name="pytest">{"".join(bodies)}</testsuite></testsuites>'


def case(name: str, seconds: str = "1.5", inner: str = "", **attributes: str) -> str:
    more = " ".join(f"{key}={quoteattr(value)}" for key, value in {"classname": "tests.test_a", **attributes}.items())
    return f"<testcase {more} name={quoteattr(name)} time={quoteattr(seconds)}>{inner}</testcase>"


def only(parser: Parser, data: str) -> list[Sample]:
    (found,), unread = parse(parser, data)
    assert unread.places == []
    return list(found.samples)


@pytest.mark.parametrize(
    ("classname", "name", "file", "expected"),
    [
        ("tests.test_a", "test_b[x::y.z]", None, "tests/test_a.py::test_b[x::y.z]"),
        ("tests.test_a.TestC", "test_b", None, "tests/test_a.py::TestC::test_b"),
        ("tests.test_a.TestC.Inner", "test_b", None, "tests/test_a.py::TestC::Inner::test_b"),
        ("tests.test_a._Private", "test_b", None, "tests/test_a.py::_Private::test_b"),
        ("TestAlone", "test_b", None, "TestAlone.py::test_b"),
        ("README.md", "line 6", None, "README.md::line 6"),
        ("tests.test_a.test_lower", "test_b", "tests/test_a.py", "tests/test_a.py::test_lower::test_b"),
        ("tests.Upper.test_a.C", "test_b", "tests/Upper/test_a.py", "tests/Upper/test_a.py::C::test_b"),
        ("tests.test_a.C", "test_b", "tests\\test_a.py", "tests/test_a.py::C::test_b"),
        ("tests.test_child.C", "test_b", "tests/test_base.py", "tests/test_child.py::C::test_b"),  # inherited
    ],
)
def test_the_node_id_of_a_case(classname: str, name: str, file: str | None, expected: str) -> None:
    assert junit.node_id(classname, name, file) == expected


words = st.text("abcxyz_019", min_size=1, max_size=8)


@given(
    folders=st.lists(words, max_size=3),
    classes=st.lists(words.map(lambda word: f"T{word}"), max_size=2),
    name=st.builds("test_{}[{}]".format, words, st.text("ab[]:./ -é", max_size=12)),
)
def test_the_names_that_pytest_derives_lead_back_to_the_node_id(
    folders: list[str], classes: list[str], name: str
) -> None:
    file = "/".join([*folders, "test_m.py"])
    node_id = "::".join([file, *classes, name])
    classname, shown = names(node_id, file)
    assert junit.node_id(classname, shown) == junit.node_id(classname, shown, file) == node_id


def test_outcomes_and_flags_of_cases() -> None:
    found = only(
        junit.parse,
        cases(
            case("passed"),
            case("skipped", "0", '<skipped type="pytest.skip" message="no GPU"/>'),
            case("xfailed", "1", '<skipped type="pytest.xfail" message=""/>'),
            case("failed", "1", '<failure message="assert 0">text</failure>'),
            case("late", "9", '<failure message="Failed: Timeout (&gt;9.0s) from pytest-timeout."/>'),
            case("dead", "1", "<failure message=\"worker 'gw1' crashed while running 'x'\"/>"),
            case("error", "1", '<error message="fixture"/>'),
            case("again", "1", "<flakyFailure/>"),
        ),
    )
    assert {sample.id.rpartition("::")[2]: (sample.outcome, set(sample.flags)) for sample in found} == {
        "passed": ("passed", set()),
        "skipped": ("skipped", {"skipped"}),
        "xfailed": ("xfailed", set()),
        "failed": ("failed", {"failed"}),
        "late": ("failed", {"failed", "timed_out"}),
        "dead": ("failed", {"failed", "crashed"}),
        "error": ("error", {"failed"}),
        "again": ("passed", {"retried"}),
    }


def test_a_case_that_stands_there_twice_counts_once() -> None:
    found = only(junit.parse, cases(case("a", "1.0"), case("a", "3.0"), case("b", "2.0"), case("b", "2.001")))
    assert [(sample.seconds, sample.flags) for sample in found] == [(3.0, ("retried",)), (2.001, ())]


def test_merged_suites_are_pods_of_one_run() -> None:
    suite = '<testsuite timestamp="2026-09-11T15:05:09Z">{}</testsuite>'
    text = f"<testsuites>{suite.format(case('a'))}{suite.format(case('b'))}</testsuites>"
    (found,), _ = parse(junit.parse, text)
    assert [sample.pod for sample in found.samples] == ["suite 1", "suite 2"]
    assert found.when == 1789139109


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1/x"> %p;]>',
    ],
)
def test_a_document_type_refuses_the_file_whole(doctype: str) -> None:
    found, unread = parse(junit.parse, f'<?xml version="1.0"?>{doctype}<testsuite>{case("a")}</testsuite>')
    assert found == []
    assert "document type" in unread.places[0]


def test_a_cut_off_report_keeps_what_precedes_and_says_where_it_breaks() -> None:
    text = cases(case("a"), "\n", case("b"))
    found, unread = parse(junit.parse, text[: text.index('name="b"')])
    assert [sample.id for sample in found[0].samples] == ["tests/test_a.py::a"]
    assert unread.places[0].startswith("file:2: not XML from here on")


def test_an_endless_tag_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "MAX_TOKEN_BYTES", 1 << 20)
    found, unread = parse(junit.parse, cases(case("a"), case("b", inner=f'<failure message="{"x" * (3 << 20)}"/>')))
    assert [sample.id for sample in found[0].samples] == ["tests/test_a.py::a"]
    assert "a tag of more than" in unread.places[0]


@pytest.mark.parametrize("seconds", ["", "fast", "nan", "-1", "inf", "1e99"])
def test_a_case_without_seconds_is_counted_with_its_place(seconds: str) -> None:
    found, unread = parse(junit.parse, cases("\n", case("a", seconds), case("b", "1,234.5")))
    assert [sample.seconds for sample in found[0].samples] == [1234.5]
    assert unread.places == ["file:2: a case with no time that is seconds: 'tests.test_a a'"]


def report(when: str, duration: object, node_id: object = "a.py::t", **fields: object) -> str:
    body = {"$report_type": "TestReport", "nodeid": node_id, "when": when, "duration": duration, "outcome": "passed"}
    return json.dumps({**body, **fields})


START = json.dumps({"pytest_version": "9.2.0", "$report_type": "SessionStart"})


def test_report_logs_add_phases_and_the_last_try_counts() -> None:
    lines = [START, report("setup", 5.0), report("call", 5.0, outcome="rerun"), report("teardown", 5.0)]
    lines += [report("setup", 0.5, worker_id="gw1"), report("call", 1.0, worker_id="gw1"), report("teardown", 0.25)]
    (sample,) = only(reportlog.parse, "\n".join(lines))
    assert (sample.seconds, sample.worker, sample.flags) == (1.75, "gw1", ("retried",))


def test_a_report_logs_sessions_are_runs() -> None:
    found, _ = parse(reportlog.parse, "\n".join([START, report("call", 1.0), START, report("call", 2.0)]))
    assert [each.samples[0].seconds for each in found] == [1.0, 2.0]


def test_report_logs_say_skipped_failed_and_expected() -> None:
    lines = [
        report("setup", 0.1, "a.py::s", outcome="skipped"),
        report("call", 0.1, "a.py::x", outcome="skipped", wasxfail="reason"),
        report("call", 0.1, "a.py::p", wasxfail="reason"),
        report("call", 0.1, "a.py::f", outcome="failed", longrepr={"reprcrash": {"message": "Timeout (>0.1s)"}}),
        report("setup", 0.1, "a.py::e", outcome="failed"),
        report("call", 0.1, "a.py::c", outcome="failed", longrepr="worker 'gw0' crashed while running 'a.py::c'"),
    ]
    assert {sample.id[-1]: (sample.outcome, sample.flags) for sample in only(reportlog.parse, "\n".join(lines))} == {
        "s": ("skipped", ("skipped",)),
        "x": ("xfailed", ()),
        "p": ("xpassed", ()),
        "f": ("failed", ("failed", "timed_out")),
        "e": ("error", ("failed",)),
        "c": ("failed", ("crashed", "failed")),
    }


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        report("run", 1.0),
        report("call", -1.0),
        report("call", "1"),
        report("call", 1.0, 7),
        '{"$report',
    ],
)
def test_a_line_that_is_no_report_is_counted_with_its_place(line: str) -> None:
    found, unread = parse(reportlog.parse, "\n".join([START, line, report("call", 1.0)]))
    assert len(found[0].samples) == 1
    assert [place.partition(": ")[0] for place in unread.places] == ["file:2"]


def test_durations_of_pytest_split_old_and_new() -> None:
    assert only(splits.parse, '{"a.py::t": 1.5, "a.py": 20}') == [
        Sample(id="a.py::t", seconds=1.5),
        Sample(id="a.py", seconds=20.0),
    ]
    assert only(splits.parse, '[["a.py::t", 1.5]]') == [Sample(id="a.py::t", seconds=1.5)]


@pytest.mark.parametrize("text", ["{", '{"a::b": 1, "a::b": 2}', '{"a::b": NaN}', '"text"', "[" * 100_000, "\xff"])
def test_a_durations_file_of_another_shape_is_not_used(text: str) -> None:
    found, unread = parse(splits.parse, text)
    assert found == []
    assert "no durations" in unread.places[0]


def test_entries_that_are_no_seconds_are_counted() -> None:
    found, unread = parse(splits.parse, '{"a::b": "1", "a::c": -1, "": 1, "a::d": true, "a::e": 1e300, "a::f": 2}')
    assert [sample.id for sample in found[0].samples] == ["a::f"]
    assert unread.total == 5


@pytest.mark.parametrize(
    ("head", "parser"),
    [
        (b'<?xml version="1.0"?>', junit.parse),
        (b"\n <testsuite>", junit.parse),
        ('\ufeff<?xml version="1.0"?>'.encode("utf-16"), junit.parse),
        (START.encode(), reportlog.parse),
        (b'{\n  "a.py::t": 1.5,', splits.parse),
        (b'[["a.py::t", 1.5]]', splits.parse),
        (b'{"log":"1.0s call a::b"}', logs.parse),
        (b"[gw0] PASSED", logs.parse),
        (b"", logs.parse),
    ],
)
def test_a_content_tells_its_parser(head: bytes, parser: Parser) -> None:
    assert sources.parser_for(head) is parser


def _mixed(texts: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(texts) | st.text(max_size=10), max_size=20).map("".join)


XML = [
    "<testsuites>",
    "<testsuite>",
    case("a"),
    "</testsuite>",
    "<testcase",
    ' time="1"',
    "/>",
    "<![CDATA[",
    "&#0;",
    "&x;",
]


@given(text=_mixed(XML))
def test_no_xml_crashes_the_parser(text: str) -> None:
    parse(junit.parse, text.encode("utf-8", "surrogatepass"))


@given(text=_mixed([START, "\n", report("call", 1.0), '{"$report_type":', '"TestReport"', "}", "null", "1e999"]))
def test_no_report_log_crashes_the_parser(text: str) -> None:
    parse(reportlog.parse, text.encode("utf-8", "surrogatepass"))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(
    value=json_values, key=st.sampled_from(["nodeid", "when", "duration", "outcome", "start", "worker_id", "longrepr"])
)
def test_no_value_crashes_the_json_parsers(value: object, key: str) -> None:
    parse(splits.parse, json.dumps(value))
    parse(reportlog.parse, report("call", 1.0, **({key: value} if key not in ("when", "duration") else {})))
    parse(reportlog.parse, json.dumps({**json.loads(report("call", 1.0)), key: value}))
    parse(reportlog.parse, json.dumps(value))


def _truncations(data: bytes) -> Iterator[bytes]:
    for end in range(0, len(data), 7):
        yield data[:end]


def test_no_truncation_crashes_a_parser() -> None:
    for parser, text in ((junit.parse, cases(case("a"), case("b"))), (reportlog.parse, report("call", 1.0))):
        for data in _truncations(text.encode()):
            parse(parser, data)
