"""Failed tests as annotations of a GitHub check: each at its file and line, in text that GitHub takes for text. Pure.

The line is read from the failure's report, which pytest writes as `path:line: ` (styles long, short) or `File "path",
line N` (native, and faulthandler's of a crash). A test whose report names no line of its own file is put at line 1.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlib.escape import printable
from shardlib.model import Outcome
from shardlib.plan import Plan
from shardlib.verdict import CountedTest, Kind, Verdict

MAX_ANNOTATIONS = 200  # of a check: what a person may still look through in a diff (a guess); the report has all
_MAX_PATH = 1_000  # characters
_MAX_TITLE = 250  # GitHub takes 255
_MAX_MESSAGE = 500
_PLACE = re.compile(r'^(?:\s*File "(?P<file>.+?)", line (?P<number>\d{1,7})|(?P<path>\S.*?):(?P<line>\d{1,7}): )')
_ACTIVE = re.compile(r"@|<|&|://|www(?=\.)|\](?=[(\[:])")
_BREAK = "\u200b"  # zero width space
_MARK = 5  # what `printable` may add where it cuts


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """One failed test at a line of a file of the repository."""

    path: str
    line: int
    title: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Returns it as GitHub's REST API takes it."""
        place = {"path": self.path, "start_line": self.line, "end_line": self.line}
        return {**place, "annotation_level": "failure", "title": self.title, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class Annotations:
    """The annotations of a run, and how many failed tests have none: too many, or in no file of the repository."""

    shown: tuple[Annotation, ...]
    left_out: int


def annotate(plan: Plan, verdict: Verdict, *, prefix: str = "") -> Annotations:
    """Returns an annotation for each test that ran and failed, in the plan's order.

    Tests that were not run have none: what kept them from running is no line of theirs.

    Args:
        plan: whose rootdir the tests' files are relative to.
        verdict: the run's.
        prefix: the rootdir's path within the repository; empty if it is the repository's root.
    """
    reasons = {reason.id: reason.text for reason in verdict.reasons if reason.kind in (Kind.FAILED, Kind.LOST)}
    shown: list[Annotation] = []
    left_out = 0
    for test in verdict.tests:
        text = reasons.get(test.planned.id)
        if text is None or test.outcome is Outcome.NOT_RUN:
            continue
        path = repository_path(test.group.file, prefix) if len(shown) < MAX_ANNOTATIONS else None
        if path is None:
            left_out += 1
            continue
        title, message = plain(test.planned.id, _MAX_TITLE), plain(text, _MAX_MESSAGE)
        shown.append(Annotation(path=path, line=failure_line(plan, test), title=title, message=message))
    return Annotations(shown=tuple(shown), left_out=left_out)


def repository_path(file: str, prefix: str) -> str | None:
    """Returns a test file's path within the repository; None if it lies outside, or no path of a sane repository."""
    path = posixpath.normpath(posixpath.join(prefix, file))
    if posixpath.isabs(path) or path.split("/")[0] in (".", "..") or len(path) > _MAX_PATH or not path.isprintable():
        return None
    return path


def failure_line(plan: Plan, test: CountedTest) -> int:
    """Returns the deepest line of the test's own file in its failure's report; 1 if the report names none."""
    root, cwd = plan.pytest.rootdir, plan.pytest.cwd
    own = posixpath.normpath(posixpath.join(root, test.group.file))
    report = test.detail.partition("\n----- ")[0]  # what follows is what the test printed
    lines = [line for path, line in _places(report) if posixpath.normpath(posixpath.join(cwd, path)) == own]
    return max(1, lines[-1]) if lines else 1


def plain(text: str, limit: int) -> str:
    """Returns one printable line of at most `limit` characters in which GitHub finds no mention, link or tag.

    What would begin one is broken by a character that is not seen, since in an annotation, unlike in a summary, there
    is no code to put text into.
    """
    shown = _ACTIVE.sub(lambda match: f"{match[0]}{_BREAK}", printable(text, limit - _MARK))
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def _places(report: str) -> Iterator[tuple[str, int]]:
    for text in report.split("\n"):
        match = _PLACE.match(text)
        if match is not None:
            yield match["file"] or match["path"], int(match["number"] or match["line"])
