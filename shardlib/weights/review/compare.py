"""A proposal beside the current durations file: what is new, gone, changed or hard to believe, worst first. Pure.

The rules were measured on synthetic faults and real histories. "Changed by 30 %" alone raises 60 to 1800 alarms a week;
with a share of a shard and the noise taken into account it is 1 to 14.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from shardlib.weights.proposal import Flag, Proposal, TestWeight

CHANGED_FACTOR = 1.3
CHANGED_SHARE = 0.002  # of a shard's load: what a change must weigh
CHANGED_ERRORS = 3.0  # standard errors of the change
BIG_SHARE = 0.01  # of a shard's load: a test of this size should be known better than by one or two runs
IMPLAUSIBLE_FACTOR = 30.0  # between milliseconds and seconds lie 1000, between two machines hardly 5
IMPLAUSIBLE_SECONDS = 4 * 3600.0  # of a single test (a guess: eight times the runner's own longest limit)
_LEAST_SECONDS = 0.05  # smaller weights are mostly what a clock and a scheduler add: no ratio means anything
_COMMON_TESTS = 10  # fewer tests say nothing about a factor that all share


class Concern(str, Enum):
    """Why a person must look at a test, the gravest first."""

    IMPLAUSIBLE = "implausible"
    CHANGED = "changed"
    UNIT = "another unit"
    SKIPPED_AS_0 = "skipped as 0"
    TIMED_OUT = "timed out"
    FLAKY = "flaky"
    THIN = "thin"


_CHRONIC = frozenset({Concern.FLAKY, Concern.THIN})
"""What is worth knowing but changes no weight: the suite's business, not this week's."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A test to look at. `old` is its current weight (None: it has none), `stake_seconds` what the answer may cost."""

    test: TestWeight
    old: float | None
    concerns: tuple[Concern, ...]
    reasons: tuple[str, ...]
    stake_seconds: float

    @property
    def implausible(self) -> bool:
        """Whether `accept` needs a person's word for it."""
        return Concern.IMPLAUSIBLE in self.concerns

    @property
    def urgent(self) -> bool:
        """Whether it asks for a decision, rather than being worth knowing."""
        return not _CHRONIC.issuperset(self.concerns)


