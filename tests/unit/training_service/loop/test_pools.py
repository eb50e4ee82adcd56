"""Which work gets a thread, and what hangs beside it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from tests.support.waiting import wait_until
from tests.unit.training_service.loop.test_reconcile import make_record
from training_api.job.image_ref import parse_image_ref
from training_service.loop.pools import Pools, side_by_side
from training_service.model.work import PullImages, RemoveJob

JOB = make_record()


def pull(*hosts: str) -> PullImages:
    images = tuple(parse_image_ref(f"{host}/project/trainer:1") for host in hosts)
    return PullImages(job=JOB, images=images)


class Bench:
    """Pools of three pulls, two a registry, and one removal; work hangs until ``release``."""

    def __init__(self) -> None:
        self.pools = Pools({PullImages: 3, RemoveJob: 1}, pulls_of_a_registry=2)
        self.release = threading.Event()
        self.ended: list[str] = []

    def start(self, work: PullImages | RemoveJob) -> bool:
        return self.pools.start(
            work, do=lambda: self.release.wait() and None, after=lambda: self.ended.append("ended")
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.release.set()


def test_work_that_hangs_holds_up_its_own_kind_only(bench: Bench) -> None:
    removal = RemoveJob(job_uid="uid")

    assert bench.start(removal)
    assert not bench.start(replace(removal, job_uid="other"))
    assert bench.start(pull("a.test"))


def test_a_registry_that_hangs_leaves_places_to_others(bench: Bench) -> None:
    assert [bench.start(pull("a.test")) for _ in range(3)] == [True, True, False]
    assert not bench.start(pull("b.test", "a.test"))
    assert bench.start(pull("b.test"))
    assert not bench.start(pull("c.test"))


def test_a_place_is_free_again_when_it_is_said_to_be(bench: Bench) -> None:
    for _ in range(2):
        bench.start(pull("a.test"))

    bench.release.set()
    wait_until(lambda: len(bench.ended) == 2, "both have ended")

    assert [bench.start(pull("a.test")) for _ in range(2)] == [True, True]


def test_what_raises_gives_its_place_back_too() -> None:
    pools, ended, seen = Pools({RemoveJob: 1}), threading.Event(), []
    hook, threading.excepthook = threading.excepthook, lambda args: seen.append(args.exc_type)

    def do() -> None:
        raise KeyError

    try:
        pools.start(RemoveJob(job_uid="uid"), do, ended.set)
        wait_until(lambda: ended.is_set() and seen, "it has ended")
    finally:
        threading.excepthook = hook

    assert pools.start(RemoveJob(job_uid="uid"), lambda: None, lambda: None)


def test_threads_of_a_pool_do_not_keep_the_process_alive(bench: Bench) -> None:
    bench.start(RemoveJob(job_uid="uid"))

    threads = [each for each in threading.enumerate() if each.name == "work"]
    assert threads
    assert all(thread.daemon for thread in threads)


def test_a_thread_is_used_again_and_ends_when_there_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_service.loop.pools._IDLE_SECONDS", 0.2)
    pools, used = Pools({RemoveJob: 1}), list[threading.Thread]()
    place_is_free = threading.Event()

    def start() -> bool:
        return pools.start(
            RemoveJob(job_uid="uid"), lambda: used.append(threading.current_thread()), place_is_free.set
        )

    for count in range(1, 11):
        place_is_free.clear()
        wait_until(start, "there is a place")
        wait_until(lambda count=count: len(used) == count and place_is_free.is_set(), "it is done")

    wait_until(lambda: not any(thread.is_alive() for thread in used), "the threads have ended")
    assert len({thread.ident for thread in used}) < 10


@pytest.mark.extended
def test_no_work_is_lost_while_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_service.loop.pools._IDLE_SECONDS", 0.0005)
    pools, done = Pools({RemoveJob: 4}), Counter[int]()

    for number in range(500):
        work = partial(done.update, [number])
        wait_until(partial(pools.start, RemoveJob(job_uid="uid"), work, lambda: None), "there is a place")

    wait_until(lambda: done.total() == 500, "all is done")
    assert set(done.values()) == {1}


def test_items_side_by_side_are_all_done_before_the_first_error_is_raised() -> None:
    done: list[int] = []

    def do(item: int) -> int:
        if item % 2:
            raise ValueError(item)
        done.append(item)
        return item

    with pytest.raises(ValueError, match="1"):
        side_by_side(do, range(100))

    assert sorted(done) == list(range(0, 100, 2))
    assert side_by_side(lambda item: item + 1, range(100)) == list(range(1, 101))
    assert side_by_side(do, [4]) == [4]
    assert side_by_side(do, []) == []
