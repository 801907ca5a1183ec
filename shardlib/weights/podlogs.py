"""Logs of a cluster's pods as runs: one run for each workflow, whatever its pods printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from shardlib.weights import logs, streams
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import KINDS, Run, Sample


class LogGoneError(Exception):
    """A pod's log is no longer there, or may not be read: one place that could not be read, no reason to stop."""


@dataclass(frozen=True, kw_only=True)
class PodLog:
    """One pod's log, not yet opened. `when` is the workflow's start in unix seconds; `open` may raise LogGoneError."""

    workflow: str
    uid: str
    pod: str
    when: float | None
    open: Callable[[], Any]


def runs(pods: Iterable[PodLog], unread: Unread) -> Iterator[Run]:
    """Yields a run for each workflow with a test's seconds in its pods' logs; the run's id is the workflow's uid.

    So a run is known again when its folder, which has the uid as its name, is collected too.
    """
    workflows: dict[str, list[PodLog]] = {}
    for pod in pods:
        workflows.setdefault(pod.uid, []).append(pod)
    for uid, members in workflows.items():
        found = [(pod, each) for pod in members for each in _read(pod, unread)]
        if not found:
            continue
        kind = min((each.kind for _, each in found), key=KINDS.index)
        rows: dict[tuple[str, str | None, str | None], Sample] = {}
        for pod, each in found:
            for sample in each.samples if each.kind == kind else ():
                own = sample if sample.pod is not None else replace(sample, pod=pod.pod)
                rows.setdefault((own.id, own.pod, own.worker), own)
        source = f"{unread.source}/{members[0].workflow}"
        yield Run(run=uid, when=members[0].when, kind=kind, source=source, samples=tuple(rows.values()))


def _read(pod: PodLog, unread: Unread) -> list[Found]:
    own = Unread(source=f"{unread.source}/{pod.workflow}/{pod.pod}")
    found: list[Found] = []
    try:
        stream = pod.open()
        try:
            found = list(logs.parse(streams.opened(stream), own))
        finally:
            stream.close()
    except (LogGoneError, OSError) as err:
        own.add(None, str(err))
    unread.fold(own)
    return found
