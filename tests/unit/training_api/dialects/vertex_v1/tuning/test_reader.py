"""From a HyperparameterTuningJob to a job that tunes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.vertex_tuning_jobs import make_study, make_tuning_job
from training_api.dialects.vertex_v1.tuning.reader import (
    of_trials,
    trial_request,
    tuning_job_spec,
    tuning_request_of,
)
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.search_terms import Goal, ParameterKind, ScaleType, SearchParameter
from training_api.job.tuning.study_spec import StudySpec


def read(request: dict[str, Any]) -> JobSpec:
    return tuning_job_spec("demo", "us-central1", "123", request)


def test_the_pools_are_those_of_a_trial_and_the_study_is_what_is_searched() -> None:
    trials = {
        "workerPoolSpecs": [make_pool(), make_pool(2)],
        "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/base"},
        "serviceAccount": "a@demo.iam.gserviceaccount.com",
    }
    spec = read(make_tuning_job(trialJobSpec=trials, labels={"team": "a"}, maxFailedTrialCount=3))

    assert [str(each.replica) for each in spec.replicas] == ["master 0", "worker 0", "worker 1"]
    assert (spec.output_dir, spec.labels, spec.dialect) == ("gs://bucket/base", {"team": "a"}, "vertex_v1")
    assert spec.service_account == "a@demo.iam.gserviceaccount.com"
    assert spec.study == StudySpec(
        parameters=(
            SearchParameter(name="rate", kind=ParameterKind.DOUBLE, low=0.001, high=1.0, scale=ScaleType.LOG),
        ),
        goal=Goal.MAXIMIZE,
        metric_tag="accuracy",
        max_trials=4,
        max_parallel_trials=2,
        max_failed_trials=3,
    )


def test_a_timeout_is_of_each_trial_and_limits_no_search() -> None:
    trials = {"workerPoolSpecs": [make_pool()], "scheduling": {"timeout": "60s"}}

    assert read(make_tuning_job(trialJobSpec=trials)).max_running > timedelta(days=3650)


def test_every_broken_rule_is_named_at_once_by_its_path_in_the_tuning_job() -> None:
    wrong = make_tuning_job(make_pool(2), study=make_study(metrics=[]), maxTrialCount=0)
    wrong["trialJobSpec"]["tensorboard"] = "t"

    with pytest.raises(InvalidJobSpec) as caught:
        read({**wrong, "displayName": ""})

    assert [each.field for each in caught.value.violations] == [
        "displayName",
        "trialJobSpec.tensorboard",
        "trialJobSpec.workerPoolSpecs[0].replicaCount",
        "studySpec.metrics",
        "maxTrialCount",
    ]


def test_the_job_of_the_trials_is_required() -> None:
    without = {name: value for name, value in make_tuning_job().items() if name != "trialJobSpec"}

    with pytest.raises(InvalidJobSpec) as caught:
        read(without)

    assert [each.field for each in caught.value.violations] == ["trialJobSpec"]


def test_what_is_output_only_is_left_aside() -> None:
    assert tuning_request_of({**make_tuning_job(), "state": "JOB_STATE_FAILED", "trials": [{}]}) == (
        make_tuning_job()
    )


def test_a_trial_is_asked_for_as_a_custom_job() -> None:
    job = make_tuning_job(labels={"a": "b"})

    assert trial_request(job) == {
        "displayName": "search",
        "labels": {"a": "b"},
        "jobSpec": job["trialJobSpec"],
    }


def test_only_paths_within_the_job_of_a_trial_are_told_by_another_name() -> None:
    found = [
        FieldViolation(field=field, description="x") for field in ("jobSpec.a.jobSpec", "jobSpec", "labels")
    ]

    assert [each.field for each in of_trials(found)] == ["trialJobSpec.a.jobSpec", "trialJobSpec", "labels"]
