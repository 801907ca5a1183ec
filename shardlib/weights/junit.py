"""JUnit XML as pytest writes it (xunit1 and xunit2) and as tools merge it: a run of samples. Hostile input.

A case has no node id: xunit1 names the file beside the dotted class name, xunit2 does not, and `a.b.C` may be a module
`a/b/C.py` or a class in `a/b.py`. Names that begin like a class (`Test…`, any capital) are taken for classes.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from shardlib.durations import MAX_SECONDS
from shardlib.weights import messages, prefixes
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample
from shardlib.weights.sessions import SAME_SECONDS

MAX_TOKEN_BYTES = 64 << 20
"""Of one tag with its attributes, a failure's message among them; more is no report (a guess)."""

_BLOCK_BYTES = 1 << 18
_FILES = (".py", ".md", ".rst", ".txt", ".yaml", ".yml", ".ipynb", ".json")
_CLASS = re.compile(r"_*[A-Z]")


def node_id(classname: str, name: str, file: str | None = None) -> str:
    """Returns the node id that pytest most likely had for a case, or "" if there is none to be had.

    pytest makes the class name of the path with dots for slashes, without `.py`, and the classes.
    """
    parts = classname.split(".") if classname else []
    if file:
        dotted = re.sub(r"\.py$", "", file).replace("\\", "/").strip("./").replace("/", ".").split(".")
        if parts[: len(dotted)] == dotted:
            return "::".join([file.replace("\\", "/"), *parts[len(dotted) :], name])
    if not parts:
        return ""
    first_class = len(parts)
    while first_class > 1 and _CLASS.match(parts[first_class - 1]):
        first_class -= 1
    module, classes = parts[:first_class], parts[first_class:]
    if len(module) > 1 and f".{module[-1]}" in _FILES:
        path = "/".join(module[:-1]) + f".{module[-1]}"
    else:
        path = "/".join(module) + ".py"
    return "::".join([path, *classes, name])


def parse(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the file's run. What precedes a break counts; a document type or an entity refuses the whole file."""
    reader = _Reader(unread)
    parser = expat.ParserCreate()
    parser.buffer_text = False
    parser.StartElementHandler = lambda name, attributes: reader.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    fed = 0
    try:
        while data := stream.read1(_BLOCK_BYTES):
            parser.Parse(data, False)
            fed += len(data)
            if fed - max(0, parser.CurrentByteIndex) > MAX_TOKEN_BYTES:
                unread.add(parser.CurrentLineNumber, f"a tag of more than {MAX_TOKEN_BYTES} bytes")
                break
        else:
            parser.Parse(b"", True)
    except _HostileError as err:
        unread.add(parser.CurrentLineNumber, f"{err}; the file is not used")
        return
    except expat.ExpatError as err:
        unread.add(err.lineno, f"not XML from here on: {expat.errors.messages[err.code]}")
    except (EOFError, OSError, zlib.error, ValueError) as err:  # a broken archive; an encoding that expat lacks
        unread.add(parser.CurrentLineNumber, f"cannot be read on: {err}")
    samples = reader.samples()
    if samples:
        yield Found(kind="junit", when=reader.when, samples=samples, seal=reader.seal)


class _HostileError(Exception):
    """The file has what no test report needs and attacks are made of."""


def _refuse(*_: object) -> None:
    raise _HostileError("a document type or an entity, which no test report has")


@dataclass
class _Case:
    id: str
    seconds: float
    pod: str | None
    flags: set[str] = field(default_factory=set)
    outcome: str = "passed"


@dataclass
class _Reader:
    """Gathers cases; of a case that stands there more than once, the longest counts."""

    unread: Unread
    when: float | None = None
    seal: str = ""
    _suites: int = 0
    _case: _Case | None = None
    _cases: dict[tuple[int, str], _Case] = field(default_factory=dict)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """Takes the beginning of an element."""
        if name == "testsuite":
            self._suites += 1
            moment = prefixes.seconds(attributes.get("timestamp"))
            if moment is not None:
                self.when = moment if self.when is None else min(self.when, moment)
            self.seal += f"{attributes.get('time', '')} "[:40]
        elif name == "testcase":
            self._case = self._begin(attributes, line)
        elif self._case is not None:
            self._judge(self._case, name, attributes)

    def end(self, name: str) -> None:
        """Takes the end of an element."""
        case = self._case
        if name != "testcase" or case is None:
            return
        self._case = None
        other = self._cases.setdefault((self._suites, case.id), case)
        if other is not case:
            if abs(other.seconds - case.seconds) > SAME_SECONDS and not (other.flags | case.flags) & {"failed"}:
                other.flags.add("retried")
            other.seconds = max(other.seconds, case.seconds)
            other.flags |= case.flags
            other.outcome = case.outcome if other.outcome == "passed" else other.outcome

    def samples(self) -> tuple[Sample, ...]:
        """Returns a sample for each test; where several suites were merged, each is a pod."""
        return tuple(
            Sample(
                id=case.id,
                seconds=case.seconds,
                outcome=case.outcome,
                pod=f"suite {suite}" if self._suites > 1 else None,
                flags=tuple(sorted(case.flags)),
            )
            for (suite, _), case in self._cases.items()
        )

    def _begin(self, attributes: dict[str, str], line: int) -> _Case | None:
        name, classname = attributes.get("name", ""), attributes.get("classname", "")
        identity = node_id(classname, name, attributes.get("file"))
        seconds = _seconds(attributes.get("time", ""))
        if not identity or not name or seconds is None:
            why = "no time that is seconds" if seconds is None else "no name of a test"
            self.unread.add(line, f"a case with {why}: {f'{classname} {name}'[:100]!r}")
            return None
        self.unread.seen["rows"] += 1
        return _Case(id=identity, seconds=seconds, pod=None)

    @staticmethod
    def _judge(case: _Case, element: str, attributes: dict[str, str]) -> None:
        """Notes what a child of the case says: it is read for flags only, never believed to be text of ours."""
        message = attributes.get("message", "")
        if element == "skipped":
            xfailed = attributes.get("type") == "pytest.xfail"
            case.outcome = "xfailed" if xfailed else "skipped"
            case.flags |= set() if xfailed else {"skipped"}
        elif element in ("failure", "error"):
            case.outcome = "failed" if element == "failure" else "error"
            case.flags |= {"failed"} | messages.flags(message)
        elif element in ("rerunFailure", "rerunError", "flakyFailure", "flakyError"):  # surefire's, for tries before
            case.flags.add("retried")


def _seconds(text: str) -> float | None:
    try:
        value = float(text.replace(",", "").strip() or "nan")
    except ValueError:
        return None
    return value if 0 <= value <= MAX_SECONDS else None
