"""The job of one trial."""

from __future__ import annotations

from datetime import timedelta

from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
from training_api.dialects.vertex_v1.trial_spec import trial_of
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec


def test_a_trial_has_its_hyperparameters_as_arguments_and_a_folder_of_its_own() -> None:
    job = make_tuning_job(make_pool(args=["--epochs=3"]), {}, make_pool(2))
    job["trialJobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/base"}
    spec, request = trial_of(tuning_job_spec("demo", "us-central1", "1", job), job, 4, {"rate": "0.5"})

    assert [each.args for each in spec.replicas] == [
        ("--epochs=3", "--rate=0.5"),
        ("--rate=0.5",),
        ("--rate=0.5",),
    ]
    assert (spec.output_dir, spec.study) == ("gs://bucket/base/4", None)
    assert request == {
        "displayName": "search",
        "jobSpec": {
            "workerPoolSpecs": [
                make_pool(args=["--epochs=3", "--rate=0.5"]),
                {},
                make_pool(2, args=["--rate=0.5"]),
            ],
            "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/base/4"},
        },
    }


def test_the_timeout_of_the_request_is_the_limit_of_a_trial() -> None:
    job = make_tuning_job()
    job["trialJobSpec"]["scheduling"] = {"timeout": "60s"}
    spec, request = trial_of(tuning_job_spec("demo", "us-central1", "1", job), job, 1, {"rate": "0.5"})

    assert spec.max_running == timedelta(seconds=60)
    assert "baseOutputDirectory" not in request["jobSpec"]
