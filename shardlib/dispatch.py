"""The one placement policy: which slots a group gets now, which living worker it reuses, which idle ones must go.

Both the timeline (which predicts) and the runner (which runs) ask `place`, so that a prediction is a promise of the
same rules. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardlib.model import Group, Mode


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A living worker and the slots it holds. A slot is a GPU, or a core on the `cpu` shard."""

    worker: str
    mode: Mode
    slots: tuple[int, ...]
    idle: bool


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a group runs now: its slots, the worker it reuses (`None`: start one), the workers to end before that."""

    slots: tuple[int, ...]
    reuse: str | None
    evict: tuple[str, ...]


def width_on(group: Group, slots: int) -> int:
    """How many slots the group's worker holds on a node of so many: all of them where nothing may run beside it."""
    return slots if group.mode is Mode.SEQUENTIAL else group.width


def place(group: Group, seats: Sequence[Seat], slots: int) -> Placement | None:
    """Return where the group can run at this moment, or `None` if it does not fit now.

    A group reuses an idle worker of its mode and width (lowest slots first) unless its mode wants a fresh process.
    Else it takes slots without a living worker, lowest first, then those of idle workers, ending as few as possible;
    among equals the smallest that suffices, lowest slots first. A group wider than the node never fits: check before.
    """
    width = width_on(group, slots)
    if not group.mode.fresh_process:
        alike = [s for s in seats if s.idle and s.mode is group.mode and len(s.slots) == width]
        if alike:
            seat = min(alike, key=_lowest_slots)
            return Placement(slots=seat.slots, reuse=seat.worker, evict=())
    held = {slot for seat in seats for slot in seat.slots}
    free = [slot for slot in range(slots) if slot not in held]
    if len(free) >= width:
        return Placement(slots=tuple(free[:width]), reuse=None, evict=())
    idle = sorted((seat for seat in seats if seat.idle), key=_lowest_slots)
    evicted = _fewest(idle, width - len(free))
    if evicted is None:
        return None
    given = sorted(slot for seat in evicted for slot in seat.slots)
    taken = sorted(free + given[: width - len(free)])
    return Placement(slots=tuple(taken), reuse=None, evict=tuple(seat.worker for seat in evicted))


def _fewest(idle: Sequence[Seat], need: int) -> list[Seat] | None:
    """Fewest seats that hold `need` slots together: the widest first, and at last the narrowest that suffices."""
    if sum(len(seat.slots) for seat in idle) < need:
        return None
    left = sorted(idle, key=lambda seat: len(seat.slots))  # stable: lowest slots first among equally wide
    chosen = []
    while need > 0:
        enough = [seat for seat in left if len(seat.slots) >= need]
        widest = [seat for seat in left if len(seat.slots) == len(left[-1].slots)]
        seat = enough[0] if enough else widest[0]
        left.remove(seat)
        chosen.append(seat)
        need -= len(seat.slots)
    return sorted(chosen, key=_lowest_slots)


def _lowest_slots(seat: Seat) -> tuple[int, ...]:
    return seat.slots
