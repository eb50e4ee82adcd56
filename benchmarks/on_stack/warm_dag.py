"""
How much longer is a warm run of the DAG than the same work by hand?

By hand: ``docker build``, ``docker run`` with one epoch, ``docker push`` and ``docker run`` with the job's
arguments, one after the other, everything cached. The two take turns.
"""

from __future__ import annotations

import time
import uuid

from benchmarks.report import Figure, median_figure
from benchmarks.support.by_hand import time_by_hand
from local_stack.demo import DAG_ID
from local_stack.parts.airflow import passwords_file
from local_stack.parts.base_image import BaseImage
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.settings import REPOSITORY_ROOT
from local_stack.stack import LocalStack

ROUNDS = 3
#: How much longer the DAG may take, in seconds.
MAX_OVERHEAD_SECONDS = 12.0
_CONTEXT = REPOSITORY_ROOT / "docker" / "trainers" / "digits"
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 300.0


def measure(stack: LocalStack) -> list[Figure]:
    """Return the medians and their difference; the demo must have run once."""
    runs, by_hand = [], []
    with AirflowApi(stack.settings.airflow_url, ADMIN, passwords_file(stack.settings)) as api:
        _time_run(api)
        _time_by_hand(stack)
        for _ in range(ROUNDS):
            by_hand.append(_time_by_hand(stack))
            runs.append(_time_run(api))
    overhead = [run - hand for run, hand in zip(runs, by_hand, strict=True)]
    return [
        median_figure("DAG train_digits, warm", runs),
        median_figure("the same by hand", by_hand),
        median_figure("longer by", overhead, limit=MAX_OVERHEAD_SECONDS),
        median_figure("ratio", [run / hand for run, hand in zip(runs, by_hand, strict=True)], unit="x"),
    ]


def _time_run(api: AirflowApi) -> float:
    """Return the seconds from the trigger until a reader sees the run's end."""
    started = time.perf_counter()
    run_id = api.trigger(DAG_ID)
    while (state := api.run_state(DAG_ID, run_id)) not in ("success", "failed"):
        if time.perf_counter() - started > _PATIENCE_SECONDS:
            raise RuntimeError(f"run {run_id} is {state} after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    if state != "success":
        raise RuntimeError(f"run {run_id} failed; see the task logs")
    return time.perf_counter() - started


def _time_by_hand(stack: LocalStack) -> float:
    settings = stack.settings
    image = f"{settings.image_prefix}/digits:by-hand"
    job_dir = f"{settings.job_bucket}/by-hand/{uuid.uuid4().hex[:8]}"
    reach = ["--add-host", "host.docker.internal:host-gateway"]
    for name, value in settings.container_environment.items():
        reach += ["--env", f"{name}={value}"]
    base = f"BASE_IMAGE={BaseImage.name_of(settings)}"
    data = f"{settings.job_bucket}/data/digits.csv"
    commands = [
        ["docker", "build", "--quiet", "--build-arg", base, "--tag", image, str(_CONTEXT)],
        ["docker", "run", "--rm", image, "--epochs", "1"],
        ["docker", "push", "--quiet", image],
        ["docker", "run", "--rm", *reach, image, "--data", data, "--job-dir", job_dir],
    ]
    return time_by_hand(settings, commands)
