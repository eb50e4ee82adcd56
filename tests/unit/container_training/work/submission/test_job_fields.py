"""The table of fields has each argument of a job, and each field of the API, once."""

from __future__ import annotations

from container_training.work.submission.job_fields import JOB_FIELDS, fields_of_part
from container_training.work.submission.job_file import part_of, wire_names
from container_training.work.submission.job_request import JobFields
from training_api.dialects.ml_v1.resources import Scheduling, TrainingInput

#: Arguments that are not one field of ``trainingInput``.
OTHERS = {"default_job_dir", "labels", "trainer_secrets"}
#: Set with ``job`` or the job file only.
WITHOUT_ARGUMENT = {"enableWebAccess", "encryptionConfig", "scheduling"}


def test_each_argument_is_one_field() -> None:
    assert sorted(field.name for field in JOB_FIELDS) == sorted({*JobFields.__annotations__} - OTHERS)


def test_each_field_of_the_api_has_an_argument_or_a_reason() -> None:
    wire = set(wire_names(TrainingInput).values())
    assert {field.wire for field in fields_of_part("")} == wire - WITHOUT_ARGUMENT
    assert {field.wire for field in fields_of_part("scheduling")} == set(wire_names(Scheduling).values())


def test_a_field_is_where_the_api_has_it() -> None:
    for field in JOB_FIELDS:
        model = part_of(TrainingInput, field.part) if field.part else TrainingInput
        assert model is not None
        assert field.wire in wire_names(model).values(), field


def test_what_is_merged_is_an_object() -> None:
    objects = {field.name for field in JOB_FIELDS if not field.part and part_of(TrainingInput, field.wire)}
    assert {field.name for field in JOB_FIELDS if field.is_merged} == objects
