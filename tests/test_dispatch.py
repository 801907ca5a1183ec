"""The placement policy: reuse, free slots first, fewest workers ended, nothing beside a sequential group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardlib.dispatch import Placement, Seat, place, width_on
from shardlib.model import Group, Mode


def group(mode: Mode, gpus: int) -> Group:
    return Group(id="g", file="f", mode=mode, gpus=gpus, setup_ms=0, tests=())


def seat(worker: str, mode: Mode, *slots: int, idle: bool = True) -> Seat:
    return Seat(worker=worker, mode=mode, slots=slots, idle=idle)


def test_empty_node_gives_the_lowest_slots() -> None:
    assert place(group(Mode.CONCURRENT, 2), [], 4) == Placement(slots=(0, 1), reuse=None, evict=())


def test_idle_worker_of_the_same_mode_and_width_is_reused_lowest_slots_first() -> None:
    seats = [seat("b", Mode.CONCURRENT, 2), seat("a", Mode.CONCURRENT, 1), seat("c", Mode.CONCURRENT, 0, idle=False)]
    assert place(group(Mode.CONCURRENT, 1), seats, 8) == Placement(slots=(1,), reuse="a", evict=())


def test_isolated_group_never_reuses_a_worker() -> None:
    seats = [seat("a", Mode.ISOLATED, 0)]
    assert place(group(Mode.ISOLATED, 1), seats, 2) == Placement(slots=(1,), reuse=None, evict=())


def test_worker_of_another_width_is_not_reused() -> None:
    assert place(group(Mode.CONCURRENT, 1), [seat("a", Mode.CONCURRENT, 0, 1)], 4) == Placement(
        slots=(2,), reuse=None, evict=()
    )


def test_slots_without_a_worker_are_taken_before_one_is_ended() -> None:
    seats = [seat("a", Mode.CONCURRENT, 0), seat("b", Mode.CONCURRENT, 1)]
    assert place(group(Mode.ISOLATED, 2), seats, 3) == Placement(slots=(0, 2), reuse=None, evict=("a",))


def test_as_few_workers_as_possible_are_ended() -> None:
    seats = [seat("a", Mode.CONCURRENT, 0), seat("b", Mode.CONCURRENT, 1), seat("c", Mode.CONCURRENT, 2, 3)]
    placement = place(group(Mode.ISOLATED, 2), seats, 4)
    assert placement == Placement(slots=(2, 3), reuse=None, evict=("c",))


def test_sequential_group_takes_the_whole_node_and_waits_for_it() -> None:
    busy = [seat("a", Mode.CONCURRENT, 5, idle=False)]
    assert place(group(Mode.SEQUENTIAL, 8), busy, 8) is None
    placement = place(group(Mode.SEQUENTIAL, 8), [seat("a", Mode.CONCURRENT, 5)], 8)
    assert placement == Placement(slots=tuple(range(8)), reuse=None, evict=("a",))
    assert width_on(group(Mode.SEQUENTIAL, 1), 8) == 8


def test_cpu_group_takes_one_core() -> None:
    assert place(group(Mode.CPU, 0), [], 2) == Placement(slots=(0,), reuse=None, evict=())


def test_group_wider_than_the_node_does_not_fit() -> None:
    assert place(group(Mode.CONCURRENT, 3), [], 2) is None


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[Seat], int]:
    slots = draw(st.integers(1, 8))
    free = list(range(slots))
    seats: list[Seat] = []
    more: list[bool] = draw(st.lists(st.booleans(), max_size=8))  # and whether each worker is idle
    for idle in more:
        if not free:
            break
        taken: list[int] = draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
        free = [slot for slot in free if slot not in taken]
        mode = draw(st.sampled_from([Mode.CONCURRENT, Mode.ISOLATED]))
        seats.append(seat(f"w{len(seats)}", mode, *sorted(taken), idle=idle))
    return seats, slots


@given(nodes(), st.sampled_from([Mode.CONCURRENT, Mode.ISOLATED, Mode.SEQUENTIAL]), st.integers(1, 8))
def test_placement_is_sound_whatever_lives_on_the_node(node: tuple[list[Seat], int], mode: Mode, gpus: int) -> None:
    seats, slots = node
    wanted = group(mode, min(gpus, slots))
    width = width_on(wanted, slots)
    placement = place(wanted, seats, slots)
    available = slots - sum(len(s.slots) for s in seats if not s.idle)
    assert (placement is None) == (available < width)
    assert place(wanted, seats[::-1], slots) == placement  # order of the workers is irrelevant
    if placement is None:
        return
    assert len(placement.slots) == width
    assert list(placement.slots) == sorted(set(placement.slots))
    assert set(placement.slots) <= set(range(slots))
    kept = [s for s in seats if s.worker not in placement.evict and s.worker != placement.reuse]
    assert not {slot for s in kept for slot in s.slots} & set(placement.slots)
    assert all(s.idle for s in seats if s.worker in placement.evict)
