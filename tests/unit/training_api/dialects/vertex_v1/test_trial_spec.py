"""The job of one trial."""

from __future__ import annotations

from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.dialects.vertex_v1.trial_spec import trial_of


def test_a_trial_has_its_hyperparameters_as_arguments_and_a_folder_of_its_own() -> None:
    job = make_custom_job(
        make_pool(args=["--epochs=3"]),
        make_pool(2),
        baseOutputDirectory={"outputUriPrefix": "gs://bucket/base"},
    )
    spec, request = trial_of(custom_job_spec("demo", "us-central1", "1", job), job, 4, {"rate": "0.5"})

    assert [each.args for each in spec.replicas] == [
        ("--epochs=3", "--rate=0.5"),
        ("--rate=0.5",),
        ("--rate=0.5",),
    ]
    assert spec.output_dir == "gs://bucket/base/4"
    assert request == job
