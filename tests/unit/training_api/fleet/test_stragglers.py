"""Who is late, and who is not."""

from __future__ import annotations

import pytest

from training_api.fleet.stragglers import Delay, Stretch, find_stragglers


def stretches(**times: tuple[float, float]) -> dict[str, Stretch]:
    return {
        name.replace("_", "-replica-"): Stretch(start=start, end=end) for name, (start, end) in times.items()
    }


def test_replicas_that_begin_and_end_together_are_not_late() -> None:
    assert find_stragglers(stretches(master_0=(0, 60), worker_0=(1, 61), worker_1=(4.9, 64))) == {}


def test_a_worker_that_begins_later_than_its_peers_is_late() -> None:
    late = find_stragglers(stretches(master_0=(0, 60), worker_0=(0, 60), worker_1=(12, 60)))

    assert late == {"worker-replica-1": Delay(start=12)}


def test_a_worker_that_ends_later_than_its_peers_is_late() -> None:
    late = find_stragglers(stretches(master_0=(0, 60), worker_0=(0, 62), worker_1=(0, 100)))

    assert late == {"worker-replica-1": Delay(end=39)}


def test_the_first_two_pools_of_vertex_ai_are_peers_and_a_third_one_has_its_own() -> None:
    begun = {"workerpool0-0": 0, "workerpool1-0": 0, "workerpool1-1": 12, "workerpool2-0": 12}
    late = find_stragglers({name: Stretch(start=start, end=60) for name, start in begun.items()})

    assert late == {"workerpool1-1": Delay(start=12)}


def test_of_two_the_later_one_is_late() -> None:
    assert find_stragglers(stretches(master_0=(0, 30), worker_0=(9, 30))) == {
        "worker-replica-0": Delay(start=9)
    }


def test_what_is_small_beside_the_run_is_not_late() -> None:
    assert find_stragglers(stretches(master_0=(0, 3600), worker_0=(0, 3600), worker_1=(300, 3600))) == {}


def test_one_alone_is_never_late() -> None:
    assert find_stragglers(stretches(master_0=(100, 200))) == {}


@pytest.mark.parametrize("role", ["ps", "evaluator"])
def test_roles_with_another_part_are_not_compared_with_workers(role: str) -> None:
    late = find_stragglers(
        {"master-replica-0": Stretch(start=0, end=60), f"{role}-replica-0": Stretch(start=0, end=99)}
    )

    assert late == {}
