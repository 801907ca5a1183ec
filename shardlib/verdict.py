"""Whether a run is green: a proof, from the plan and the files, that every test counts once and passed. Pure.

Every rule adds a reason when it is broken, and a run is green only if none was. So whatever is forgotten, lost, forged
or unreadable makes it red by name. Each group of the plan must have one counted result (the highest version), with the
group's node ids and no others, and every record must carry the plan's digest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from shardlib.model import Group, Outcome, PlannedTest, Shard
from shardlib.plan import Plan

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class GroupEvidence:
    """What the folder holds of one group under one shard: every version's record, by version."""

    versions: Mapping[int, Record]


@dataclass(frozen=True, kw_only=True)
class ShardEvidence:
    """What the folder holds of one shard.

    `done` is how the last attempt ended, None if it did not. `unreadable` says which files could not be read, and why.
    """

    name: str
    attempts: Mapping[int, Record]
    done: Record | None
    groups: Mapping[str, GroupEvidence]
    unreadable: tuple[str, ...] = ()


class Kind(IntEnum):
    """What a reason is about; in the order in which a person wants to read them."""

    FAILED = 1  # a test ran and did not pass
    LOST = 2  # a planned test has no outcome of its own: not collected, not run, no result
    SHARD = 3  # a shard did not start, did not finish, or says it is red itself
    STRANGER = 4  # something that the plan does not have
    FORGED = 5  # a record that contradicts the plan, its name, or another record
    UNREADABLE = 6


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One reason for red; `shard`, `group` and `id` are None where it is not about one."""

    kind: Kind
    text: str
    shard: str | None = None
    group: str | None = None
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class CountedTest:
    """A planned test with the one outcome that counts.

    `attempt` is None if no result names the test; then its outcome is NOT_RUN. `earlier` are outcomes of earlier
    attempts, oldest first.
    """

    planned: PlannedTest
    group: Group
    shard: str
    outcome: Outcome
    attempt: int | None
    seconds: float = 0.0
    shared_seconds: Mapping[str, float]
    reason: str = ""
    detail: str = ""
    reruns: int = 0
    earlier: tuple[Outcome, ...] = ()

    @property
    def flaky(self) -> bool:
        """Whether it passed after an earlier attempt in which it ran and did not."""
        return self.outcome.ok and any(not before.ok and before is not Outcome.NOT_RUN for before in self.earlier)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The reasons for red, most telling first, and every planned test in the plan's order."""

    reasons: tuple[Reason, ...]
    tests: tuple[CountedTest, ...]

    @property
    def green(self) -> bool:
        """Whether every test is proved to count once and to be good."""
        return not self.reasons


def judge(plan: Plan, evidence: Mapping[str, ShardEvidence], unreadable: tuple[str, ...] = ()) -> Verdict:
    """Returns the verdict on a run.

    Args:
        plan: what was to be run.
        evidence: by shard name, what the run's folder holds; a shard of the plan that is absent never started.
        unreadable: what of the folder itself could not be read.
    """
    groups = {group.id: group for group in plan.groups}
    reasons = [Reason(kind=Kind.UNREADABLE, text=text) for text in unreadable]
    tests: list[CountedTest] = []
    for shard in plan.shards:
        seen = evidence.get(shard.name) or ShardEvidence(name=shard.name, attempts={}, done=None, groups={})
        reasons += _judge_shard(plan.digest, shard, seen)
        for group in (groups[name] for name in shard.groups):
            reasons += _judge_group(plan.digest, shard, group, seen)
            tests += _counted(shard, group, seen.groups.get(group.id))
    for name in sorted(evidence.keys() - {shard.name for shard in plan.shards}):
        reasons.append(Reason(kind=Kind.STRANGER, shard=name, text=f"the plan has no shard {name}"))
    if not tests:
        reasons.append(Reason(kind=Kind.LOST, text="the plan holds no tests, so nothing was tested"))
    for test in tests:
        reasons += _judge_test(test, flaky_is_red=plan.settings.flaky == "red")
    return Verdict(reasons=tuple(sorted(reasons, key=lambda reason: reason.kind)), tests=tuple(tests))


def _judge_shard(digest: str, shard: Shard, seen: ShardEvidence) -> Iterator[Reason]:
    def reason(kind: Kind, text: str) -> Reason:
        return Reason(kind=kind, shard=shard.name, text=f"shard {shard.name}: {text}")

    yield from (reason(Kind.UNREADABLE, text) for text in seen.unreadable)
    for group in sorted(seen.groups.keys() - set(shard.groups)):
        yield reason(Kind.STRANGER, f"a result of group {group}, which is not this shard's")
    if not seen.attempts:
        yield reason(Kind.SHARD, "never started")
        return
    last = max(seen.attempts)
    for missing in sorted(set(range(last)) - seen.attempts.keys()):
        yield reason(Kind.FORGED, f"attempt {missing} is missing before attempt {last}")
    for number, record in seen.attempts.items():
        yield from (reason(Kind.FORGED, text) for text in _wrong(record, digest, shard=shard.name, attempt=number))
    if seen.done is None:
        yield reason(Kind.SHARD, f"attempt {last} did not finish: it was killed, or is still running")
        return
    yield from (reason(Kind.FORGED, text) for text in _wrong(seen.done, digest, shard=shard.name, attempt=last))
    if seen.done["end"] != "finished":
        yield reason(Kind.SHARD, f"attempt {last} ended as {seen.done['end']!r}{_notes(seen.done)}; run it again")
    elif seen.done["exit"] != 0:
        yield reason(Kind.SHARD, f"attempt {last} exited {seen.done['exit']}{_notes(seen.done)}")


