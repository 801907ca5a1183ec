"""Which proposed weights go into the durations file: everything that a person let through, and nothing else. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shardlib.errors import WeightsError
from shardlib.escape import printable
from shardlib.fields import short
from shardlib.weights.proposal import Flag, Proposal, TestWeight
from shardlib.weights.review.compare import Review
from shardlib.weights.review.words import day, percent, plural, seconds

_SKIP_SECONDS = 0.05  # a longer one, after some work of its own, is weighed as what it takes
_SHOWN = 10  # changes that a commit message names, the largest first


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a person said. `keep_unknown`: of keys in the file that the proposal does not know; None: nothing said.

    `only` and `without` are globs over keys (or keys themselves, brackets and all); `yes` are implausible keys to take.
    """

    only: Sequence[str] = ()
    without: Sequence[str] = ()
    yes: Sequence[str] = ()
    keep_unknown: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The new file's content, and what became of keys: sorted ids.

    `held` are implausible keys that nobody said yes to, `estimated` those without a run: both keep their old value, or
    stay out of the file. `skipped` are those in the file that every run skipped.
    """

    durations: Mapping[str, float]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    held: tuple[str, ...]
    estimated: tuple[str, ...]
    skipped: tuple[str, ...]
    unknown_kept: int


def accept(proposal: Proposal, current: Mapping[str, float], review: Review, choices: Choices) -> Accepted:
    """Returns what the durations file becomes.

    A test without a run stays out: `plan` estimates it from its relatives anyway, and then does not kill it after five
    times a guess.

    Raises:
        WeightsError: a glob that matches nothing, a `--yes` for a key that needs none, or keys that only the file has
            and no choice about them.
    """
    ids = {test.id for test in proposal.tests}
    _check(choices, ids | set(current), review.implausible)
    if review.gone and choices.keep_unknown is None:
        raise WeightsError(
            f"{plural(len(review.gone), 'key')} of the durations file {'is' if len(review.gone) == 1 else 'are'} in no "
            f"run, such as {short(review.gone[0])}; say --keep-unknown or --drop-unknown"
        )
    result = {key: value for key, value in current.items() if key in ids or choices.keep_unknown is not False}
    held, estimated, skipped = [], [], []
    for test in proposal.tests:
        if not _chosen(test.id, choices):
            continue
        if Flag.ESTIMATED in test.flags:
            estimated.append(test.id)
        elif test.id in review.implausible and test.id not in choices.yes:
            held.append(test.id)
        else:
            skipped += [test.id] if Flag.SKIPPED in test.flags else []
            result[test.id] = _as_written(test)
    return Accepted(
        durations={key: result[key] for key in sorted(result)},
        added=tuple(sorted(key for key in result if key not in current)),
        changed=tuple(sorted(key for key in result if key in current and result[key] != current[key])),
        removed=tuple(sorted(key for key in current if key not in result)),
        held=tuple(held),
        estimated=tuple(estimated),
        skipped=tuple(skipped),
        unknown_kept=sum(1 for key in review.gone if key in result),
    )


def dumps(durations: Mapping[str, float]) -> str:
    """Returns the durations file's text: sorted, a key a line, so that a diff shows what changed and nothing else."""
    return json.dumps(durations, indent=1, ensure_ascii=True, allow_nan=False, sort_keys=True) + "\n"


def summary(accepted: Accepted, current: Mapping[str, float], proposal: Proposal) -> str:
    """Returns what changed, fit for a commit message: a subject, then the largest changes."""
    counts = (
        (len(accepted.changed), "changed"),
        (len(accepted.added), "added"),
        (len(accepted.removed), "removed"),
    )
    told = ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing changed"
    old, new = sum(current.values()), sum(accepted.durations.values())
    whens = [run.when for run in proposal.runs if run.when is not None]
    since = f" from {day(min(whens))} to {day(max(whens))}" if whens else ""
    lines = [
        f"Update GPU test durations: {told}",
        "",
        f"{plural(len(accepted.durations), 'key')}, {seconds(new)} in all"
        + (f" (before: {seconds(old)}, {percent(new / old - 1)})" if old else ""),
        f"Fitted on {plural(len(proposal.runs), 'run')}{since}.",
    ]
    changes = [(key, current[key], accepted.durations[key]) for key in accepted.changed]
    changes.sort(key=lambda change: (-abs(change[2] - change[1]), change[0]))
    if changes:
        lines += ["", "Largest changes:"]
        lines += [
            f"  {seconds(before)} -> {seconds(after)}  {printable(key)}" for key, before, after in changes[:_SHOWN]
        ]
    for keys, what in (
        (accepted.held, "implausible, kept as they were (--yes KEY takes one)"),
        (accepted.estimated, "without a usable run, left to the plan's estimate"),
    ):
        if keys:
            lines += ["", f"{plural(len(keys), 'key')} {what}:", *(f"  {printable(key)}" for key in keys[:_SHOWN])]
            lines += [f"  ... and {len(keys) - _SHOWN} more"] if len(keys) > _SHOWN else []
    if accepted.skipped:
        lines += ["", f"{plural(len(accepted.skipped), 'test')} skipped in every run."]
    if accepted.unknown_kept:
        lines += ["", f"{plural(accepted.unknown_kept, 'key')} in no run, kept."]
    return "\n".join(lines)


def _as_written(test: TestWeight) -> float:
    """Seconds as a person reads them: one decimal, two below 1 s, three below 0.1 s; at least a millisecond.

    Thousands of tests of some milliseconds are seconds of a shard, which one decimal would make nothing. 0 is left for
    tests that every run skipped: `plan` then knows that it does not know what they take if they run.
    """
    if Flag.SKIPPED in test.flags and test.weight < _SKIP_SECONDS:
        return 0.0
    return max(0.001, round(test.weight, 1 if test.weight >= 1 else 2 if test.weight >= 0.1 else 3))


def _check(choices: Choices, keys: set[str], implausible: frozenset[str]) -> None:
    for option, globs in (("--only", choices.only), ("--except", choices.without)):
        for glob in globs:
            if not any(_matches(key, glob) for key in keys):
                raise WeightsError(f"{option} {short(glob)} matches no key; a glob or a whole key: 'tests/gpu/*'")
    for key in choices.yes:
        if key not in implausible:
            why = "the review finds it plausible" if key in keys else "no such key"
            raise WeightsError(f"--yes {short(key)}: {why}; `shardlib weights review` names the keys that need it")


def _chosen(key: str, choices: Choices) -> bool:
    wanted = not choices.only or any(_matches(key, glob) for glob in choices.only)
    return wanted and not any(_matches(key, glob) for glob in choices.without)


def _matches(key: str, glob: str) -> bool:
    return key == glob or fnmatchcase(key, glob)  # an id's brackets are a character class to a glob
