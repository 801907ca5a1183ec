"""A run as one JSON document (`run.json`): verdict, times predicted and actual, and the tests worth a look. Pure."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from shardlib.model import Outcome, Shard
from shardlib.plan import Plan
from shardlib.reports.measure import Measures, ShardMeasure
from shardlib.verdict import CountedTest, Verdict

SCHEMA = "shardlib.run/1"
SLOW_TESTS = 20  # a screenful


def run_document(plan: Plan, verdict: Verdict, measures: Measures) -> dict[str, Any]:
    """Returns the document; names end in their unit, and null stands for what was not measured."""
    counts = {shard.name: Counter[str]() for shard in plan.shards}
    for test in verdict.tests:
        counts[test.shard][test.outcome.value] += 1
    shards = [_shard(shard, measures.shards[shard.name], counts[shard.name]) for shard in plan.shards]
    return {
        "schema": SCHEMA,
        "digest": plan.digest,
        "verdict": "green" if verdict.green else "red",
        "reasons": [
            {"kind": reason.kind.name.lower(), **{k: v for k, v in vars(reason).items() if k != "kind"}}
            for reason in verdict.reasons
        ],
        "strategy": plan.strategy,
        "predicted_makespan_seconds": plan.prediction.makespan_ms / 1000,
        "lower_bound_seconds": plan.prediction.lower_bound_ms / 1000,
        "makespan_seconds": round(measures.makespan_seconds, 3),
        "worker_start_seconds": _rounded(measures.worker_start_seconds),
        "worker_end_seconds": _rounded(measures.worker_end_seconds),
        "outcomes": dict(sorted(sum(counts.values(), Counter[str]()).items())),
        "shards": shards,
        "slow": [_test(test) for test in slow_tests(verdict)],
        **{
            outcome.value: [_test(test) for test in verdict.tests if test.outcome is outcome]
            for outcome in (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.POISONED)
        },
        "flaky": [_test(test) for test in verdict.tests if test.flaky],
        "rerun": [_test(test) for test in verdict.tests if test.reruns],
        "cost": cost(plan, measures),
    }


def dumps(document: dict[str, Any]) -> str:
    """Returns the document's text."""
    return json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def slow_tests(verdict: Verdict) -> list[CountedTest]:
    """Returns the tests that took longest, longest first."""
    ran = [test for test in verdict.tests if test.seconds > 0]
    return sorted(ran, key=lambda test: (-test.seconds, test.planned.id))[:SLOW_TESTS]


def idle_gpu_seconds(shard: Shard, measure: ShardMeasure) -> float | None:
    """Returns the GPU-seconds of a shard in which no worker started or ran a group; None for the shard without GPUs."""
    if shard.is_cpu:
        return None
    return max(0.0, shard.slots * measure.seconds - measure.busy_gpu_seconds)


def cost(plan: Plan, measures: Measures) -> dict[str, float | None]:
    """Returns GPU-hours while shards ran, predicted and actual, and their price where `gpu_hour_price` is set."""
    shards = [shard for shard in plan.shards if not shard.is_cpu]
    predicted = sum(shard.slots * shard.predicted_ms for shard in shards) / 3_600_000
    actual = sum(shard.slots * measures.shards[shard.name].seconds for shard in shards) / 3600
    price = plan.settings.gpu_hour_price
    return {
        "predicted_gpu_hours": round(predicted, 4),
        "gpu_hours": round(actual, 4),
        "gpu_hour_price": price,
        "predicted_price": None if price is None else round(predicted * price, 2),
        "price": None if price is None else round(actual * price, 2),
    }


def _shard(shard: Shard, measure: ShardMeasure, outcomes: Counter[str]) -> dict[str, Any]:
    return {
        "name": shard.name,
        "slots": shard.slots,
        "groups": len(shard.groups),
        "predicted_seconds": shard.predicted_ms / 1000,
        "seconds": round(measure.seconds, 3),
        "idle_gpu_seconds": _rounded(idle_gpu_seconds(shard, measure)),
        "worker_starts": measure.workers,
        "worker_start_seconds": _rounded(measure.worker_start_seconds),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _test(test: CountedTest) -> dict[str, Any]:
    return {
        "id": test.planned.id,
        "shard": test.shard,
        "outcome": test.outcome.value,
        "seconds": round(test.seconds, 3),
        "weight_seconds": test.planned.weight_ms / 1000,
        "weight_source": test.planned.source.value,
        "reason": test.reason,
        "earlier": [outcome.value for outcome in test.earlier],
        "reruns": test.reruns,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
