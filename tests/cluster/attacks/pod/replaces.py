"""Tests that put something else in the place of their shard's files, while the runner writes them."""

from __future__ import annotations

import os
from pathlib import Path

import looking
import pytest

KIND = "KIND"


def own_shard() -> Path:
    """Returns the shard's folder: the one that is a mount."""
    (own,) = (path for path in (looking.own_run() / "shards").iterdir() if looking.mounted(path))
    return own


@pytest.mark.gpu(mode="isolated", gpus=2)
def test_replaces() -> None:
    shard = own_shard()
    events = shard / "events" / "0.jsonl"
    if KIND == "link":
        events.unlink()
        events.symlink_to("/etc/passwd")
        (shard / "results").mkdir(exist_ok=True)
        (shard / "results" / "g00001.7.json").symlink_to("/proc/self/environ")
    elif KIND == "fifo":
        events.unlink()
        os.mkfifo(events)
        (shard / "results").mkdir(exist_ok=True)
        os.mkfifo(shard / "results" / "g00001.7.json")
    elif KIND == "many":
        (shard / "results").mkdir(exist_ok=True)
        for number in range(100_000):
            (shard / "results" / f"g00001.{number + 5}.json").touch()
    elif KIND == "large":
        with events.open("ab") as stream:
            for _ in range(1024):
                stream.write(b"x" * (1 << 20))
