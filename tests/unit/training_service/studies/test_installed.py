"""Without the extra ``tuning``, a service refuses tuning jobs, and says what to install."""

from __future__ import annotations

import pytest

from tests.support.fakes.tuning_jobs import make_tuning_job
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_service.studies.installed import (
    TuningNotInstalled,
    check_packages_can_be_pinned,
    check_studies_can_continue,
    check_tuning_is_installed,
    missing_for_tuning,
)

MISSING = ["numpy", "scipy"]


def test_what_is_not_installed_is_missing() -> None:
    assert missing_for_tuning() == []
    assert missing_for_tuning(["numpy", "no-such-distribution"]) == ["no-such-distribution"]


def spec(job_id: str, *, tunes: bool) -> JobSpec:
    fields = make_tuning_job(job_id=job_id).training_input
    assert fields is not None
    if not tunes:
        fields = fields.model_copy(update={"hyperparameters": None})
    return job_spec_from_wire("demo", Job(job_id=job_id, training_input=fields))


def test_a_tuning_job_is_refused_with_what_to_install() -> None:
    with pytest.raises(
        InvalidJobSpec, match=r"without numpy, scipy: pip install 'container-training-service\[tuning\]'"
    ):
        check_tuning_is_installed(spec("tuned", tunes=True), MISSING)


def test_other_jobs_pass_and_so_does_a_tuning_job_where_nothing_is_missing() -> None:
    check_tuning_is_installed(spec("plain", tunes=False), MISSING)
    check_tuning_is_installed(spec("tuned", tunes=True), [])


def test_a_job_of_packages_is_refused_where_their_versions_cannot_be_told() -> None:
    packages = {
        "packageUris": ["gs://bkt/t.whl"],
        "pythonModule": "trainer.task",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
    }
    job = Job.model_validate({"jobId": "j", "trainingInput": packages})
    spec = job_spec_from_wire("p", job)

    with pytest.raises(InvalidJobSpec, match=r"packages.uris: .* without numpy: pip install"):
        check_packages_can_be_pinned(spec, ["numpy"])
    check_packages_can_be_pinned(spec, [])


def test_a_service_does_not_start_with_a_study_that_it_cannot_continue() -> None:
    jobs = [spec("plain", tunes=False), spec("tuned", tunes=True)]

    with pytest.raises(
        TuningNotInstalled, match=r"the tuning jobs tuned cannot continue without numpy, scipy: pip"
    ):
        check_studies_can_continue(jobs, MISSING)

    check_studies_can_continue(jobs, [])
    check_studies_can_continue(jobs[:1], MISSING)
