"""AI Platform Training v1 as the service asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes.job_requests import IMAGE, make_spec
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.registry import DIALECTS
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.dialect import JobField, ReplicaContext, ReplicaFailure
from training_api.job.restarts import RestartScope

MASTER = ReplicaId(role=ReplicaRole.MASTER)
SEARCH = {"params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}


def environment(request: dict[str, Any], trial_id: str = "") -> dict[str, str]:
    context = ReplicaContext(spec=make_spec(), request=request, replica=MASTER, trial_id=trial_id)
    return ML_V1.environment(context)


def test_it_is_one_of_the_dialects_by_its_name() -> None:
    assert DIALECTS["ml_v1"] is ML_V1
    assert make_spec().dialect == ML_V1.name


def test_a_container_is_told_the_request_as_it_was_sent() -> None:
    request = {"jobDir": "gs://bkt/job", "masterConfig": {"imageUri": IMAGE}}

    told = json.loads(environment(request)["CLUSTER_SPEC"])

    assert told["job"] == request
    assert told["task"]["trial"] == ""


@pytest.mark.parametrize(
    ("search", "tag"),
    [(SEARCH, "training/hptuning/metric"), ({**SEARCH, "hyperparameterMetricTag": "loss"}, "loss")],
)
def test_a_trial_is_told_its_number_and_its_metric(search: dict[str, Any], tag: str) -> None:
    found = environment({"hyperparameters": search}, trial_id="7")

    assert found["CLOUD_ML_TRIAL_ID"] == "7"
    assert found["CLOUD_ML_HP_METRIC_TAG"] == tag
    assert json.loads(found["TF_CONFIG"])["task"]["trial"] == "7"


def test_it_sets_the_variables_that_it_names() -> None:
    assert set(environment({})) | set(environment({}, trial_id="1")) == ML_V1.variables


def test_the_request_of_a_trial_has_its_own_folder_and_the_search() -> None:
    study = make_spec(jobDir="gs://bkt/job", hyperparameters=SEARCH)

    spec, request = ML_V1.trial(
        study, {"jobDir": "gs://bkt/job", "hyperparameters": SEARCH}, 3, {"lr": "0.5"}
    )

    assert request == {"jobDir": "gs://bkt/job/3", "hyperparameters": SEARCH}
    assert spec.output_dir == "gs://bkt/job/3"


def test_a_trial_without_a_folder_has_the_request_of_its_study() -> None:
    study = make_spec(hyperparameters=SEARCH)

    assert ML_V1.trial(study, {"hyperparameters": SEARCH}, 3, {"lr": "0.5"})[1] == {"hyperparameters": SEARCH}


@pytest.mark.parametrize(
    ("failure", "scope"),
    [
        (ReplicaFailure(replica=MASTER, exit_code=1), RestartScope.NONE),
        (ReplicaFailure(replica=MASTER, exit_code=137), RestartScope.REPLICA),
        (ReplicaFailure(replica=MASTER, exit_code=137, out_of_memory=True), RestartScope.NONE),
        (ReplicaFailure(replica=MASTER, exit_code=255, is_lost=True), RestartScope.REPLICA),
    ],
)
def test_what_speaks_of_the_machine_is_tried_again(failure: ReplicaFailure, scope: RestartScope) -> None:
    assert ML_V1.restart_scope(failure) is scope


def test_fields_are_named_as_in_a_request_and_in_a_sentence() -> None:
    assert ML_V1.path("packages.uris[2]") == "trainingInput.packageUris[2]"
    assert ML_V1.path("labels.team") == "labels.team"
    assert ML_V1.word("study.metric_tag") == "hyperparameterMetricTag"
    assert ML_V1.word("max_wait", 2) == "scheduling.maxWaitTime"


def test_a_list_can_be_filtered_by_every_field() -> None:
    # Its jobs have no name beside their id.
    assert set(ML_V1.filter_fields.values()) == set(JobField) - {JobField.DISPLAY_NAME}
