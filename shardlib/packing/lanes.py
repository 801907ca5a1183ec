"""Lanes: slots of one node that are used together, one job after the other, and how jobs are put on them.

A node begins as one lane as wide as the node. A job that needs fewer slots than its lane parts it for good: the job's
slots, and the rest, both free from the lane's end on. Jobs are put on lanes widest first, so no slot ever waits for
another and the runner, which takes groups in order of their planned start, runs exactly this plan.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardlib.dispatch import width_on
from shardlib.model import Group, Mode

Kind = tuple[int, int]  # width and the mode's place in `_ORDER`

# Within one width: fresh processes first, since one between two files of a living worker would cost that worker's start.
_ORDER = (Mode.SEQUENTIAL, Mode.ISOLATED, Mode.CONCURRENT, Mode.CPU)


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A group with what the packer asks of it, worked out once.

    `ms` holds the start of a fresh process, if it needs one. `again_ms` is what a cut would add: setup and such a start.
    """

    group: Group
    ms: int
    again_ms: int
    kind: Kind
    fresh: bool

    @property
    def name(self) -> str:
        """Its first test's node id, which breaks ties."""
        return self.group.tests[0].id


@dataclass(eq=False, kw_only=True)
class Lane:
    """Slots of one node and the jobs on them. `start_ms` is when its node's wider jobs let go of them."""

    number: int
    node: int
    width: int
    start_ms: int
    kind: Kind | None  # of the worker that lives on exactly these slots at its end
    end_ms: int
    jobs: list[Job] = field(default_factory=list)
    parted: bool = False


def as_jobs(groups: Sequence[Group], slots: int, startup_ms: int) -> list[Job]:
    """Return the groups as jobs for nodes of so many slots."""
    jobs = []
    for group in groups:
        fresh = group.mode.fresh_process
        kind = (width_on(group, slots), _ORDER.index(group.mode))
        start_ms = startup_ms if fresh else 0
        again_ms = group.setup_ms + start_ms
        jobs.append(Job(group=group, ms=group.cost_ms + start_ms, again_ms=again_ms, kind=kind, fresh=fresh))
    return jobs


def order(job: Job) -> tuple[int, int, int, str]:
    """Return the sort key by which jobs are put on lanes: the widest first, the longest first, by node id."""
    return (-job.kind[0], job.kind[1], -job.ms, job.name)


def fill(
    jobs: Sequence[Job], *, nodes: int, slots: int, startup_ms: int, target_ms: int
) -> tuple[list[Lane], list[Job]]:
    """Return lanes with every job on one of them: best fit below `target_ms`, else wherever it ends first.

    A job goes to the fullest lane on which it ends by the target: first among those where its worker would live
    already, then among all that are wide enough. So each kind of work stays on few nodes, and the long narrow jobs find
    nodes that no wide work has delayed. With `target_ms` 0 this is LPT; with targets tried upwards it is MULTIFIT
    (Coffman, Garey, Johnson 1978: at most 1.22 times the optimum for P||Cmax). O(n log n) for one width.
    """
    lanes = [Lane(number=n, node=n, width=slots, start_ms=0, kind=None, end_ms=0) for n in range(nodes)]
    late: list[Job] = []
    start = 0
    while start < len(jobs):
        kind = jobs[start].kind
        stop = start
        while stop < len(jobs) and jobs[stop].kind == kind:
            stop += 1
        late += _fill_kind(jobs[start:stop], lanes, startup_ms=startup_ms, target_ms=target_ms)
        start = stop
    return lanes, late


def _fill_kind(jobs: Sequence[Job], lanes: list[Lane], *, startup_ms: int, target_ms: int) -> list[Job]:
    late: list[Job] = []
    width = jobs[0].kind[0]
    extra_ms = 0 if jobs[0].fresh else startup_ms
    homes: list[tuple[int, int]] = []  # (end, number) of lanes where this kind's worker lives
    others = sorted((lane.end_ms, lane.number) for lane in lanes if not lane.parted and lane.width >= width)
    for job in jobs:
        place = _best_fit(homes, target_ms - job.ms)
        home = place is not None
        if place is None:
            place = _best_fit(others, target_ms - job.ms - extra_ms)
        if place is None:
            home = bool(homes) and (not others or homes[0][0] <= others[0][0] + extra_ms)
            place = 0
            late.append(job)
        lane = lanes[(homes if home else others).pop(place)[1]]
        if lane.width > width:
            lane, rest = _part(lane, width, lanes)
            if rest.width >= width:
                insort(others, (rest.end_ms, rest.number))
        lane.jobs.append(job)
        lane.end_ms += job.ms + (0 if home else extra_ms)
        lane.kind = job.kind
        insort(homes, (lane.end_ms, lane.number))
    return late


def _best_fit(lanes: Sequence[tuple[int, int]], latest_ms: int) -> int | None:
    """The place of the fullest lane that ends by `latest_ms`."""
    place = bisect_right(lanes, (latest_ms, 1 << 62)) - 1
    return place if place >= 0 else None


def _part(lane: Lane, width: int, lanes: list[Lane]) -> tuple[Lane, Lane]:
    lane.parted = True
    parts = []
    for part in (width, lane.width - width):
        new = Lane(number=len(lanes), node=lane.node, width=part, start_ms=lane.end_ms, kind=None, end_ms=lane.end_ms)
        lanes.append(new)
        parts.append(new)
    return parts[0], parts[1]


def node_lists(lanes: Sequence[Lane], *, nodes: int, startup_ms: int) -> list[list[Group]]:
    """Return each node's groups in order of their planned start; at one moment the widest first.

    On a lane the longest come first, so that little is at stake at its end; but what is shorter than a worker's start
    comes before them: left for the end, it would tempt the runner to start workers on slots that are free already.
    """
    starts: list[list[tuple[int, int, int, Group]]] = [[] for _ in range(nodes)]
    for lane in lanes:
        now = lane.start_ms
        living: Kind | None = None
        for job in sorted(lane.jobs, key=lambda job: (job.kind[1], job.ms >= startup_ms, -job.ms, job.name)):
            starts[lane.node].append((now, -lane.width, lane.number, job.group))
            now += job.ms
            if not job.fresh and living != job.kind:
                now += startup_ms
                living = job.kind
    return [[group for *_, group in sorted(starts[node], key=lambda start: start[:3])] for node in range(nodes)]
