"""The sentences that the page and the terminal share: the verdict, the data's age, the effect on the shards. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from shardlib.weights.proposal import Proposal
from shardlib.weights.review.compare import Review
from shardlib.weights.review.shards import RunEffect
from shardlib.weights.review.words import DAY, day, days, percent, plural, seconds

OLD_DATA_DAYS = 7  # newer runs than that should be there (a guess: suites run daily)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Everything that a review shows. `now` are unix seconds, `current_name` the file that is in use (None: none is)."""

    proposal: Proposal
    review: Review
    effects: Sequence[RunEffect]
    now: float
    current_name: str | None
    nodes_known: bool  # whether a collect.json told modes and GPUs


def verdict(sheet: Sheet) -> str:
    """Returns what there is to do, in one line."""
    findings = sheet.review.urgent
    if not findings:
        return "Nothing needs attention."
    text = f"{plural(len(findings), 'test needs', 'tests need')} a look"
    implausible = len(sheet.review.implausible)
    if implausible:
        text += f"; {implausible} of them {'is' if implausible == 1 else 'are'} implausible and will not be accepted"
        text += " without --yes"
    return text + "."


def age(sheet: Sheet) -> str:
    """Returns how many runs there are, from when to when, and how old the newest is."""
    whens = [run.when for run in sheet.proposal.runs if run.when is not None]
    text = plural(len(sheet.proposal.runs), "run")
    if not whens:
        return f"{text}, of unknown age"
    text += f" from {day(min(whens))} to {day(max(whens))}"
    old = sheet.now - max(whens)
    return f"{text}; the newest is {days(old)} old" + (
        ": is this still the suite?" if old > OLD_DATA_DAYS * DAY else ""
    )


def totals(sheet: Sheet) -> str:
    """Returns the sum of the weights, before and after, and the factor that all tests share."""
    review = sheet.review
    tests = sum(1 for test in sheet.proposal.tests if not test.is_setup)
    setups = len(sheet.proposal.tests) - tests
    text = f"{plural(tests, 'test')} and {plural(setups, 'file setup')}, {seconds(review.new_total)} in all"
    if review.old_total:
        text += f" (in use: {seconds(review.old_total)})"
    if abs(review.common_factor - 1) > 0.1:
        text += f"; all became x{review.common_factor:.2f} together, which moves no shard"
    return text


def effect(sheet: Sheet) -> str:
    """Returns what the new weights do to the makespan and the spread of the last runs."""
    if not sheet.effects:
        return "No run had enough tests to say what the weights do to the shards."
    old = fmean(run.old.makespan_seconds for run in sheet.effects)
    new = fmean(run.new.makespan_seconds for run in sheet.effects)
    spreads = [100 * fmean(getattr(run, which).spread for run in sheet.effects) for which in ("old", "new")]
    runs = plural(len(sheet.effects), "run")
    before = "with the weights in use" if sheet.current_name else "without any weights"
    return (
        f"The last {runs}, repacked: makespan {seconds(old)} {before}, {seconds(new)} with the new ones "
        f"({percent(new / old - 1) if old else '-'}); the shortest shard ends {spreads[0]:.0f} % early, then {spreads[1]:.0f} %."
    )


def settings(sheet: Sheet) -> str:
    """Returns how the weights were fitted, in one line."""
    values = sheet.proposal.settings
    tuned = "chosen by the history" if values.get("half_life_tuned") else "as asked"
    text = f"half-life {values.get('half_life_runs', 0):g} runs ({tuned})"
    text += f", level shifts after {values.get('shift_up_runs')} runs up and {values.get('shift_down_runs')} down"
    return text + (", large tests drawn towards their P90" if values.get("margin") else "")
