"""A wait resumes the log where the previous triggerer stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from container_training.triggers.shown_log import ShownLog, read_shown_log
from container_training.triggers.training import JobTrigger
from tests.support.fakes.fake_service import EPOCH, FakeService, make_job
from tests.support.fakes.virtual_time import VirtualClock
from training_api.states import JobState

TASK = SimpleNamespace(dag_id="d", run_id="manual__1", task_id="wait", map_index=-1, try_number=1)
NAME = "dag_id=d/run_id=manual__1/task_id=wait/attempt=1.log"
AT = "2026-11-20T09:00:00.500000Z"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Airflow's logs."""
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    return tmp_path


def write(logs: Path, lines: Iterable[str], ending: str = ".trigger.7.log", cut: str = "") -> None:
    """Write what a triggerer has left; ``cut``: the half line of one that was killed."""
    file = logs / f"{NAME}{ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"timestamp": AT, "level": "info", "event": line}) + "\n" for line in lines)
    file.write_text(text + cut)


def run_again(service: FakeService, lines: int = 5) -> None:
    """Run the trigger anew, of a job that writes ``lines`` lines of which two are the same."""
    service.add(make_job(state=JobState.RUNNING))
    for number in range(lines):
        service.write("digits_1", f"epoch {number // 2}")
    trigger = JobTrigger(
        job_id="digits_1",
        until="finished",
        training_conn_id="training_default",
        deadline_at=(EPOCH + timedelta(hours=1)).isoformat(),
        poll_interval_seconds=1.0,
        stream_logs=True,
    )
    trigger.task_instance = TASK  # type: ignore[assignment]
    clock = VirtualClock(lambda: None, lambda: service.move("digits_1", JobState.SUCCEEDED))
    trigger.now = clock.now

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    clock.run(events())


def test_lines_and_states_of_a_killed_triggerer_are_not_shown_again(
    service: FakeService, log_lines: Sequence[str], logs: Path
) -> None:
    write(
        logs,
        [
            "trigger d/manual__1/wait/-1/1 (ID 1) starting",
            "job digits_1 is QUEUED",
            "job digits_1 is RUNNING, after 2.0 s QUEUED",
            "master-replica-0: epoch 0",
            "master-replica-0: epoch 0",
            "master-replica-0: epoch 1",
        ],
        cut='{"timestamp": "2026-11-20T09:0',
    )

    run_again(service)

    shown = [line for line in log_lines if "epoch" in line]
    assert shown == ["master-replica-0: epoch 1", "master-replica-0: epoch 2"]
    assert [line for line in log_lines if "is RUNNING" in line] == []
    (end,) = [line for line in log_lines if "is SUCCEEDED" in line]
    assert "after" in end


def test_without_the_log_of_an_earlier_triggerer_all_is_shown(
    service: FakeService, log_lines: Sequence[str], logs: Path
) -> None:
    write(logs, ["master-replica-0: epoch 0"], ending="")  # the worker's own part

    run_again(service)

    assert len([line for line in log_lines if "epoch" in line]) == 5
    assert len([line for line in log_lines if "is RUNNING" in line]) == 1


def test_with_remote_logs_the_last_triggerers_file_is_whole(
    service: FakeService, log_lines: Sequence[str], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__REMOTE_LOGGING", "True")
    write(logs, ["master-replica-0: epoch 0"])

    run_again(service)

    assert len([line for line in log_lines if "epoch" in line]) == 5


def test_files_of_several_triggerers_count_together(logs: Path) -> None:
    write(logs, ["a", "job j is QUEUED"], ".trigger.9.log")
    write(logs, ["a", "b", "job j is RUNNING, after 1.0 s QUEUED"], ".trigger.10.log")

    shown = read_shown_log(TASK, "j")

    assert [shown.take(line) for line in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    assert (shown.state, shown.since) == (JobState.RUNNING, datetime.fromisoformat(AT).astimezone(UTC))


def test_state_of_another_job_is_not_taken_over() -> None:
    shown = ShownLog.of([(AT, "job other is RUNNING, after 1.0 s QUEUED")], "j")

    assert shown.state is None


def test_log_that_cannot_be_read_does_not_end_the_wait(
    service: FakeService, log_lines: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> ShownLog:
        raise PermissionError("the folder of logs")

    monkeypatch.setattr("container_training.triggers.training.read_shown_log", refuse)

    run_again(service)

    assert any("is shown again: the folder of logs" in line for line in log_lines)
    assert len([line for line in log_lines if "epoch" in line]) == 5
