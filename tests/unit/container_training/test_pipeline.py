"""The chain's one description of the job."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from container_training.pipeline import TrainingPipeline, training_pipeline


def make_pipeline(**fields: Any) -> TrainingPipeline:
    with DAG("chain", schedule=None):
        return training_pipeline(context_dir="/trainer", image="HOST/demo/mine", **fields)


def test_a_job_file_is_handed_on_and_its_job_folder_is_left_to_it() -> None:
    submit = make_pipeline(config_file="config.yaml", priority=3).submit

    assert (submit.config_file, submit.priority, submit.job_dir) == ("config.yaml", 3, None)
    assert submit.default_job_dir == (
        "{{ conn.get('training_default').extra_dejson.get('job_bucket', '') }}/{job_id}"
    )


def test_a_job_folder_and_its_default_can_be_given() -> None:
    submit = make_pipeline(job_dir="gs://a/b", default_job_dir="gs://c/d").submit

    assert (submit.job_dir, submit.default_job_dir) == ("gs://a/b", "gs://c/d")
