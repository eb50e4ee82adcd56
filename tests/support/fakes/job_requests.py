"""Requests for jobs: good ones, changed by a test, and the rules that they break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec

IMAGE = "gcr.io/demo/train:1"


def make_job(
    *,
    job_id: str | None = "digits_1",
    labels: dict[str, str] | None = None,
    master: Mapping[str, Any] | None = None,
    **training: Any,
) -> Job:
    """
    Return a good job, changed.

    ``training`` and ``master`` take fields of trainingInput and masterConfig.
    """
    config = {"image_uri": IMAGE} | dict(master or {})
    return Job(
        job_id=job_id,
        labels=labels,
        training_input=TrainingInput.model_validate({"master_config": config} | training),
    )


def make_spec(**changes: Any) -> JobSpec:
    return job_spec_from_wire("demo", make_job(**changes))


def violations_of(job: Job) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        job_spec_from_wire("demo", job)
    return [(violation.field, violation.description) for violation in caught.value.violations]
