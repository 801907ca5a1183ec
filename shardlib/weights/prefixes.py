r"""What other tools put around a log's lines: terminal escapes, timestamps, pods, workers. Pure.

The shapes that are known (each seen in a real log, or documented by its tool): GitHub Actions and `kubectl --timestamps`
(`2026-09-11T15:05:09.3104947Z `), Jenkins (`[2026-09-11T15:05:09.310Z] `), Bamboo (`build\t08-Jul-2016 08:46:49\t`),
GitLab (`2026-09-11T15:05:09.310Z 01O `), syslog, bare clock times, containerd (`... stdout F `), Docker's JSON lines,
`kubectl logs --prefix` (`[pod/NAME/CONTAINER] `), `argo logs` (`NAME: `), compose (`NAME | `), stern
(`NAME CONTAINER `), and pytest-xdist (`[gw0] [ 25%] `).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]_P^][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and friends: titles, links, Buildkite's times
    r"|[@-Z\\-~])"
)
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_PARTS = re.compile(
    rf"(?:\[(?P<iso>{_ISO})\]|(?P<bare>{_ISO}))(?:[:\s]\s?|(?=[\[=])|$)"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?:\s|$)"
    r"|\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d(?:\s|$)"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\s|$)"
    r"|(?:stdout|stderr) [FP](?:\s|$)"
    r"|\d\d[OE][ +]"
    r"|\[(?P<worker>gw\d+)\](?:\s|$)"
    r"|\[\s*\d+%\](?:\s|$)"
    r"|\[(?:pod/)?(?P<bracketed>[A-Za-z0-9][\w./-]*)\](?:\s|$)"
    r"|(?!timeout: )(?P<named>[A-Za-z0-9][\w.-]*)(?::|\s*\|)(?:\s|$)"
    r"|(?P<tabbed>[A-Za-z][\w.-]*)\t"
    r"|(?P<stern>[a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)+) (?P<container>[a-z0-9][a-z0-9-]*) (?=[\d=(P ])"
)
_MOST_PARTS = 8  # a guess: a collector on a runtime on a CI system


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line without what was put around it; `stamp` is the text of its timestamp, if it has one with a date."""

    text: str
    pod: str | None
    worker: str | None
    stamp: str | None


def bare(line: str) -> str:
    """Returns a line without terminal escapes."""
    return _ESCAPES.sub("", line) if "\x1b" in line else line


def strip(line: str) -> Line:
    """Returns a line's own text, which keeps its indentation, and what its prefixes say."""
    pod, worker, stamp = None, None, None
    if line.startswith('{"log":'):
        line, stamp = _docker(line)
    at = 0
    for _ in range(_MOST_PARTS):
        match = _PARTS.match(line, at)
        if match is None:
            break
        at = match.end()
        stamp = match["iso"] or match["bare"] or stamp
        worker = match["worker"] or worker
        pod = match["bracketed"] or match["named"] or match["tabbed"] or match["stern"] or pod
    return Line(text=line[at:], pod=pod, worker=worker, stamp=stamp)


def seconds(stamp: str | None) -> float | None:
    """Returns the unix seconds of an ISO timestamp (UTC if it names no zone), or None if it is none."""
    if stamp is None:
        return None
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))? ?(?:(Z|UTC)|([+-]\d\d):?(\d\d))?", stamp.strip()
    )
    if match is None:
        return None
    day, clock, fraction, _, hours, minutes = match.groups()
    zone = f"{hours}:{minutes}" if hours else "+00:00"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
        value = moment.astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
    return value if value >= 0 else None


def _docker(line: str) -> tuple[str, str | None]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return line, None
    text, stamp = body.get("log"), body.get("time")
    return (text.rstrip("\r\n") if isinstance(text, str) else line), (stamp if isinstance(stamp, str) else None)