@dataclass(frozen=True, kw_only=True)
class Review:
    """What changes between the current file and the proposal; ids sorted, findings worst first.

    `common_factor` is how much slower all tests became together, which moves no shard. `share_seconds` is
    CHANGED_SHARE of a shard. `gone` are keys of the file that no run has.
    """

    findings: tuple[Finding, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    counts: Mapping[str, int]
    common_factor: float
    share_seconds: float
    old_total: float
    new_total: float

    @property
    def implausible(self) -> frozenset[str]:
        """The keys that `accept` takes only with `--yes`."""
        return frozenset(finding.test.id for finding in self.findings if finding.implausible)

    @property
    def urgent(self) -> tuple[Finding, ...]:
        """The findings that ask for a decision, worst first."""
        return tuple(finding for finding in self.findings if finding.urgent)

    @property
    def chronic(self) -> tuple[Finding, ...]:
        """The findings that are worth knowing, worst first."""
        return tuple(finding for finding in self.findings if not finding.urgent)


def compare(proposal: Proposal, current: Mapping[str, float], *, shards: int) -> Review:
    """Returns the review of a proposal against the current durations (empty: there are none yet)."""
    new_total = sum(test.weight for test in proposal.tests)
    share = CHANGED_SHARE * new_total / shards
    factor = _common_factor(proposal, current)
    findings = [
        finding
        for test in proposal.tests
        if (finding := _finding(test, current.get(test.id), factor, share)) is not None
    ]
    findings.sort(key=lambda f: (not f.implausible, -f.stake_seconds, f.test.id))
    ids = {test.id for test in proposal.tests}
    flags = Counter(flag for test in proposal.tests for flag in test.flags)
    concerns = Counter(concern for finding in findings for concern in finding.concerns)
    new = tuple(test.id for test in proposal.tests if test.id not in current)
    gone = tuple(sorted(key for key in current if key not in ids))
    counts = {
        "new": len(new),
        "gone": len(gone),
        "changed": concerns[Concern.CHANGED],
        "shifted": flags[Flag.SHIFTED],
        "flaky": flags[Flag.FLAKY],
        "timed out": flags[Flag.TIMED_OUT],
        "thin": flags[Flag.THIN],
        "always skipped": flags[Flag.SKIPPED],
        "estimated": flags[Flag.ESTIMATED],
        "unseen lately": flags[Flag.UNSEEN],
        "implausible": concerns[Concern.IMPLAUSIBLE],
    }
    return Review(
        findings=tuple(findings),
        new=new,
        gone=gone,
        counts=counts,
        common_factor=factor,
        share_seconds=share,
        old_total=sum(current.get(test.id, 0.0) for test in proposal.tests),
        new_total=new_total,
    )


def _common_factor(proposal: Proposal, current: Mapping[str, float]) -> float:
    """The time-weighted median of new / old: other machines, or a slow week, change all weights alike."""
    ratios = []
    for test in proposal.tests:
        old = current.get(test.id, 0.0)
        if old >= _LEAST_SECONDS and test.weight >= _LEAST_SECONDS and test.samples:
            ratios.append((test.weight / old, old))
    if len(ratios) < _COMMON_TESTS:
        return 1.0
    ratios.sort()
    half, passed = sum(weight for _, weight in ratios) / 2, 0.0
    for ratio, weight in ratios:
        passed += weight
        if passed >= half:
            return ratio
    return ratios[-1][0]


def _finding(test: TestWeight, old: float | None, factor: float, share: float) -> Finding | None:
    found = [*_implausible(test, old), *_changed(test, old, factor, share), *_odd(test, share)]
    if not found:
        return None
    concerns = {concern for concern, _, _ in found}
    return Finding(
        test=test,
        old=old,
        concerns=tuple(concern for concern in Concern if concern in concerns),
        reasons=tuple(reason for _, reason, _ in found),
        stake_seconds=max(stake for _, _, stake in found),
    )


def _implausible(test: TestWeight, old: float | None) -> Iterator[tuple[Concern, str, float]]:
    stake = abs(test.weight - (old or 0.0))
    if Flag.SKIPPED in test.flags and old is not None and old >= max(_LEAST_SECONDS, CHANGED_FACTOR * test.weight):
        yield Concern.IMPLAUSIBLE, "skipped in every run, but it has a weight: will it never run again?", stake
        return
    if Flag.PLACEHOLDER in test.flags:
        yield Concern.IMPLAUSIBLE, "the same number again and again, or for many tests: was it measured?", stake
    if Flag.UNIT in test.flags and old is None:
        yield Concern.IMPLAUSIBLE, "in seconds or in milliseconds? nothing in use to compare with", stake
    if test.weight > IMPLAUSIBLE_SECONDS:
        yield Concern.IMPLAUSIBLE, f"more than {IMPLAUSIBLE_SECONDS / 3600:.0f} hours for one test", stake
    if old is not None and stake > 1.0:
        low, high = sorted((max(test.weight, _LEAST_SECONDS), max(old, _LEAST_SECONDS)))
        if high / low > IMPLAUSIBLE_FACTOR:
            yield Concern.IMPLAUSIBLE, f"more than {IMPLAUSIBLE_FACTOR:.0f} times off the current weight", stake


def _changed(test: TestWeight, old: float | None, factor: float, share: float) -> Iterator[tuple[Concern, str, float]]:
    """Changed beyond the common factor, by something that matters, and by more than noise; two speeds are no change."""
    if old is None or old < _LEAST_SECONDS or test.weight < _LEAST_SECONDS or not test.samples:
        return
    expected = old * factor
    ratio, stake = test.weight / expected, abs(test.weight - expected)
    error = test.scatter * math.sqrt(2 / max(test.effective, 1.0))  # the old weight is no better known than the new
    step = abs(math.log(ratio))
    if Flag.FLAKY in test.flags and test.shift is None:
        return
    if step > max(math.log(CHANGED_FACTOR), CHANGED_ERRORS * error) and stake > share:
        others = f"; all others are at x{factor:.2g}" if abs(math.log(factor)) > math.log(1.1) else ""
        how = "a new level" if test.shift is not None else "more than its noise explains"
        yield Concern.CHANGED, f"{how}{others}", stake


def _odd(test: TestWeight, share: float) -> Iterator[tuple[Concern, str, float]]:
    if Flag.UNIT in test.flags:
        reason = "about 1000 times the usual in some run, which does not count: milliseconds taken for seconds?"
        yield Concern.UNIT, reason, test.weight
    if Flag.SKIPPED_AS_0 in test.flags:
        yield Concern.SKIPPED_AS_0, "about 0 s in some runs: skips that the log calls a duration?", test.weight
    if Flag.TIMED_OUT in test.flags:
        yield Concern.TIMED_OUT, "timed out in two runs or more", test.weight
    if Flag.FLAKY in test.flags and test.p90 - test.p10 > share:
        yield Concern.FLAKY, "unsteady: two speeds, or it fails and passes", test.p90 - test.p10
    thin = Flag.THIN in test.flags or Flag.ESTIMATED in test.flags
    if thin and test.weight > share * BIG_SHARE / CHANGED_SHARE:
        yield Concern.THIN, f"a large test known from {test.samples} run{'s' if test.samples != 1 else ''}", test.weight
