"""
Tuning jobs: how well they use their slots, and how fast a long study is decided.

A slot is busy while a trial holds it: from PREPARING, when its containers are made, to its end. What is left
is the service's: to notice an end, to read the last line and the last report, to ask the search, to admit the
next trial.

- In memory: four slots, trials of 2 to 6 seconds.
- Real: four slots, containers that run for two seconds; beside it the share of RUNNING alone, without the
  engine's work.
- A thousand trials, eight at a time, on a clock of the test's own: only what the service itself takes.
"""

from __future__ import annotations

from benchmarks.report import Figure
from benchmarks.support.bench_jobs import new_job, submit, wait_for_success
from benchmarks.support.memory_service import IMAGE, TAG, memory_service
from benchmarks.support.virtual_study import run_study
from local_stack.stack import LocalStack
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.cloud_logging import SERVICE_TASK_NAME
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    ParameterSpec,
    ParameterType,
    ScaleType,
    SearchAlgorithm,
)
from training_api.states import JobState

SLOTS = 4
_MEMORY_TRIALS, _REAL_TRIALS = 40, 24
_STUDY_TRIALS, _STUDY_SLOTS = 1000, 8
_POLL_SECONDS = 0.2
#: How long a container runs, of which the program sleeps a little less.
TRIAL_SECONDS = 2.0
TRAINER = """
import json, os, sys, time
time.sleep(1.9)
report = {"global_step": "1", "timestamp": time.time(), "trial": "1", "accuracy": "0.5"}
open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w").write(json.dumps(report) + "\\n")
"""


def measure(stack: LocalStack, image: str) -> list[Figure]:
    """
    Return the figures.

    :param image: in the stack's registry, by digest; it has ``python3``.
    """
    figures = [Figure(name="slots left idle, in memory", value=_idle_in_memory(), unit="of all", limit=0.03)]
    with TrainingClient(stack.settings.training_url, stack.settings.project) as client:
        command = ["python3", "-c", TRAINER]
        held, ran = use_of_slots(client, image, command, _REAL_TRIALS)
    figures += [
        Figure(name="slots left idle, containers of 2 s", value=round(1 - held, 4), unit="of all", limit=0.1),
        Figure(name="the same, RUNNING only", value=round(1 - ran, 4), unit="of all"),
    ]
    for algorithm in (SearchAlgorithm.RANDOM_SEARCH, SearchAlgorithm.ALGORITHM_UNSPECIFIED):
        seconds = run_study(search(_STUDY_TRIALS, _STUDY_SLOTS, algorithm))
        limit = 60.0 if algorithm is SearchAlgorithm.RANDOM_SEARCH else None
        name = f"{_STUDY_TRIALS} trials on a virtual clock, {algorithm.value}"
        figures.append(Figure(name=name, value=round(seconds, 1), unit="s", limit=limit))
    return figures


def search(trials: int, slots: int, algorithm: SearchAlgorithm) -> HyperparameterSpec:
    """Return a search over two parameters."""
    learning_rate = ParameterSpec(
        parameter_name="lr",
        type=ParameterType.DOUBLE,
        min_value=0.001,
        max_value=1.0,
        scale_type=ScaleType.UNIT_LOG_SCALE,
    )
    units = ParameterSpec(parameter_name="units", type=ParameterType.INTEGER, min_value=8, max_value=512)
    return HyperparameterSpec(
        goal=Goal.MAXIMIZE,
        hyperparameter_metric_tag=TAG,
        max_trials=trials,
        max_parallel_trials=slots,
        algorithm=algorithm,
        params=[learning_rate, units],
    )


def _idle_in_memory() -> float:
    with (
        memory_service(2.0, spread_seconds=4.0) as service,
        TrainingClient(service.url, "bench") as client,
    ):
        held, _ = use_of_slots(client, IMAGE, [], _MEMORY_TRIALS)
    return round(1 - held, 4)


def use_of_slots(client: TrainingClient, image: str, command: list[str], trials: int) -> tuple[float, float]:
    """Return the shares of the slots' time that trials held them, and that trials were RUNNING."""
    hyperparameters = search(trials, SLOTS, SearchAlgorithm.ALGORITHM_UNSPECIFIED)
    job_id = submit(client, new_job(image, command, hyperparameters=hyperparameters))
    job = wait_for_success(client, job_id, _POLL_SECONDS)
    prepared = _prepared_at(client, job_id)
    done = (job.training_output and job.training_output.trials) or []
    starts = {each.trial_id or "": each.start_time.timestamp() for each in done if each.start_time}
    ends = {each.trial_id or "": each.end_time.timestamp() for each in done if each.end_time}
    whole = SLOTS * (max(ends.values()) - min(prepared.values()))
    # The last round does not fill its slots, for want of trials; it counts as far as there was something to
    # do.
    idle_at_the_end = sum(max(ends.values()) - end for end in sorted(ends.values())[-SLOTS:])
    held = sum(end - prepared[trial] for trial, end in ends.items())
    ran = sum(end - starts[trial] for trial, end in ends.items())
    return held / (whole - idle_at_the_end), ran / (whole - idle_at_the_end)


def _prepared_at(client: TrainingClient, job_id: str) -> dict[str, float]:
    """Return when each trial was admitted, from the service's own lines."""
    found: dict[str, float] = {}
    token = ""
    wanted = f'{job_log_filter(job_id)} AND resource.labels.task_name="{SERVICE_TASK_NAME}"'
    while True:
        page = client.list_log_entries(wanted, page_size=1000, page_token=token)
        for entry in page.entries or []:
            trial = (entry.labels or {}).get("ml.googleapis.com/trial_id")
            if trial and (entry.json_payload or {}).get("state") == JobState.PREPARING.value:
                found[trial] = entry.timestamp.timestamp()
        token = page.next_page_token or ""
        if not token:
            return found
