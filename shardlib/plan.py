"""The plan: which group of tests runs in which shard, and everything that the shards must agree on. Pure.

A plan is exactly-once by construction: a `Plan` value that exists has each node id in exactly one group and each group
in exactly one shard, whether it was made here or read from a file that someone else wrote.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shardlib.errors import PlanError, SettingsError, UsageError
from shardlib.exactly_once import AGAIN, check_shards, check_tests
from shardlib.fields import Fields, canonical, parse, short
from shardlib.model import Group, Mode, PlannedTest, Shard, WeightSource
from shardlib.pytestrun import PytestRun, check_schema, read_pytest_run
from shardlib.settings import Settings

SCHEMA = "shardlib.plan/1"
MAX_TESTS = 2_000_000  # bounds of what a reader takes: twice the largest suite that packing was measured on
MAX_SHARDS = 10_000
_MAX_MS = 10**12  # 31 years


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What the plan promises. `makespan_ms` and `lower_bound_ms` are of the GPU shards; the counts are of weights.

    `stale` counts the durations that no test has any more.
    """

    makespan_ms: int
    lower_bound_ms: int
    bottleneck: str
    known: int
    estimated: int
    stale: int

    @property
    def gap(self) -> float:
        """How far the makespan lies above the lower bound, as a fraction of it."""
        return self.makespan_ms / self.lower_bound_ms - 1 if self.lower_bound_ms else 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All of it; PlanError if it is not exactly-once, or if a group does not fit its shard."""

    pytest: PytestRun
    settings: Settings
    strategy: str
    shards: tuple[Shard, ...]
    groups: tuple[Group, ...]
    prediction: Prediction

    def __post_init__(self) -> None:
        check_tests(self.groups)
        check_shards(self.shards, {group.id: group for group in self.groups})

    @cached_property
    def digest(self) -> str:
        """sha256 over the canonical JSON of everything else; every record of a run carries it."""
        return hashlib.sha256(canonical(self._body()).encode()).hexdigest()

    def dumps(self) -> str:
        """Returns the document; `loads` is its inverse. The same plan gives the same text."""
        return canonical({**self._body(), "digest": self.digest}) + "\n"

    @classmethod
    def loads(cls, text: str, where: str) -> Plan:
        """Returns the plan of a document, `where` being its name in messages.

        Raises:
            PlanError: no JSON, another schema version, a broken digest, a malformed field, or not exactly-once.
        """
        document = parse(text, where, PlanError)
        fields = Fields(document, where, PlanError)
        check_schema(fields, SCHEMA, AGAIN)
        digest = fields.text("digest", most=64)
        actual = hashlib.sha256(
            canonical({key: value for key, value in document.items() if key != "digest"}).encode()
        ).hexdigest()
        if digest != actual:
            raise PlanError(f"{where}: its digest is {short(digest)}, its content's {actual}: changed by hand? {AGAIN}")
        try:
            settings = Settings.from_json(fields.raw("settings"), where)
        except SettingsError as err:
            raise PlanError(str(err)) from err
        plan = cls(
            pytest=read_pytest_run(fields.raw("pytest"), where),
            settings=settings,
            strategy=fields.text("strategy", most=64),
            shards=tuple(_read_shard(s, f"{where}: shard") for s in fields.array("shards", most=MAX_SHARDS)),
            groups=tuple(_read_group(g, f"{where}: group") for g in fields.array("groups", most=MAX_TESTS)),
            prediction=_read_prediction(fields.raw("prediction"), f"{where}: prediction"),
        )
        fields.end()
        return plan

    def shard(self, name: str) -> Shard:
        """Returns the shard of that name; UsageError naming the shards there are."""
        for shard in self.shards:
            if shard.name == name:
                return shard
        raise UsageError(f"no shard {name!r} in the plan; its shards: {', '.join(s.name for s in self.shards)}")

    @cached_property
    def group_by_id(self) -> dict[str, Group]:
        """The groups by their id."""
        return {group.id: group for group in self.groups}

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The group of each node id."""
        return {test.id: group for group in self.groups for test in group.tests}

    @cached_property
    def shard_of(self) -> dict[str, Shard]:
        """The shard of each group id."""
        return {group: shard for shard in self.shards for group in shard.groups}

    def groups_of(self, shard: Shard) -> tuple[Group, ...]:
        """Returns a shard's groups in planned-start order."""
        return tuple(self.group_by_id[name] for name in shard.groups)

    def _body(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "strategy": self.strategy,
            "pytest": self.pytest.to_json(),
            "settings": self.settings.to_json(),
            "shards": [
                {"name": s.name, "slots": s.slots, "predicted_ms": s.predicted_ms, "groups": list(s.groups)}
                for s in self.shards
            ],
            "groups": [_group_json(group) for group in self.groups],
            "prediction": vars(self.prediction),
        }


def _group_json(group: Group) -> dict[str, Any]:
    tests = []
    for test in group.tests:
        body: dict[str, Any] = {"id": test.id, "weight_ms": test.weight_ms, "source": test.source.value}
        if test.timeout_seconds is not None:
            body["timeout_seconds"] = float(test.timeout_seconds)
        if test.why:
            body["why"] = test.why
        tests.append(body)
    head = {"id": group.id, "file": group.file, "mode": group.mode.value, "gpus": group.gpus}
    return {**head, "setup_ms": group.setup_ms, "tests": tests}


def _read_group(value: object, where: str) -> Group:
    fields = Fields(value, where, PlanError)
    name = fields.text("id", most=20)
    where = f"{where} {name!r}"
    group = Group(
        id=name,
        file=fields.text("file"),
        mode=Mode(fields.choice("mode", tuple(mode.value for mode in Mode))),
        gpus=fields.integer("gpus", 0, 1024),
        setup_ms=fields.integer("setup_ms", 0, _MAX_MS),
        tests=tuple(_read_test(test, f"{where}: test") for test in fields.array("tests", most=MAX_TESTS)),
    )
    fields.end()
    return group


_SOURCES = tuple(source.value for source in WeightSource)


def _read_test(value: object, where: str) -> PlannedTest:
    fields = Fields(value, where, PlanError)
    test = PlannedTest(
        id=fields.text("id"),
        weight_ms=fields.integer("weight_ms", 0, _MAX_MS),
        source=WeightSource(fields.choice("source", _SOURCES)),
        timeout_seconds=fields.number("timeout_seconds", 0, 1e9) if fields.has("timeout_seconds") else None,
        why=fields.text("why", most=1000) if fields.has("why") else "",
    )
    fields.end()
    return test


def _read_shard(value: object, where: str) -> Shard:
    fields = Fields(value, where, PlanError)
    shard = Shard(
        name=fields.text("name", most=20),
        slots=fields.integer("slots", 1, 1024),
        groups=fields.texts("groups", most=MAX_TESTS),
        predicted_ms=fields.integer("predicted_ms", 0, _MAX_MS),
    )
    fields.end()
    return shard


def _read_prediction(value: object, where: str) -> Prediction:
    fields = Fields(value, where, PlanError)
    prediction = Prediction(
        makespan_ms=fields.integer("makespan_ms", 0, _MAX_MS),
        lower_bound_ms=fields.integer("lower_bound_ms", 0, _MAX_MS),
        bottleneck=fields.text("bottleneck", empty=True),
        known=fields.integer("known", 0, MAX_TESTS),
        estimated=fields.integer("estimated", 0, MAX_TESTS),
        stale=fields.integer("stale", 0, 10 * MAX_TESTS),
    )
    fields.end()
    return prediction
