"""A wait that an earlier version deferred is resumed by this one."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.module_loading import import_string

from container_training.sensors.training import TrainingJobSensor
from tests.support.fakes.fake_service import EPOCH, FakeService, make_job
from tests.support.fakes.virtual_time import VirtualClock
from training_api.states import JobState

#: A row of Airflow's database has a class and its arguments. This is what ``JobTrigger.serialize`` returned
#: at commit 6ec1646, before the code became five packages.
STORED = """
["container_training.triggers.training.JobTrigger",
 {"job_id": "digits_1", "until": "finished", "training_conn_id": "training_default",
  "deadline_at": "2026-11-20T10:00:00+00:00", "poll_interval_seconds": 0.5, "stream_logs": true,
  "cancel_on_kill": true, "max_cost": null, "owner": "token",
  "watch": {"state": "RUNNING", "since": "2026-11-20T09:00:00Z", "log_cursor": "2026-11-20T09:00:01.500000Z",
            "shown": "", "is_over_limit": false}}]
"""


def test_a_wait_of_an_earlier_version_ends_with_its_job(service: FakeService, context: Any) -> None:
    path, arguments = json.loads(STORED)
    service.add(make_job(state=JobState.RUNNING))
    clock = VirtualClock(lambda: None, lambda: service.move("digits_1", JobState.SUCCEEDED))

    trigger = import_string(path)(**arguments)
    trigger.now = clock.now

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (event,) = clock.run(events())

    assert clock.now() > EPOCH
    assert (
        TrainingJobSensor(task_id="wait", job_id="digits_1").execute_complete(context, event) == "SUCCEEDED"
    )


def test_todays_triggers_are_stored_with_the_same_arguments() -> None:
    path, arguments = json.loads(STORED)

    assert import_string(path)(**arguments).serialize() == (path, arguments)
