"""A run's JUnit XML: one suite for all shards, since tests move between shards and CI systems compare by suite. Pure.

Names are those of pytest's junitxml, so that a history that a CI system already has goes on. Shard, attempt, mode and
group are properties of each case. What makes a run red beside a test's outcome is a case of its own, an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from shardlib.escape import printable, xml
from shardlib.model import Outcome
from shardlib.verdict import CountedTest, Kind, Verdict

PROOF_CLASS = "shardlib.proof"
_SUITE = "pytest"  # pytest's own default name
_ERRORS = frozenset({Outcome.ERROR, Outcome.MISSING, Outcome.NOT_RUN})
_SKIPS = {Outcome.SKIPPED: "pytest.skip", Outcome.XFAILED: "pytest.xfail"}


def junit(verdict: Verdict, makespan_seconds: float) -> str:
    """Returns the XML text; `makespan_seconds` is the suite's time."""
    cases: list[str] = []
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    elements = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for case in _cases(verdict):
        counts["tests"] += 1
        for child in case:
            if child.tag in elements:
                counts[elements[child.tag]] += 1
        cases.append(ET.tostring(case, encoding="unicode"))
    suite = ET.Element("testsuite", name=_SUITE, time=f"{makespan_seconds:.3f}")
    suite.attrib.update({key: str(count) for key, count in counts.items()})
    head = ET.tostring(suite, encoding="unicode", short_empty_elements=False).removesuffix("</testsuite>")
    body = "\n".join(cases)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>{head}\n{body}\n</testsuite></testsuites>\n'


def names(node_id: str, file: str) -> tuple[str, str]:
    """Returns classname and name of a test as pytest's junitxml derives them from its node id.

    pytest looks for the parameters' bracket before or after it takes the file off, by its version; the plan knows the
    file, so that a bracket in its name is no question.
    """
    rest = node_id.removeprefix(f"{file}::") if node_id.startswith(f"{file}::") else None
    if rest is None:  # an item of a plugin whose ids have a shape of their own
        file, _, rest = node_id.partition("::")
    inner, bracket, parameters = rest.partition("[")
    *classes, name = inner.split("::")
    module = re.sub(r"\.py$", "", file.replace("/", "."))
    if not rest:
        return "", module
    return ".".join([module, *classes]), name + bracket + parameters


def _cases(verdict: Verdict) -> Iterator[ET.Element]:
    explained = (Kind.FAILED, Kind.LOST)
    for reason in verdict.reasons:
        if reason.kind in explained and reason.id is not None:
            continue
        name = printable(f"{reason.kind.name.lower()} {reason.id or reason.text}")
        case = ET.Element("testcase", classname=PROOF_CLASS, name=name, time="0")
        ET.SubElement(case, "error", message=printable(reason.text)).text = xml(f"{reason.id or ''} {reason.text}")
        yield case
    flaky_is_red = {reason.id for reason in verdict.reasons if reason.kind is Kind.FAILED}
    for test in verdict.tests:
        yield _case(test, flaky_is_red=test.planned.id in flaky_is_red)


def _case(test: CountedTest, *, flaky_is_red: bool) -> ET.Element:
    classname, name = names(test.planned.id, test.group.file)
    case = ET.Element("testcase", classname=xml(classname), name=xml(name), time=f"{test.seconds:.3f}")
    properties = ET.SubElement(case, "properties")
    for key, value in _properties(test):
        ET.SubElement(properties, "property", name=key, value=xml(value))
    outcome = test.outcome
    message = xml(test.reason[:500] or outcome.value.replace("_", " "))
    if outcome in _SKIPS:
        ET.SubElement(case, "skipped", type=_SKIPS[outcome], message=message).text = xml(test.reason)
    elif not outcome.ok:
        tag = "error" if outcome in _ERRORS else "failure"
        ET.SubElement(case, tag, type=outcome.value, message=message).text = xml(test.detail or test.reason)
    elif test.flaky and flaky_is_red:
        ET.SubElement(case, "failure", type="flaky", message="failed in an earlier attempt, passed now")
    return case


def _properties(test: CountedTest) -> Iterator[tuple[str, str]]:
    yield "shard", test.shard
    yield "attempt", "none" if test.attempt is None else str(test.attempt)
    yield "mode", test.group.mode.value
    yield "gpus", str(test.group.gpus)
    yield "group", test.group.id
    if test.reruns:
        yield "reruns", str(test.reruns)
    if test.earlier:
        yield "earlier", ", ".join(outcome.value for outcome in test.earlier)
    if test.flaky:
        yield "flaky", "true"
