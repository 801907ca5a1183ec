"""A test that writes reports in which all has passed: its own shard's, which it can, and the others', which it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import looking
import pytest


def forge(shard: Path, plan: dict[str, object], name: str) -> None:
    """Writes what a runner would have, had all tests passed."""
    groups = {group["id"]: group for group in plan["groups"]}
    (own,) = (one for one in plan["shards"] if one["name"] == name)
    head = {"digest": plan["digest"], "shard": name, "attempt": 0}
    for group in own["groups"]:
        tests = [
            {"id": test["id"], "outcome": "passed", "attempt": 0, "seconds": 0.1} for test in groups[group]["tests"]
        ]
        body = {**head, "group": group, "version": 0, "tests": tests, "extra": []}
        (shard / "results").mkdir(parents=True, exist_ok=True)
        (shard / "results" / f"{group}.0.json").write_text(json.dumps(body))
    (shard / "attempts").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), (shard / "attempts" / "0.json").open("x") as stream:
        started = {"rerun": "all", "host": "node", "started": 1.0, "gpus": ["0"], "version": "0.1.0"}
        stream.write(json.dumps({**head, **started}))
    (shard / "attempts" / "0.done").write_text(json.dumps({**head, "end": "finished", "exit": 0, "notes": []}))


@pytest.mark.gpu(mode="isolated", gpus=2)
def test_forges() -> None:
    run = looking.own_run()
    plan = json.loads((run / "plan" / "plan.json").read_text())
    for shard in plan["shards"]:
        forge(run / "shards" / shard["name"], plan, shard["name"])
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
