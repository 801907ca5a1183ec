"""What a run's folder holds, read for the verdict: a file that cannot be read becomes a reason, never a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from shardlib.errors import RunFolderError
from shardlib.records import Record
from shardlib.runfolder import RunFolder
from shardlib.shardfolder import ShardFolder
from shardlib.verdict import GroupEvidence, ShardEvidence

T = TypeVar("T")


def read(folder: RunFolder, planned: Iterable[str]) -> tuple[dict[str, ShardEvidence], tuple[str, ...]]:
    """Returns the evidence by shard, and what of the folder itself could not be read.

    `planned` are the plan's shards, read even where a foreign file keeps the shards from being listed.
    """
    unreadable: list[str] = []
    names = _try(unreadable, folder.shard_names)
    if names is None:
        names = list(planned)
    return {name: _read_shard(folder.shard(name)) for name in names}, tuple(unreadable)


def _read_shard(shard: ShardFolder) -> ShardEvidence:
    unreadable: list[str] = []
    attempts: dict[int, Record] = {}
    numbers = _try(unreadable, shard.attempts) or []
    for number in numbers:
        record = _try(unreadable, partial(shard.read_attempt, number))
        if record is not None:
            attempts[number] = record
    done = _try(unreadable, partial(shard.read_done, numbers[-1])) if numbers else None
    groups: dict[str, GroupEvidence] = {}
    for group, versions in (_try(unreadable, shard.results) or {}).items():
        read_ones: dict[int, Record] = {}
        for version in versions:
            record = _try(unreadable, partial(shard.read_result, group, version))
            if record is not None:
                read_ones[version] = record if version == versions[-1] else _without_tests(record)
        if read_ones:
            groups[group] = GroupEvidence(versions=read_ones)
    return ShardEvidence(
        name=shard.name, attempts=attempts, done=done, groups=groups, unreadable=tuple(dict.fromkeys(unreadable))
    )


def _without_tests(record: Record) -> Record:
    """Keeps of a superseded version what proves the chain, not its texts: folders may hold many of them."""
    return {**record, "tests": [], "extra": []}


def _try(unreadable: list[str], read_one: Callable[[], T]) -> T | None:
    try:
        return read_one()
    except RunFolderError as err:
        unreadable.append(str(err))
        return None
