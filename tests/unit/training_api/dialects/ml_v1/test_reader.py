"""The rules between the fields of a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fakes.job_requests import IMAGE, make_job, make_spec, violations_of
from training_api.dialects.ml_v1.reader import job_spec_from_wire, read_request
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_api.job.machines import MACHINE_TYPES
from training_api.job.replica_spec import ReplicaSpec

TUNED = {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}


def test_a_minimal_job_becomes_one_master_on_the_basic_tier() -> None:
    job = make_job()

    spec = job_spec_from_wire("demo", job)

    assert spec == JobSpec(
        project="demo",
        job_id="digits_1",
        replicas=(
            ReplicaSpec(
                replica=ReplicaId(role=ReplicaRole.MASTER, index=0),
                image=ImageRef(host="gcr.io", repository="demo/train", tag="1"),
                machine=MACHINE_TYPES["n1-standard-4"],
            ),
        ),
        dialect="ml_v1",
        labels={},
        max_wait=None,
        max_running=timedelta(days=7),
        priority=0,
        output_dir="",
        use_chief=False,
        service_account="",
        region="",
        packages=None,
    )
    assert spec.master is spec.replicas[0]


def test_what_only_the_service_may_set_is_ignored() -> None:
    sent = {"state": "SUCCEEDED", "errorMessage": "x", "etag": "y", "startTime": "2026-01-31T12:00:00Z"}

    spec = job_spec_from_wire("demo", Job.model_validate(make_job().to_wire() | sent))

    assert spec == make_spec()


@pytest.mark.parametrize(("asked", "expected"), [(None, False), (False, False), (True, True)])
def test_chief_is_used_only_where_asked_for(asked: bool | None, expected: bool) -> None:
    assert make_spec(use_chief_in_tf_config=asked).use_chief is expected


# --- what the job asks for as a whole


def test_a_job_without_training_input_is_refused() -> None:
    assert violations_of(Job(job_id="a")) == [("trainingInput", "is required")]


@pytest.mark.parametrize("prediction", [{}, {"modelName": "projects/demo/models/m"}])
def test_a_prediction_job_is_refused_by_name(prediction: dict[str, Any]) -> None:
    refusal = ("predictionInput", "this service runs training jobs only; set trainingInput")

    assert violations_of(Job(job_id="a", prediction_input=prediction)) == [refusal]
    assert violations_of(make_job().model_copy(update={"prediction_input": prediction})) == [refusal]


@pytest.mark.parametrize(
    "nothing",
    [
        {"worker_count": 0},
        {"parameter_server_count": "0"},
        {"evaluator_count": 0},
        {"package_uris": []},
        {"python_module": ""},
        {"runtime_version": ""},
        {"python_version": ""},
        {"enable_web_access": False},  # captured: gcloud always sends it
    ],
)
def test_asking_for_none_of_it_is_no_mistake(nothing: dict[str, Any]) -> None:
    assert make_spec(**nothing).replicas == make_spec().replicas


@pytest.mark.parametrize("role", ["worker", "parameter_server", "evaluator"])
@pytest.mark.parametrize("count", [None, 0])
def test_types_and_configurations_of_roles_without_replicas_have_no_effect(
    role: str, count: int | None
) -> None:
    sent = {
        f"{role}_count": count,
        f"{role}_type": "n1-standard-4",
        f"{role}_config": {"image_uri": "gcr.io/demo/other:1", "tpu_tf_version": "2.11"},
    }

    assert make_spec(**sent).replicas == make_spec().replicas


def test_a_tpu_version_is_refused_where_there_is_no_tpu() -> None:
    assert violations_of(make_job(master={"tpu_tf_version": "2.11"})) == [
        (
            "trainingInput.masterConfig.tpuTfVersion",
            "can only be set for TPU workers; this service has no TPUs; use a machine type with CPUs or GPUs",
        )
    ]


# --- machines


@pytest.mark.parametrize("tier", [None, "BASIC"])
def test_the_basic_tier_is_the_default(tier: str | None) -> None:
    assert make_spec(scale_tier=tier).master.machine.name == "n1-standard-4"


@pytest.mark.parametrize("name", list(MACHINE_TYPES))
def test_every_machine_can_be_the_master_of_a_custom_job(name: str) -> None:
    master = make_spec(scale_tier="CUSTOM", master_type=name).master

    assert master.machine is MACHINE_TYPES[name]
    assert (master.gpus, master.gpu) == (master.machine.gpus, master.machine.gpu)


@pytest.mark.parametrize("name", ["n2-standard-4", "N1-STANDARD-4"])
def test_any_other_machine_is_refused_with_those_that_there_are(name: str) -> None:
    ((field, description),) = violations_of(make_job(scale_tier="CUSTOM", master_type=name))

    assert field == "trainingInput.masterType"
    assert description.startswith("must be one of n1-standard-4, n1-standard-8, ")
    assert description.endswith(f"complex_model_l_v100; got {name!r}")


@pytest.mark.parametrize("master_type", [None, ""])
def test_a_custom_job_must_name_its_machine(master_type: str | None) -> None:
    assert violations_of(make_job(scale_tier="CUSTOM", master_type=master_type)) == [
        ("trainingInput.masterType", "must be set when scaleTier is CUSTOM")
    ]


@pytest.mark.parametrize("tier", [None, "BASIC"])
def test_only_a_custom_job_may_name_its_machine(tier: str | None) -> None:
    assert violations_of(make_job(scale_tier=tier, master_type="n1-standard-8")) == [
        ("trainingInput.masterType", "can only be set with scaleTier CUSTOM, not BASIC")
    ]


# --- image and arguments


@pytest.mark.parametrize(
    "training", [{"master_config": None}, {"master": {"image_uri": None}}, {"master": {"image_uri": ""}}]
)
def test_the_master_must_have_an_image(training: dict[str, Any]) -> None:
    assert violations_of(make_job(**training)) == [
        (
            "trainingInput.masterConfig.imageUri",
            "is required: the image that the master runs; or packageUris and their runtimeVersion",
        )
    ]


def test_a_bad_image_is_refused_in_the_words_of_the_image_reference() -> None:
    assert violations_of(make_job(master={"image_uri": "train:1"})) == [
        (
            "trainingInput.masterConfig.imageUri",
            "image ref 'train:1' has no registry host; expected HOST/PROJECT/NAME:TAG",
        )
    ]


@pytest.mark.parametrize(
    ("changes", "command", "args"),
    [
        ({}, (), ()),
        ({"args": ["--epochs=3", "--lr", "0.1"]}, (), ("--epochs=3", "--lr", "0.1")),
        ({"job_dir": "gs://bkt/d"}, (), ("--job-dir", "gs://bkt/d")),
        (
            {"args": ["--epochs=3"], "job_dir": "gs://bkt/d"},
            (),
            ("--epochs=3", "--job-dir", "gs://bkt/d"),
        ),
        (
            {"master": {"container_command": ["python", "-m", "t"], "container_args": ["-v"]}},
            ("python", "-m", "t"),
            ("-v",),
        ),
        (
            {"master": {"container_command": ["python"]}, "job_dir": "gs://bkt/d"},
            ("python",),
            ("--job-dir", "gs://bkt/d"),
        ),
        (
            {"master": {"container_args": ["-v"]}, "job_dir": "gs://bkt/d"},
            (),
            ("-v", "--job-dir", "gs://bkt/d"),
        ),
        ({"args": [], "master": {"container_args": ["-v"]}}, (), ("-v",)),
    ],
)
def test_the_job_dir_follows_the_arguments(
    changes: dict[str, Any], command: tuple[str, ...], args: tuple[str, ...]
) -> None:
    master = make_spec(**changes).master

    assert (master.command, master.args) == (command, args)


@pytest.mark.parametrize("config", [{"container_command": ["python"]}, {"container_args": ["-v"]}])
def test_args_exclude_the_containers_own_command_and_arguments(config: dict[str, Any]) -> None:
    assert violations_of(make_job(args=["--epochs=3"], master=config)) == [
        ("trainingInput.args", "cannot be set together with containerCommand or containerArgs")
    ]


# --- all at once


def test_every_broken_rule_is_reported_at_once_in_the_order_of_the_fields() -> None:
    job = make_job(
        job_id="1",
        labels={"A": "B"},
        master={"image_uri": "train", "container_args": ["-v"], "accelerator_config": {"count": 1}},
        worker_count=1,
        job_dir="/tmp",
        master_type="n1-standard-8",
        args=["-q"],
        scheduling={"maxWaitTime": "1s", "maxRunningTime": "x", "priority": 2000},
    )

    assert [field for field, _ in violations_of(job)] == [
        "jobId",
        "labels",
        "labels",
        "trainingInput.jobDir",
        "trainingInput.masterType",
        "trainingInput.workerCount",
        "trainingInput.args",
        "trainingInput.masterConfig.imageUri",
        "trainingInput.masterConfig.acceleratorConfig.type",
        "trainingInput.scheduling.maxWaitTime",
        "trainingInput.scheduling.maxRunningTime",
        "trainingInput.scheduling.priority",
    ]


def _maybe(*values: Any) -> st.SearchStrategy[Any]:
    """Return good and bad values, and often none."""
    return st.none() | st.sampled_from(values)


_arguments = _maybe([], ["--epochs=3"], [""])
_durations = _maybe("1800s", "7200s", "0s", "1s", "0.1s", "", "1h", "999999999999.999999999s") | st.text(
    max_size=4
)
_configs = st.fixed_dictionaries(
    {},
    optional={
        "imageUri": _maybe(IMAGE, "train", "", "gcr.io/A") | st.text(max_size=12),
        "containerCommand": _arguments,
        "containerArgs": _arguments,
        "diskConfig": _maybe({}, {"bootDiskType": "", "bootDiskSizeGb": -1}, {"bootDiskType": "x"}),
        "acceleratorConfig": _maybe({}, {"count": "0"}, {"count": 1, "type": "TPU_V2"}, {"count": -1}),
    },
)
_trainings = st.fixed_dictionaries(
    {},
    optional={
        "args": _arguments,
        "evaluatorCount": _maybe(0, 1, -1),
        "hyperparameters": _maybe({}, {"maxTrials": 2}, {"params": [TUNED]}, {"params": [TUNED, TUNED]}),
        "jobDir": _maybe("gs://bkt/d", "gs://", "") | st.text(max_size=8),
        "masterConfig": st.none() | _configs,
        "masterType": _maybe("", "n1-standard-8", "standard_gpu", "m9") | st.text(max_size=4),
        "enableWebAccess": _maybe(False, True),
        "network": st.none() | st.text(max_size=8),
        "packageUris": _maybe([], ["gs://b/p.tar.gz"], ["gs://bkt/p.tar.gz"]),
        "pythonModule": _maybe("", "trainer.task", "-c"),
        "pythonVersion": _maybe("", "3.7"),
        "runtimeVersion": _maybe("", "2.11", "x"),
        "scaleTier": _maybe("BASIC", "CUSTOM", "STANDARD_1", "BASIC_TPU"),
        "scheduling": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "maxWaitTime": _durations,
                "maxRunningTime": _durations,
                "priority": st.none() | st.integers(-5, 1005) | st.integers(),
            },
        ),
        "workerCount": _maybe("0", 3),
    },
)
random_jobs = st.fixed_dictionaries(
    {},
    optional={
        "jobId": _maybe("a", "1", "") | st.text(max_size=8),
        "labels": st.none() | st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3),
        "predictionInput": _maybe({}),
        "trainingInput": st.none() | _trainings,
    },
)


@settings(max_examples=300, deadline=None)
@given(sent=random_jobs)
def test_any_job_is_good_or_refused_with_its_violations(sent: dict[str, Any]) -> None:
    job = Job.model_validate(sent)

    outcome: JobSpec | tuple[FieldViolation, ...]
    try:
        outcome = job_spec_from_wire("demo", job)
    except InvalidJobSpec as error:
        outcome = error.violations

    if isinstance(outcome, JobSpec):
        assert outcome.job_id == job.job_id
        assert outcome.max_running > timedelta(0)
        assert outcome.max_wait is None or outcome.max_wait >= timedelta(minutes=30)
        assert 0 <= outcome.priority <= 1000
    else:
        assert outcome
        assert all(violation.field and violation.description for violation in outcome)


# --- requests of before


@pytest.mark.parametrize(
    "changes",
    [
        {"fieldOfAnotherVersion": 1},
        {"scaleTier": "TIER_OF_ANOTHER_VERSION"},
        {"scheduling": {"priority": "high"}},
        {"masterConfig": {"imageUri": IMAGE, "another": 1}},
    ],
)
def test_what_is_not_known_of_a_request_is_left_out_of_it(changes: dict[str, Any]) -> None:
    request = read_request({"region": "us-central1", "masterConfig": {"imageUri": IMAGE}} | changes)

    assert request.region == "us-central1"
    assert request.master_config is not None
    assert request.master_config.image_uri == IMAGE
