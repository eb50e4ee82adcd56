"""
One DAG for each phase and each setting of a DAG.

A phase's task is kept in its phase by the part that it works on.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from container_training.operators.image import BuildImageOperator, PushImageOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

# A task that hangs is asked where, by case.py; its log has the answer.
faulthandler.register(signal.SIGUSR2, file=2)

LIMITS = {
    "": (None, None),
    "_execution_timeout": (timedelta(seconds=float(os.environ["KILL_TABLE_EXECUTION_SECONDS"])), None),
    "_deadline": (None, timedelta(seconds=float(os.environ["KILL_TABLE_DEADLINE_SECONDS"]))),
}
CELL = "{{ params.cell }}"
#: Connection, and image, of the job in each phase that has one.
JOBS = {
    "submitting": ("training_gate", "{{ params.absent_image }}"),
    "queued": ("training_full", "{{ params.image }}"),
    "preparing": ("training_default", "{{ params.absent_image }}"),
    "running": ("training_default", "{{ params.image }}"),
    "vertex_submitting": ("vertex_gate", "{{ params.absent_image }}"),
    "vertex_running": ("vertex", "{{ params.image }}"),
}
#: Connection of a task that collects.
COLLECTED = {"collecting": "training_gate_reads", "vertex_collecting": "vertex_gate_reads"}
#: Connection of the wait, where only the submission is of interest.
SUBMITTED = {"submitting": "training_default", "vertex_submitting": "vertex"}
#: The same, of a task that submits, waits and collects, and what the job does.
SLEEPS = "import time; time.sleep(3600)"
ONE_TASKS = {
    "one_submitting": ("training_gate", "{{ params.absent_image }}", SLEEPS),
    "one_running": ("training_default", "{{ params.image }}", SLEEPS),
    "one_collecting": ("training_default", "{{ params.image }}", "pass"),
}


def submit_and_wait(phase: str, own: dict[str, Any], *, is_poking: bool) -> None:
    conn_id, image = JOBS[phase]
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        image=image,
        command=["python3", "-c", SLEEPS],
        labels={"cell": CELL},
        training_conn_id=conn_id,
        **(own if phase in SUBMITTED else {}),
    )
    wait = TrainingJobSensor(
        task_id="wait",
        job_id=submit.output,
        training_conn_id=SUBMITTED.get(phase, conn_id),
        deferrable=not is_poking,
        **({} if phase in SUBMITTED else own),
    )
    submit >> wait


def train(phase: str, own: dict[str, Any], *, is_poking: bool) -> None:
    conn_id, image, program = ONE_TASKS[phase]
    SubmitTrainingJobOperator(
        task_id="train",
        image=image,
        command=["python3", "-c", program],
        job_dir="{{ params.job_dir }}",
        labels={"cell": CELL},
        wait_for_completion=True,
        deferrable=not is_poking,
        training_conn_id=conn_id,
        **own,
    )


DAGS = [
    (phase, limit) for limit in LIMITS for phase in ("building", "pushing", *JOBS, *COLLECTED, *ONE_TASKS)
] + [(phase, "_poke") for phase in ("queued", "preparing", "running", "vertex_running", "one_running")]

for phase_name, limit in DAGS:
    execution_timeout, deadline = LIMITS.get(limit, (None, None))
    own_limit = {"execution_timeout": execution_timeout}
    with DAG(
        f"kill_{phase_name}{limit}",
        schedule=None,
        is_paused_upon_creation=False,
        max_active_runs=100,
        dagrun_timeout=deadline,
        params={"cell": "", "image": "", "absent_image": "", "job_id": "", "job_dir": ""},
        # More than are needed: a wait that is at its limit again meanwhile must still have somebody.
        default_args={"retries": 30, "retry_delay": timedelta(seconds=1)},
    ):
        if phase_name == "building":
            BuildImageOperator(
                task_id="build",
                context_dir=os.environ["KILL_TABLE_CONTEXT"],
                image=f"{os.environ['KILL_TABLE_IMAGES']}/{CELL}",
                build_args={
                    "BASE_IMAGE": "{{ conn.training_default.extra_dejson.base_image }}",
                    # one engine may serve several tables
                    "CELL": f"{os.environ['KILL_TABLE_REGISTRY_PORT']}-{CELL}",
                    "TEST_RUN": os.environ["TESTS_RUN_ID"],
                    "SECONDS": "{{ 0 if ti.try_number > 1 else 3600 }}",
                },
                **own_limit,
            )
        elif phase_name == "pushing":
            PushImageOperator(
                task_id="push",
                image=f"127.0.0.1:{os.environ['KILL_TABLE_REGISTRY_PORT']}/demo-project/{CELL}:t",
                docker_conn_id="docker_gate",
                **own_limit,
            )
        elif phase_name in COLLECTED:
            CollectTrainingResultsOperator(
                task_id="collect",
                job_id="{{ params.job_id }}",
                training_conn_id=COLLECTED[phase_name],
                **own_limit,
            )
        elif phase_name in ONE_TASKS:
            train(phase_name, own_limit, is_poking=limit == "_poke")
        else:
            submit_and_wait(phase_name, own_limit, is_poking=limit == "_poke")