def _judge_group(digest: str, shard: Shard, group: Group, seen: ShardEvidence) -> Iterator[Reason]:
    def reason(kind: Kind, text: str, test: str | None = None) -> Reason:
        place = f"shard {shard.name}, group {group.id} ({group.file})"
        return Reason(kind=kind, shard=shard.name, group=group.id, id=test, text=f"{place}: {text}")

    evidence = seen.groups.get(group.id)
    if evidence is None:
        return  # each of its tests is LOST by itself
    versions = sorted(evidence.versions)
    if versions != list(range(len(versions))):
        yield reason(Kind.FORGED, f"result versions {versions} have a hole")
    newest_attempt = 0
    for version in versions:
        record = evidence.versions[version]
        for text in _wrong(record, digest, shard=shard.name, group=group.id, version=version):
            yield reason(Kind.FORGED, f"result {version}: {text}")
        if record["attempt"] not in seen.attempts:
            yield reason(Kind.FORGED, f"result {version}: written by attempt {record['attempt']}, which never started")
        if record["attempt"] < newest_attempt:
            yield reason(
                Kind.FORGED, f"result {version}: attempt {record['attempt']} was superseded before it wrote it"
            )
        newest_attempt = max(newest_attempt, record["attempt"])
    yield from _judge_ids(group, evidence.versions[versions[-1]], seen, reason)


def _judge_ids(group: Group, counted: Record, seen: ShardEvidence, reason: Any) -> Iterator[Reason]:
    planned = {test.id for test in group.tests}
    times = Counter(test["id"] for test in counted["tests"])
    for test, count in times.items():
        if test not in planned:
            yield reason(Kind.STRANGER, "has a result, but the plan does not have it in this group", test)
        elif count > 1:
            yield reason(Kind.FORGED, f"counted {count} times", test)
    for test in counted["extra"]:
        yield reason(Kind.STRANGER, "was collected by the worker, but not when the plan was made", test)
    for entry in counted["tests"]:
        if entry["attempt"] not in seen.attempts or entry["attempt"] > counted["attempt"]:
            text = f"is said to come from attempt {entry['attempt']}, which attempt {counted['attempt']} cannot know"
            yield reason(Kind.FORGED, text, entry["id"])


def _counted(shard: Shard, group: Group, evidence: GroupEvidence | None) -> Iterator[CountedTest]:
    """Yields the group's planned tests, each with its entry in the counted result, or as NOT_RUN without one."""
    versions = dict(evidence.versions) if evidence else {}
    counted = {entry["id"]: entry for entry in versions[max(versions)]["tests"]} if versions else {}
    for planned in group.tests:
        entry = counted.get(planned.id)
        if entry is None:
            yield CountedTest(
                planned=planned,
                group=group,
                shard=shard.name,
                outcome=Outcome.NOT_RUN,
                attempt=None,
                shared_seconds={},
                reason=f"no result of group {group.id} names it" if versions else f"group {group.id} has no result",
            )
            continue
        yield CountedTest(
            planned=planned,
            group=group,
            shard=shard.name,
            outcome=Outcome(entry["outcome"]),
            attempt=entry["attempt"],
            seconds=float(entry["seconds"]),
            shared_seconds=entry.get("shared_seconds") or {},
            reason=entry.get("reason") or "",
            detail=entry.get("detail") or "",
            reruns=entry.get("reruns") or 0,
            earlier=tuple(Outcome(before) for before in entry.get("earlier") or ()),
        )


def _judge_test(test: CountedTest, *, flaky_is_red: bool) -> Iterator[Reason]:
    lost = test.outcome in (Outcome.NOT_RUN, Outcome.MISSING)
    if not test.outcome.ok:
        kind, text = (Kind.LOST if lost else Kind.FAILED), test.outcome.value.replace("_", " ")
    elif test.flaky and flaky_is_red:
        kind, text = Kind.FAILED, "flaky: passed now, failed in an earlier attempt"
    else:
        return
    if test.reason:  # which may begin with the outcome itself
        text = f"{text}: {test.reason.removeprefix(f'{text}: ')}"
    yield Reason(kind=kind, shard=test.shard, group=test.group.id, id=test.planned.id, text=text)


def _wrong(record: Record, digest: str, **expected: object) -> Iterator[str]:
    """Yields what a record says of itself that its name, or the plan, contradicts."""
    for key, value in {"digest": digest, **expected}.items():
        if record[key] != value:
            yield f"a record says {key} {record[key]!r}, not {value!r}"


def _notes(done: Record) -> str:
    return ": " + "; ".join(done["notes"]) if done["notes"] else ""
