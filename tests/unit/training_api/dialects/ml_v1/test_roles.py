"""The one table of a job's roles: every field of the request is found under its names."""

from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.resources import ReplicaConfig, ScaleTier, TrainingInput
from training_api.dialects.ml_v1.roles import OTHER_ROLES, ROLES, RoleFields, configs_of, machines_of
from training_api.job.cluster import ReplicaRole


def test_every_role_has_its_fields() -> None:
    assert [fields.role for fields in ROLES] == list(ReplicaRole)


@pytest.mark.parametrize("fields", ROLES, ids=lambda fields: fields.name)
def test_the_names_are_those_of_the_request(fields: RoleFields) -> None:
    aliases = {
        field.alias for name, field in TrainingInput.model_fields.items() if name.startswith(fields.name)
    }

    assert {f"{fields.wire}Type", f"{fields.wire}Config"} <= aliases


@pytest.mark.parametrize("fields", OTHER_ROLES, ids=lambda fields: fields.name)
def test_a_role_reads_its_own_fields(fields: RoleFields) -> None:
    config = ReplicaConfig(image_uri="127.0.0.1:5000/p/i:1")
    values = {
        f"{fields.name}_type": "n1-standard-4",
        f"{fields.name}_count": 3,
        f"{fields.name}_config": config,
    }

    training = TrainingInput(scale_tier=ScaleTier.CUSTOM, **values)

    (machines,) = [machines for machines in machines_of(training) if machines.fields is fields]
    assert (machines.machine, machines.count, machines.config) == ("n1-standard-4", 3, config)


def test_a_job_has_one_master_and_none_of_what_it_does_not_name() -> None:
    training = TrainingInput(scale_tier=ScaleTier.CUSTOM)

    assert [machines.count for machines in machines_of(training)] == [1, 0, 0, 0]
    assert list(configs_of(training)) == [None] * 4


def test_a_request_without_a_tier_is_basic() -> None:
    assert list(machines_of(TrainingInput())) == list(machines_of(TrainingInput(scale_tier=ScaleTier.BASIC)))


def test_a_tier_whose_machines_are_not_known_has_none() -> None:
    assert list(machines_of(TrainingInput(scale_tier=ScaleTier.BASIC_TPU))) == []


def test_a_role_has_a_title_for_people() -> None:
    assert [fields.title for fields in ROLES] == ["master", "worker", "parameter server", "evaluator"]
