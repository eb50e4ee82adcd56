"""A thousand pieces of work take a few threads, also in the child of a fork."""

from __future__ import annotations

import os
import threading
import time

from container_training.runtime.daemon_threads import DaemonThreads
from tests.support.waiting import wait_until

NAME = "a-daemon-of-these-tests"


def running() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


def test_much_work_takes_a_few_threads_which_end() -> None:
    threads, done = DaemonThreads(NAME, most=3), list[int]()
    # A thread that is about to end still runs, without work.
    lock, at_work, most = threading.Lock(), 0, 0

    def work(number: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.0005)
        with lock:
            at_work -= 1
            done.append(number)

    for number in range(1000):
        threads.do(work, number)

    wait_until(lambda: len(done) == 1000, "all is done")
    assert sorted(done) == list(range(1000))
    assert 1 <= most <= 3
    wait_until(lambda: running() == 0, "the threads end")
    threads.do(work, 1000)
    wait_until(lambda: len(done) == 1001, "a thread begins anew")


def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    threads, release = DaemonThreads(NAME, most=1), threading.Event()
    threads.do(release.wait)
    wait_until(lambda: running() == 1, "the only thread is at work")

    child = os.fork()
    if child == 0:
        done = threading.Event()
        threads.do(done.set)
        os._exit(0 if done.wait(60) else 1)

    _, status = os.waitpid(child, 0)
    release.set()
    assert os.waitstatus_to_exitcode(status) == 0
