"""Plans and runs' folders for tests, made through the package's own writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlib.model import CPU_SHARD, Group, Mode, Outcome, PlannedTest, Shard, WeightSource
from shardlib.plan import Plan, Prediction
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings
from shardlib.shardfolder import ShardFolder

LAYOUT = {"01": {"a.py": ["a.py::one", "a.py::two"], "b.py": ["b.py::C::three[x]"]}, "02": {"c.py": ["c.py::four"]}}


def make_plan(layout: Mapping[str, Mapping[str, Sequence[str]]] = LAYOUT, **settings: Any) -> Plan:
    """A plan with a group for each file of each shard; every test weighs a second."""
    groups: list[Group] = []
    shards: list[Shard] = []
    for name, files in layout.items():
        mode, gpus = (Mode.CPU, 0) if name == CPU_SHARD else (Mode.CONCURRENT, 1)
        first = len(groups)
        for file, ids in files.items():
            tests = tuple(PlannedTest(id=test, weight_ms=1000, source=WeightSource.KNOWN) for test in ids)
            identity = f"g{len(groups) + 1:05}"
            groups.append(Group(id=identity, file=file, mode=mode, gpus=gpus, setup_ms=0, tests=tests))
        own = tuple(group.id for group in groups[first:])
        shards.append(Shard(name=name, slots=8, groups=own, predicted_ms=4000))
    prediction = Prediction(makespan_ms=4000, lower_bound_ms=3900, bottleneck="area", known=4, estimated=0, stale=0)
    run = PytestRun(version="9", python="3", rootdir="/r", inifile=None, cwd="/r", args=(), hash_seed="0")
    return Plan(
        pytest=run,
        settings=Settings(**settings),
        strategy="timeline",
        shards=tuple(shards),
        groups=tuple(groups),
        prediction=prediction,
    )


def attempt_body(plan: Plan, shard: str, **changes: Any) -> dict[str, Any]:
    body = {"digest": plan.digest, "shard": shard, "rerun": "all", "host": "node", "started": 1.0, "gpus": ["0"]}
    return {**body, "version": "0.1.0", **changes}


def result_body(plan: Plan, shard: str, group: str, attempt: int = 0, **outcomes: str) -> dict[str, Any]:
    """A group's result in which every test passed; by a test's last name, `outcomes` says what did not."""
    tests = []
    for test in plan.group_by_id[group].tests:
        outcome = outcomes.get(test.id.rpartition("::")[2], "passed")
        tests.append({"id": test.id, "outcome": outcome, "attempt": attempt, "seconds": 1.5})
    head = {"digest": plan.digest, "shard": shard, "group": group, "attempt": attempt}
    return {**head, "tests": tests, "extra": []}


def finish(folder: ShardFolder, plan: Plan, attempt: int = 0, *, end: str = "finished", status: int = 0) -> None:
    body = {"digest": plan.digest, "shard": folder.name, "end": end, "exit": status, "notes": []}
    folder.finish_attempt(attempt, body)


def write_run(path: Path, plan: Plan, **outcomes: str) -> RunFolder:
    """A whole run, each shard in one attempt that finished; green unless `outcomes` says otherwise."""
    folder = RunFolder(path)
    folder.write_plan(plan)
    for shard in plan.shards:
        own = folder.shard(shard.name)
        attempt = own.start_attempt(attempt_body(plan, shard.name))
        write_events(own, plan, attempt)
        red = False
        for group in shard.groups:
            body = result_body(plan, shard.name, group, attempt, **outcomes)
            red = red or not all(Outcome(test["outcome"]).ok for test in body["tests"])
            own.write_result(group, body)
        finish(own, plan, attempt, status=int(red))
    return folder


def write_events(folder: ShardFolder, plan: Plan, attempt: int) -> None:
    """One worker on one GPU: ready after 2 s, each file collected in 0.5 s, its module fixtures 0.25 s."""
    log = folder.event_log(attempt)
    log.append({"t": 0.0, "event": "worker_start", "worker": "w1", "mode": "concurrent", "gpus": ["0"]})
    log.append({"t": 2.0, "event": "worker_ready", "worker": "w1", "seconds": 2.0})
    now = 2.0
    for group in plan.groups_of(plan.shard(folder.name)):
        head = {"worker": "w1", "group": group.id}
        log.append({"t": now + 0.5, "event": "collected", **head, "seconds": 0.5, "missing": [], "extra": []})
        shared = {"module": 0.25, "session": 0.125}
        for test in group.tests:
            now += 1.5
            finished = {"id": test.id, "outcome": "passed", "seconds": 1.5, "shared_seconds": shared}
            log.append({"t": now, "event": "finish", **head, **finished})
            shared = {}
        log.append({"t": now, "event": "group", "group": group.id, "seconds": 2.0})
    log.append({"t": 10.0, "event": "worker_end", "worker": "w1", "status": 0, "why": "no more"})
    log.close()
