"""On which of several machines containers are put."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.machines import GIB, Resources
from training_api.job.placement import FreeRoom, MachineRoom, Placement


def machine(cpus: float, gpus: int = 0, overcommit: float = 1) -> MachineRoom:
    size = Resources(cpus=cpus, memory_bytes=int(cpus * GIB), gpus=gpus)
    total = Resources(cpus=cpus * overcommit, memory_bytes=int(size.memory_bytes * overcommit), gpus=gpus)
    return MachineRoom(each=size, total=total)


def container(cpus: float, gpus: int = 0) -> Resources:
    return Resources(cpus=cpus, memory_bytes=int(cpus * GIB), gpus=gpus)


def test_replicas_are_spread_over_machines_or_packed_onto_few() -> None:
    rooms = {"a": machine(4), "b": machine(4), "c": machine(4)}
    job = [container(1)] * 3

    assert sorted(FreeRoom(rooms).put(job, Placement.SPREAD) or ()) == ["a", "b", "c"]
    assert len(set(FreeRoom(rooms).put(job, Placement.PACK) or ())) == 1


def test_a_job_joins_the_machines_that_it_is_on_or_avoids_them() -> None:
    rooms = {"a": machine(4), "b": machine(4)}

    assert FreeRoom(rooms).put([container(1)], Placement.PACK, beside=["b"]) == ["b"]
    assert FreeRoom(rooms).put([container(1)], Placement.SPREAD, beside=["a"]) == ["b"]


def test_a_replica_that_fits_no_machine_does_not_fit_however_much_there_is_in_sum() -> None:
    free = FreeRoom({"a": machine(4), "b": machine(4)})
    free.take("a", container(3))
    free.take("b", container(3))

    assert free.put([container(2)], Placement.SPREAD) is None
    # Nothing was put anywhere by the try.
    assert free.put([container(1), container(1)], Placement.SPREAD) is not None


def test_the_large_replica_has_its_machine_before_the_small_ones_are_spread() -> None:
    free = FreeRoom({"a": machine(4), "b": machine(4)})

    assert free.put([container(2), container(2), container(4)], Placement.SPREAD) in (
        ["a", "a", "b"],
        ["b", "b", "a"],
    )


def test_spreading_gives_way_where_only_packing_has_room() -> None:
    free = FreeRoom({"a": machine(4), "b": machine(3)})

    placed = free.put([container(2), container(2), container(1.5), container(1.5)], Placement.SPREAD)

    assert placed == ["a", "a", "b", "b"]


def test_containers_without_gpus_leave_machines_with_gpus_free_while_others_have_room() -> None:
    free = FreeRoom({"gpus": machine(4, gpus=2), "none": machine(2)})

    assert free.put([container(1), container(1)], Placement.SPREAD) == ["none", "none"]
    assert free.put([container(1)], Placement.SPREAD) == ["gpus"]
    assert free.put([container(1, gpus=3)], Placement.SPREAD) is None


def test_a_machine_is_promised_more_than_it_has_but_to_one_container_never() -> None:
    free = FreeRoom({"a": machine(2, overcommit=2)})

    assert free.put([container(3)], Placement.PACK) is None
    assert free.put([container(2), container(2)], Placement.PACK) == ["a", "a"]
    assert free.put([container(0.5)], Placement.PACK) is None


def test_a_container_on_a_machine_that_takes_no_more_counts_nowhere() -> None:
    free = FreeRoom({"a": machine(2)})
    free.take("drained", container(2))

    assert free.put([container(2)], Placement.PACK) == ["a"]


@given(
    sizes=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=1, max_size=8),
    machines=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=4),
    placement=st.sampled_from(Placement),
)
def test_no_machine_is_ever_promised_more_than_it_has(
    sizes: list[float], machines: list[float], placement: Placement
) -> None:
    rooms = {f"m{number}": machine(cpus) for number, cpus in enumerate(machines)}

    placed = FreeRoom(rooms).put([container(cpus) for cpus in sizes], placement)

    for name, room in rooms.items():
        loads = [cpus for cpus, where in zip(sizes, placed or [], strict=False) if where == name]
        assert sum(loads) <= room.total.cpus


@given(count=st.integers(1, 12), machines=st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_equal_containers_fit_exactly_as_often_as_machines_have_room_for_them(
    count: int, machines: list[int]
) -> None:
    rooms = {f"m{number}": machine(cpus) for number, cpus in enumerate(machines)}

    placed = FreeRoom(rooms).put([container(1)] * count, Placement.SPREAD)

    assert (placed is not None) == (count <= sum(machines))


@pytest.mark.parametrize("placement", list(Placement))
def test_the_same_question_has_the_same_answer(placement: Placement) -> None:
    rooms = {"a": machine(4), "b": machine(4), "c": machine(2)}
    answers = [FreeRoom(rooms).put([container(1)] * 5, placement) for _ in range(3)]

    assert all(one == other for one, other in pairwise(answers))
