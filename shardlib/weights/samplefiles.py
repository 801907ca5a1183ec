"""The samples folder, as `weights collect` writes it and `weights fit` reads it: one file a run.

`<name>.jsonl` holds a line about the run, then one line a column, so that no row needs an object to be read. Rows are in
order of pod and worker, and the columns of few values say each value once for all the rows in a row that have it:

    {"schema": "shardlib.samples/1", "run": text, "when": unix seconds or null, "kind": one of KINDS, "source": text,
     "rows": how many}
    {"id": [text, ...]}
    {"seconds": [1.5, ...]}
    {"outcome": [[text or null, how many rows], ...]}
    {"pod": likewise}, {"worker": likewise}, {"mode": likewise}
    {"flags": [[[some of FLAGS], how many rows], ...]}
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from shardlib import safefiles
from shardlib.errors import WeightsError
from shardlib.fields import Fields, parse
from shardlib.weights import columns
from shardlib.weights.columns import Table
from shardlib.weights.samples import KINDS, MAX_ID, Run

SCHEMA = "shardlib.samples/1"

MAX_ROWS = 20_000_000
MAX_BYTES = 2 << 30
"""Of one run's file: a million tests take about 200 MB."""

_NAME_CHARACTERS = 80


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a file says about its run: all of `Run` but the samples, of which it says how many they are."""

    run: str
    when: float | None
    kind: str
    source: str
    rows: int


def file_name(run: str) -> str:
    """Returns the name of a run's file: its id as far as file systems like it, with a digest that makes it unique."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.")[-_NAME_CHARACTERS:]
    digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable or 'run'}-{digest}.jsonl"


def write(folder: Path, run: Run) -> Path:
    """Writes a run's file whole, in the place of an older one of the same run; returns its path.

    Raises:
        WeightsError: the run is not what `read_table` would accept.
        ShardlibError: the file cannot be written.
    """
    path = folder / file_name(run.run)
    head = {"schema": SCHEMA, "run": run.run, "when": run.when, "kind": run.kind, "source": run.source}
    lines = [{**head, "rows": len(run.samples)}, *columns.to_lines(columns.to_table(run.samples))]
    _head(lines[0], f"{path}:1")
    columns.from_lines(lines[1:], len(run.samples), str(path))
    folder.mkdir(parents=True, exist_ok=True)
    safefiles.replace(folder, (path.name,), b"".join(map(_dump, lines)))
    return path


def paths(folder: Path) -> list[Path]:
    """Returns the run files of a samples folder, sorted by name; WeightsError if it is no folder."""
    if not folder.is_dir():
        raise WeightsError(f"{folder}: no such folder; `shardlib weights collect -o {folder}` writes samples")
    return [folder / name for name in safefiles.names(folder, ()) if name.endswith(".jsonl")]


def read_head(path: Path) -> Head:
    """Returns what a file says about its run; errors as in `read_table`."""
    with _open(path) as stream:
        return _head(_load(stream.readline(MAX_ID), path, 1), f"{path}:1")


def read_table(path: Path) -> tuple[Head, Table]:
    """Returns one run's file.

    Raises:
        WeightsError: naming file, line, column and row, if anything is not as the format has it.
    """
    with _open(path) as stream:
        head = _head(_load(stream.readline(MAX_ID), path, 1), f"{path}:1")
        bodies = (_load(line, path, number) for number, line in enumerate(stream, start=2))
        return head, columns.from_lines(bodies, head.rows, str(path))


def _open(path: Path) -> BinaryIO:
    stream = safefiles.open_stream(path.parent, (path.name,), limit=MAX_BYTES)
    if stream is None:
        raise WeightsError(f"{path}: no such file")
    return stream


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _load(line: bytes, path: Path, number: int) -> object:
    try:
        text = line.decode("ascii")
    except UnicodeDecodeError as err:
        raise WeightsError(f"{path}:{number}: byte {err.start} is not ASCII; collect again") from err
    return parse(text, f"{path}:{number}", WeightsError)


def _head(body: object, where: str) -> Head:
    fields = Fields(body, where, WeightsError)
    schema = fields.raw("schema")
    if schema != SCHEMA:
        raise fields.wrong("schema", schema, f"{SCHEMA!r}; collect again")
    head = Head(
        run=fields.text("run"),
        when=fields.number("when", 0, 1e12) if fields.has("when") else None,
        kind=fields.choice("kind", KINDS),
        source=fields.text("source"),
        rows=fields.integer("rows", 0, MAX_ROWS),
    )
    fields.end()
    return head
