"""One attempt of a shard, from the plan in the run's folder to the exit code."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from shardlib import __version__, resume
from shardlib.errors import Exit, InfrastructureError, RunFolderError
from shardlib.model import Group, Outcome, Shard
from shardlib.parameters import shard_headline
from shardlib.plan import Plan
from shardlib.resume import PastAttempt, Rerun, TestState
from shardlib.runfolder import RunFolder
from shardlib.running.journal import Journal
from shardlib.running.wiring import RunOptions, Wiring
from shardlib.shardfolder import ShardFolder

__all__ = ["RunOptions", "read_past", "run_shard"]


def run_shard(folder: RunFolder, name: str, options: RunOptions) -> Exit:
    """Runs one attempt of a shard and records it in the run's folder; returns how it ended.

    Raises:
        RunFolderError: the folder lacks a plan, or holds something else.
        UsageError: the plan has no such shard.
        PlanError: the plan is malformed.
    """
    plan = folder.read_plan()
    shard, shard_folder = plan.shard(name), folder.shard(name)
    groups = {group.id: group for group in plan.groups_of(shard)}
    past = read_past(shard_folder, plan.digest)
    rerun = options.rerun or resume.choose(past, retries=options.retries)
    states = resume.fold((test.id for group in groups.values() for test in group.tests), past)
    for state in states.values():
        state.reopen(rerun)
    head = {"digest": plan.digest, "shard": name}
    attempt = shard_folder.start_attempt({**head, **_attempt_record(rerun)})
    journal = Journal(
        folder=shard_folder,
        shard=shard,
        attempt=attempt,
        digest=plan.digest,
        groups=groups,
        states=states,
        say=options.say,
        progress_file=options.progress_file,
    )
    _announce(options.say, plan, shard, attempt, rerun, states)
    end, code = "finished", Exit.RED
    try:
        stopped = rerun is not Rerun.NONE and Wiring(plan, shard, attempt, folder, options, journal, states).run()
        _write_missing_results(journal, groups)
        end, code = ("stopped", Exit.INFRASTRUCTURE) if stopped else ("finished", _judge(journal))
    except InfrastructureError as error:
        journal.note(str(error))
        end, code = "infrastructure", Exit.INFRASTRUCTURE
    finally:
        journal.close()
    shard_folder.finish_attempt(attempt, {**head, "end": end, "exit": int(code), "notes": journal.notes[:100]})
    options.conclude(_summarize(options.say, shard, journal, states, end, code))
    return code


def read_past(folder: ShardFolder, digest: str) -> list[PastAttempt]:
    """Returns the shard's earlier attempts; RunFolderError if one was made under another plan."""
    past = []
    for number in folder.attempts():
        record, done = folder.read_attempt(number), folder.read_done(number)
        if record["digest"] != digest:
            raise RunFolderError(
                f"{folder.root}: attempt {number} of shard {folder.name} ran another plan; use a new run folder"
            )
        finished = [event for event in folder.read_events(number) if event["event"] == "finish"]
        end = None if done is None else str(done["end"])
        past.append(PastAttempt(number=number, rerun=Rerun(record["rerun"]), end=end, finished=finished))
    return past


def _attempt_record(rerun: Rerun) -> dict[str, Any]:
    return {"rerun": rerun.value, "host": socket.gethostname(), "started": time.time(), "version": __version__}


def _write_missing_results(journal: Journal, groups: Mapping[str, Group]) -> None:
    """Writes what a killed attempt had finished and not yet written."""
    for group in groups.values():
        if journal.is_complete(group) and not journal.is_written(group):
            journal.write_result(group)


def _judge(journal: Journal) -> Exit:
    return Exit.RED if journal.failures() or journal.extras() else Exit.GREEN


def _announce(
    say: Callable[[str], None], plan: Plan, shard: Shard, attempt: int, rerun: Rerun, states: Mapping[str, TestState]
) -> None:
    todo = sum(state.open for state in states.values())
    of = sum(not other.is_cpu for other in plan.shards)
    what = "cpu workers" if shard.is_cpu else "GPUs"
    say(
        f"shard {shard.name}{'' if shard.is_cpu else f' of {of}'}, attempt {attempt} (rerun: {rerun.value}): "
        f"{todo} of {len(states)} tests to run in {len(shard.groups)} groups on {shard.slots} {what}, "
        f"planned {shard.predicted_ms / 60_000:.1f} min"
    )


def _summarize(
    say: Callable[[str], None], shard: Shard, journal: Journal, states: Mapping[str, TestState], end: str, code: Exit
) -> str:
    """Prints how the shard ended, failures last, where a person looks first; returns it in one line."""
    counts: dict[str, int] = {}
    outcomes: list[tuple[str, str]] = []
    for test, state in states.items():
        outcome = "unfinished" if state.open else str(state.history[-1][1]["outcome"])
        counts[outcome] = counts.get(outcome, 0) + 1
        outcomes.append((test, outcome))
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    say(f"shard {shard.name} {end}: {told} (exit {int(code)})")
    for text in (*journal.failure_lines(), *(f"extra: {test}" for test in journal.extras())):
        say(f"  {text}")
    strangers = [(test, "not planned") for test in journal.extras()]
    return shard_headline(shard.name, outcomes + strangers, ok=[o.value for o in Outcome if o.ok], end=end)
