"""The job of one attempt: its id, its labels, and a folder of its own."""

from __future__ import annotations

from container_training.work.submission.job_attempt import for_attempt
from tests.support.fakes.fake_service import make_job

FOLDER = {"jobDir": "gs://b/{job_id}/x/{job_id}"}


def test_an_attempt_has_its_own_id_and_folder() -> None:
    job = make_job(job_id=None, training_input=FOLDER)

    first, second = (for_attempt(job, job_id, {}) for job_id in ("digits_1", "digits_2"))

    assert (first.job_id, second.job_id) == ("digits_1", "digits_2")
    assert first.training_input is not None
    assert first.training_input.job_dir == "gs://b/digits_1/x/digits_1"
    assert job.training_input is not None
    assert job.training_input.job_dir == FOLDER["jobDir"], "the description itself stays as it is"


def test_labels_of_the_attempt_win_over_those_of_the_description() -> None:
    job = make_job(labels={"team": "a", "airflow-owner": "forged"})

    assert for_attempt(job, "j", {"airflow-owner": "token"}).labels == {"team": "a", "airflow-owner": "token"}
    assert for_attempt(make_job(labels={}), "j", {}).labels is None


def test_a_job_without_a_folder_gets_none() -> None:
    assert for_attempt(make_job(training_input=None), "j", {}).training_input is None
    training = for_attempt(make_job(training_input={}), "j", {}).training_input
    assert training is not None
    assert training.job_dir is None
