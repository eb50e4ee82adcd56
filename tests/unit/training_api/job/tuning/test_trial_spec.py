"""The job that one trial is: the tuning job's, with its own assignment and job directory."""

from __future__ import annotations

from typing import Any

from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trial_spec import trial_environment, trial_spec
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.search_terms import Condition, ParameterKind, SearchParameter
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.tuning.trial_spec import hyperparameter_args, sample_hyperparameters, trial_output_dir

SEARCH: dict[str, Any] = {
    "hyperparameterMetricTag": "accuracy",
    "params": [
        {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 0.1},
        {"parameterName": "units", "type": "INTEGER", "minValue": 16, "maxValue": 256},
        {"parameterName": "depth", "type": "DISCRETE", "discreteValues": [2.0, 4.5]},
        {"parameterName": "kernel", "type": "CATEGORICAL", "categoricalValues": ["rbf", "linear"]},
    ],
}


def tuning_job(**training: Any) -> Job:
    sent = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": 1,
        "masterConfig": {"imageUri": "gcr.io/demo/train:1"},
        "hyperparameters": SEARCH,
    }
    return Job.model_validate({"jobId": "tune_1", "trainingInput": sent | training})


def tuning_spec(**training: Any) -> JobSpec:
    return job_spec_from_wire("demo", tuning_job(**training))


def study() -> StudySpec:
    found = tuning_spec().study
    assert found is not None
    return found


def test_every_replica_gets_the_assignment_after_the_users_arguments() -> None:
    job = tuning_spec(args=["--rate=1"], jobDir="gs://bucket/jobs")

    spec = trial_spec(job, 3, {"rate": "0.01", "units": "32"})

    arguments = ("--rate=1", "--job-dir", "gs://bucket/jobs/3", "--rate=0.01", "--units=32")
    assert [replica.args for replica in spec.replicas] == [arguments] * 2


def test_a_trial_is_no_study_itself() -> None:
    assert trial_spec(tuning_spec(), 1, {}).study is None


def test_without_a_job_directory_a_trial_has_none_either() -> None:
    spec = trial_spec(tuning_spec(), 1, {"units": "16"})

    assert {replica.args for replica in spec.replicas} == {("--units=16",)}


def test_a_trainer_is_told_its_trial_and_the_metric() -> None:
    assert trial_environment("accuracy", "7") == {
        "CLOUD_ML_TRIAL_ID": "7",
        "CLOUD_ML_HP_METRIC_TAG": "accuracy",
    }


def test_a_sample_of_the_space_is_its_lower_corner_as_it_is_written_on_a_command_line() -> None:
    assert sample_hyperparameters(study()) == {
        "rate": "0.001",
        "units": "16",
        "depth": "2",
        "kernel": "rbf",
    }


def test_a_sample_has_only_the_parameters_whose_conditions_hold() -> None:
    def below(parent: str, *values: str) -> Condition:
        return Condition(parent=parent, values=values)

    kind = SearchParameter(name="kind", kind=ParameterKind.CATEGORICAL, values=("deep", "linear"))
    layers = SearchParameter(
        name="layers", kind=ParameterKind.INTEGER, low=1, high=3, condition=below("kind", "deep")
    )
    rate = SearchParameter(
        name="rate", kind=ParameterKind.DOUBLE, high=1, condition=below("kind", "linear", "wide")
    )

    assert sample_hyperparameters(StudySpec(parameters=(kind, layers, rate))) == {
        "kind": "deep",
        "layers": "1",
    }


def test_the_arguments_of_a_trial_survive_odd_values() -> None:
    assert hyperparameter_args({"a b": "x y", "n": "-1"}) == ("--a b=x y", "--n=-1")
    assert trial_output_dir("gs://bucket/jobs/", "3") == "gs://bucket/jobs/3"
