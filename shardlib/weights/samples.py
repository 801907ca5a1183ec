"""What past runs took, as `weights collect` writes it and `weights fit` reads it: a folder with one file a run.

`<name>.jsonl` holds a line about the run, then one line a test:

    {"schema": "shardlib.samples/1", "run": text, "when": unix seconds or null, "kind": one of KINDS, "source": text}
    {"id": text, "seconds": 1.5, "outcome": text or null, "pod": text or null, "worker": text or null,
     "mode": text or null, "flags": [some of FLAGS]}

A row whose id has no `::` is a file's shared setup, once for each process that paid it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib import safefiles
from shardlib.errors import WeightsError
from shardlib.fields import short

SCHEMA = "shardlib.samples/1"

KINDS = ("events", "block", "reportlog", "junit", "durations", "pytest-split")
"""Where a run's rows come from, the most telling first: of two sources of one run, the earlier kind counts."""

FLAGS = (
    "skipped",  # its seconds are no measurement
    "timed_out",  # it was killed: it takes at least so long
    "retried",  # it ran more than once, or its seconds are of one of several tries
    "first",  # the first test in its process, which pays what the process sets up
    "collateral",  # its process had a sticky CUDA error
    "crashed",  # its process died: it takes at least so long
    "failed",
    "truncated",  # the log does not hold all of its time
)

MAX_SECONDS = 10_000_000.0  # 115 days: surely another unit
MAX_ID = 1 << 20
MAX_BYTES = 2 << 30
"""Of one run's file: a million tests take about 200 MB."""

_FLAGS = frozenset(FLAGS)
_decode = json.JSONDecoder().decode
_NAME_CHARACTERS = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What one test took once, in seconds: setup, call and teardown together.

    `pod` is what shares its speed: a shard's attempt, or the log's pod. `worker` is the process in it. None is unknown.
    """

    id: str
    seconds: float
    outcome: str | None = None
    pod: str | None = None
    worker: str | None = None
    mode: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a suite: an id that no other run has, unix seconds (None: unknown), its kind, and where it was found."""

    run: str
    when: float | None
    kind: str
    source: str
    samples: tuple[Sample, ...]


def file_name(run: str) -> str:
    """Returns the name of a run's file: its id as far as file systems like it, with a digest that makes it unique."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.")[-_NAME_CHARACTERS:]
    digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable or 'run'}-{digest}.jsonl"


def write(folder: Path, run: Run) -> Path:
    """Writes a run's file whole, in the place of an older one of the same run; returns its path.

    Raises:
        WeightsError: the run is not what `read` would accept.
        ShardlibError: the file cannot be written.
    """
    path = folder / file_name(run.run)
    head = {"schema": SCHEMA, "run": run.run, "when": run.when, "kind": run.kind, "source": run.source}
    _head(head, str(path))
    lines = [_dump(head)]
    for number, sample in enumerate(run.samples, start=2):
        row = {
            "id": sample.id,
            "seconds": round(sample.seconds, 6),
            "outcome": sample.outcome,
            "pod": sample.pod,
            "worker": sample.worker,
            "mode": sample.mode,
            "flags": list(sample.flags),
        }
        _sample(row, path, number)
        lines.append(_dump(row))
    folder.mkdir(parents=True, exist_ok=True)
    safefiles.replace(folder, (path.name,), b"".join(lines))
    return path


def paths(folder: Path) -> list[Path]:
    """Returns the run files of a samples folder, sorted by name; WeightsError if it is no folder."""
    if not folder.is_dir():
        raise WeightsError(f"{folder}: no such folder; `shardlib weights collect -o {folder}` writes samples")
    return [folder / name for name in safefiles.names(folder, ()) if name.endswith(".jsonl")]


def read_head(path: Path) -> Run:
    """Returns what a file says about its run, without its samples; errors as in `read`."""
    with _open(path) as stream:
        return _head(_load(stream.readline(MAX_ID), path, 1), f"{path}:1")


def read(path: Path) -> Run:
    """Returns one run's file.

    Raises:
        WeightsError: naming file, line and field, if anything is not as the format has it.
    """
    with _open(path) as stream:
        head = _head(_load(stream.readline(MAX_ID), path, 1), f"{path}:1")
        samples = tuple([_sample(_load(line, path, number), path, number) for number, line in enumerate(stream, 2)])
    return Run(run=head.run, when=head.when, kind=head.kind, source=head.source, samples=samples)


def read_all(folder: Path) -> Iterator[Run]:
    """Yields the runs of a folder one by one, by file name; errors as in `read` and `paths`."""
    for path in paths(folder):
        yield read(path)


def _open(path: Path) -> Any:
    stream = safefiles.open_stream(path.parent, (path.name,), limit=MAX_BYTES)
    if stream is None:
        raise WeightsError(f"{path}: no such file")
    return stream


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _load(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        body = _decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as err:
        raise WeightsError(f"{path}:{number}: not a JSON line: {err}; collect again") from err
    if not isinstance(body, dict):
        raise WeightsError(f"{path}:{number}: {short(body)} where an object should be; collect again")
    return body


def _head(body: dict[str, Any], where: str) -> Run:
    if body.get("schema") != SCHEMA:
        raise WeightsError(f"{where}: schema is {short(body.get('schema'))}, expected {SCHEMA!r}; collect again")
    if body.get("kind") not in KINDS:
        raise WeightsError(f"{where}: kind {short(body.get('kind'))} is none of {', '.join(KINDS)}")
    for key in ("run", "source"):
        if not isinstance(body.get(key), str) or not body[key]:
            raise WeightsError(f"{where}: {key!r} is {short(body.get(key))}, expected a text")
    when = body.get("when")
    if when is not None and not _is_number(when, 1e12):
        raise WeightsError(f"{where}: 'when' is {short(when)}, expected unix seconds or null")
    return Run(run=body["run"], when=when, kind=body["kind"], source=body["source"], samples=())


def _sample(body: dict[str, Any], path: Path, number: int) -> Sample:
    """Returns a row's sample. 5,000,000 rows are a usual read: nothing is computed for messages that nobody sees."""
    try:
        node_id, seconds, flags = body["id"], body["seconds"], body["flags"]
        outcome, pod, worker, mode = body["outcome"], body["pod"], body["worker"], body["mode"]
    except KeyError as err:
        raise WeightsError(f"{path}:{number}: {err.args[0]!r} is missing; collect again") from err
    if not isinstance(node_id, str) or not 0 < len(node_id) <= MAX_ID:
        raise WeightsError(f"{path}:{number}: 'id' is {short(node_id)}, expected a node id")
    if not _is_number(seconds, MAX_SECONDS):
        raise WeightsError(f"{path}:{number}: 'seconds' is {short(seconds)}, expected 0 to {MAX_SECONDS:.0f}")
    for value in (outcome, pod, worker, mode):
        if value is not None and not isinstance(value, str):
            raise WeightsError(f"{path}:{number}: {short(value)} where a text or null should be in {short(body)}")
    if not isinstance(flags, list) or (flags and not _known(flags)):
        raise WeightsError(f"{path}:{number}: 'flags' is {short(flags)}, expected a list of {', '.join(FLAGS)}")
    return Sample(id=node_id, seconds=seconds, outcome=outcome, pod=pod, worker=worker, mode=mode, flags=tuple(flags))


def _known(flags: list[Any]) -> bool:
    return all(isinstance(flag, str) for flag in flags) and len(set(flags)) == len(flags) and _FLAGS.issuperset(flags)


def _is_number(value: object, most: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= most  # type: ignore[operator]  # false for NaN
