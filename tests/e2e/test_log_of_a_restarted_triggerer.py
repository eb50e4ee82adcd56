"""The log of a job in its task's log, while triggerers are killed, stopped and started again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.e2e.kill_table.bed import kill_program

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900)]

WAIT = "wait_until_finished"
TRIGGERER = "airflow-triggerer"
TICKS = 700
PROGRAM = f"import time; [(print('tick', n, flush=True), time.sleep(0.25)) for n in range({TICKS})]"


def ticks_in(run: Run) -> list[int]:
    return [int(number) for number in re.findall(r"master-replica-0: tick (\d+)\b", run.log(WAIT))]


def starts_in(run: Run) -> int:
    return len(re.findall(r"trigger \S+ \(ID \d+\) starting", run.log(WAIT)))


def test_each_line_is_shown_once_though_triggerers_are_killed_and_stopped(
    start_program: Callable[[str], Run], stack: LocalStack
) -> None:
    run = start_program(PROGRAM)
    for starts, end in ((1, kill_program), (2, lambda stack, name: stack.processes.stop(name))):
        wait_until(lambda starts=starts: starts_in(run) == starts, f"triggerer {starts} has the wait")
        seen = len(ticks_in(run))
        wait_until(lambda seen=seen: len(ticks_in(run)) >= seen + 5, "the wait shows lines")
        end(stack, TRIGGERER)
        stack.up([Part.AIRFLOW])
    run.wait_for_task(WAIT, "success")

    log = run.log(WAIT)
    assert starts_in(run) == 3, log
    assert ticks_in(run) == list(range(TICKS))
    assert len(re.findall(r"job \S+ is RUNNING", log)) == 1, log
    assert len(re.findall(r"job \S+ is SUCCEEDED", log)) == 1, log
