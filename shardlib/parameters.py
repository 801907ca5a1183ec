"""What a step tells its workflow: small texts in files, which Argo reads as output parameters.

Argo takes `{{...}}` for a template even inside a value, so no text that others can choose reaches it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from shardlib import safefiles
from shardlib.errors import RunFolderError
from shardlib.escape import printable

MAX_CHARACTERS = 1000
"""Of one text: the workflow's status holds those of all shards, and etcd takes 1.5 MB of it at most."""

_NAMED = 5  # tests that a headline names; the report has all


def harmless(text: str) -> str:
    """Returns one printable line of at most about `MAX_CHARACTERS` in which Argo finds no template."""
    return printable(text, MAX_CHARACTERS).replace("{", "(").replace("}", ")")


def write_parameters(folder: Path, values: Mapping[str, str]) -> None:
    """Writes each value, made harmless, to a file of its name, in the place of an older one.

    Raises:
        RunFolderError: the folder is none, or cannot be written.
        InfrastructureError: the disk is full.
    """
    for name, value in values.items():
        safefiles.replace(folder, (name,), harmless(value).encode("utf-8"))


def write_in_place(file: Path, value: str) -> None:
    """Writes a value, made harmless, to a file that may be a mount, in whose place no other can be put.

    Raises:
        RunFolderError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(harmless(value).encode("utf-8"))
    except OSError as err:
        raise RunFolderError(f"cannot write {file}: {err.strerror}") from err


def shard_headline(name: str, outcomes: Iterable[tuple[str, str]], *, ok: Iterable[str], end: str = "finished") -> str:
    """Returns how a shard ended in one line, what did not pass first: `shard 03: 2 failed, 1 crashed: a.py::b, ...`.

    Args:
        name: the shard's.
        outcomes: node ids with their outcome's name, in the plan's order.
        ok: names of the outcomes that are good.
        end: how the attempt ended; said where it did not simply finish.
    """
    good = set(ok)
    pairs = list(outcomes)
    bad = [(test, outcome) for test, outcome in pairs if outcome not in good]
    counts = Counter(outcome for _, outcome in bad or pairs)
    told = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(counts.items()))
    named = ", ".join(printable(test, 150) for test, _ in bad[:_NAMED])
    more = f", and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return (
        f"shard {name}{'' if end == 'finished' else f' {end}'}: {told or 'no tests'}{f': {named}{more}' if bad else ''}"
    )
