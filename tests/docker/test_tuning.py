"""Tuning jobs on the real engine: trials of several replicas, and a kill of the service."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import docker
import pytest

from local_stack.stack import LocalStack
from tests.support.bed.job_watch import until_state
from tests.support.bed.real_parts import PROJECT, kill_service
from tests.support.bed.tuning_jobs import check_that_a_study_is_resumed
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterOutput,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    ScaleType,
    SearchAlgorithm,
    TrainingInput,
)
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.search.search_space import SearchSpace
from training_service.search.suggest import Observation, suggest
from training_service.studies.studies import seed_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

LEARNING_RATE = ParameterSpec(
    parameter_name="lr",
    type=ParameterType.DOUBLE,
    min_value=0.001,
    max_value=1.0,
    scale_type=ScaleType.UNIT_LOG_SCALE,
)
#: Reports as cloudml-hypertune does, and takes long enough to be killed over.
TRAINER = """
import json, math, os, sys, time
lr = float(dict(word.lstrip("-").split("=") for word in sys.argv[1:] if "=" in word)["lr"])
time.sleep(0.5)
report = {"global_step": "1", "timestamp": time.time(), "trial": "1", "accuracy": str(-abs(math.log10(lr) + 2))}
open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w").write(json.dumps(report) + "\\n")
time.sleep(0.2)
"""
MASTER = """
import json, os, socket, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
host, port = spec["cluster"]["worker"][0].split(":")
for _ in range(1200):
    try:
        print("worker said", socket.create_connection((host, int(port)), timeout=1).makefile().read())
        break
    except OSError:
        time.sleep(0.1)
report = {"global_step": "1", "timestamp": time.time(), "trial": "1", "accuracy": "0.5"}
open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w").write(json.dumps(report) + "\\n")
"""
WORKER = """
import json, os, socket
server = socket.create_server(("", 2222))
while True:
    peer, _ = server.accept()
    peer.sendall(("trial " + json.loads(os.environ["TF_CONFIG"])["task"]["trial"]).encode())
    peer.close()
"""


def search(**changes: object) -> HyperparameterSpec:
    values = {"goal": Goal.MAXIMIZE, "hyperparameter_metric_tag": "accuracy", "params": [LEARNING_RATE]}
    return HyperparameterSpec.model_validate(values | changes)


def trials_of(training: TrainingClient, job_id: str) -> list[HyperparameterOutput]:
    output = training.get_job(job_id).training_output
    assert output is not None
    return output.trials or []


def when_it_answers(ask: Callable[[], Job]) -> Job | None:
    """Return the job from a service that may be away."""
    try:
        return ask()
    except TrainingError:
        return None


def test_replicas_of_a_trial_meet_each_other_and_no_other_trial(
    training: TrainingClient, pushed_image: ImageRef, job_id: str, engine_client: docker.APIClient
) -> None:
    image = str(pushed_image)
    training_input = TrainingInput(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count=1,
        master_config=ReplicaConfig(image_uri=image, container_command=["python3", "-u", "-c", MASTER]),
        worker_config=ReplicaConfig(image_uri=image, container_command=["python3", "-u", "-c", WORKER]),
        hyperparameters=search(max_trials=4, max_parallel_trials=2),
    )

    training.create_job(Job(job_id=job_id, training_input=training_input))
    until_state(training, job_id, JobState.SUCCEEDED)

    entries = training.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
    said = {
        (entry.labels or {}).get("ml.googleapis.com/trial_id"): entry.message
        for entry in entries
        if entry.message.startswith("worker said")
    }
    assert said == {str(number): f"worker said trial {number}" for number in range(1, 5)}
    left = {"label": f"container-training.job={job_id}"}
    wait_until(lambda: not engine_client.containers(all=True, filters=left), "the containers are gone")
    wait_until(lambda: not engine_client.networks(filters=left), "the networks are gone")


def test_a_service_killed_again_and_again_goes_on_with_the_same_search(
    training: TrainingClient, pushed_image: ImageRef, stack: LocalStack, job_id: str
) -> None:
    chance = random.Random(5)
    command = ["python3", "-u", "-c", TRAINER]
    training_input = TrainingInput(
        master_config=ReplicaConfig(image_uri=str(pushed_image), container_command=command),
        hyperparameters=search(max_trials=8),
    )
    job = Job(job_id=job_id, training_input=training_input)
    training.create_job(job)

    for _ in range(4):
        # A moment by chance, so that the kills find it at different work.
        time.sleep(chance.uniform(0, 1))
        kill_service(stack)
        wait_until(lambda: when_it_answers(lambda: training.get_job(job_id)), "the service is up again")
    until_state(training, job_id, JobState.SUCCEEDED)

    trials = trials_of(training, job_id)
    assert [trial.trial_id for trial in trials] == [str(number) for number in range(1, 9)]
    assert [len(trial.all_metrics or []) for trial in trials] == [1] * 8
    spec = job_spec_from_wire(PROJECT, job)
    assert spec.study is not None
    space = SearchSpace.of(spec.study.parameters)
    history: list[Observation] = []
    for trial in trials:
        given = trial.hyperparameters or {}
        expected = suggest(
            space,
            history,
            [],
            seed_of(spec),
            goal=spec.study.goal,
            algorithm=spec.study.algorithm,
        )
        assert expected is not None
        assert given == space.render(expected)
        assert trial.final_metric is not None
        history.append(Observation(assignment=space.parse(given), value=trial.final_metric.objective_value))


def test_every_report_is_a_line_of_json_whatever_the_trial_was_given(
    training: TrainingClient, pushed_image: ImageRef, job_id: str
) -> None:
    odd = ParameterSpec(
        parameter_name="kernel",
        type=ParameterType.CATEGORICAL,
        categorical_values=["a b", "$HOME", "--lr=5", "ü", '"quoted"'],
    )
    program = (
        "import json, os, sys\n"
        "value = [word for word in sys.argv[1:] if word.startswith('--kernel=')][0].removeprefix('--kernel=')\n"
        "print('given', json.dumps(value))\n"
        "report = {'global_step': '1', 'timestamp': 1.0, 'trial': '1', 'accuracy': '1'}\n"
        "open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w').write(json.dumps(report) + '\\n')\n"
    )
    training_input = TrainingInput(
        master_config=ReplicaConfig(
            image_uri=str(pushed_image), container_command=["python3", "-u", "-c", program]
        ),
        hyperparameters=search(
            params=[odd], algorithm=SearchAlgorithm.GRID_SEARCH, max_trials=10, max_parallel_trials=5
        ),
    )

    training.create_job(Job(job_id=job_id, training_input=training_input))
    until_state(training, job_id, JobState.SUCCEEDED)

    entries = training.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
    said = {json.loads(entry.message.removeprefix("given ")) for entry in entries if "given" in entry.message}
    assert said == set(odd.categorical_values or [])


@pytest.mark.extended
@pytest.mark.proves("tuning: resume of an earlier study", on="one machine")
def test_a_study_resumes_an_earlier_one(
    training: TrainingClient, pushed_image: ImageRef, job_id: str
) -> None:
    check_that_a_study_is_resumed(training, str(pushed_image), job_id)
