"""Whatever goes wrong in a run of 500 tests: none is lost, counted twice, run again once finished, or falsely green.

`SHARDLIB_CHAOS_FAULTS=300` makes it long: that many faults in scenarios of 50, each a run of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardlib import child
from shardlib.model import Outcome
from shardlib.verdict import Verdict

from . import account
from .drive import Cluster
from .scenario import Theme, draw

FAULTS = int(os.environ.get("SHARDLIB_CHAOS_FAULTS", "48"))
SCENARIOS = max(len(Theme), FAULTS // 50)
THEMES = list(Theme)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_no_fault_loses_doubles_repeats_or_greens_a_test(seed: int, tmp_path: Path) -> None:
    scenario = draw(seed, THEMES[seed % len(THEMES)], FAULTS // SCENARIOS)
    cluster = Cluster(scenario, tmp_path)
    try:
        cluster.run()
        first = account.check(cluster)
        assert first.green or scenario.theme is not Theme.GENTLE, [reason.text for reason in first.reasons]
        assert _verify(cluster) == (0 if first.green else 1)
        cluster.run()  # as a person's retry
        second = account.check(cluster)
        assert _verify(cluster) == (0 if second.green else 1)
        _check_retry(first, second)
        sys.stdout.write(_figures(cluster, first, second))
    finally:
        cluster.clean_up()


def _check_retry(first: Verdict, second: Verdict) -> None:
    """Checks that a person's retry leaves alone what had passed, and counts what it runs."""
    for before, after in zip(first.tests, second.tests, strict=True):
        if before.outcome.ok:
            assert after == before
        else:
            assert after.attempt is not None
            assert before.attempt is not None
            assert after.attempt > before.attempt, f"{after.planned.id} was not run again"
            assert after.earlier[-1] is before.outcome
            assert after.flaky == (after.outcome.ok and any(o is not Outcome.NOT_RUN for o in after.earlier))


def _verify(cluster: Cluster) -> int:
    argv = child.command("shardlib.cli:main", "verify", "--run", str(cluster.folder.path))
    return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode


def _figures(cluster: Cluster, *verdicts: Verdict) -> str:
    """Returns a line for a person: what was done to the run, and what came out."""
    pods = cluster.pods.values()
    committed = sum(line["what"] == "fault" for pod in pods for line in pod.account())
    lines = [
        "",
        f"{cluster.scenario.theme.value}, seed {cluster.scenario.seed}: {len(cluster.scenario.faults)} faulty tests, "
        f"{committed} faults committed, {sum(pod.hits for pod in pods)} kills, {sum(pod.starts for pod in pods)} attempts",
    ]
    for verdict in verdicts:
        counts = {outcome.value: sum(test.outcome is outcome for test in verdict.tests) for outcome in Outcome}
        lines.append(f"  green: {verdict.green}, " + ", ".join(f"{v} {k}" for k, v in counts.items() if v))
    return "\n".join(lines)
