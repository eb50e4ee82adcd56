"""From a TrainingPipeline to its job: the rules, and the words in which they are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.training_pipelines import BASE, MODEL, WITH_BASE, make_pipeline
from training_api.dialects.vertex_v1.pipelines.reader import (
    CUSTOM_TASK,
    check_task,
    job_of_pipeline,
    pipeline_request_of,
)
from training_api.errors import InvalidJobSpec


def read(pipeline: dict[str, Any]) -> Any:
    check_task(pipeline)
    return job_of_pipeline("demo", "us-central1", "123", pipeline_request_of(pipeline))


def broken(pipeline: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidJobSpec) as caught:
        read(pipeline)
    assert len({each.field for each in caught.value.violations}) == len(caught.value.violations)
    return {each.field: each.description for each in caught.value.violations}


def test_the_job_is_that_of_the_inputs_with_the_labels_of_the_pipeline() -> None:
    pipeline = make_pipeline(make_pool(), make_pool(2), job_spec=WITH_BASE, labels={"team": "a"})

    spec, request = read(pipeline)

    assert (spec.project, spec.region, spec.job_id, spec.output_dir) == ("demo", "us-central1", "123", BASE)
    assert (len(spec.replicas), spec.labels) == (3, {"team": "a"})
    assert request == {
        "displayName": "pipeline-custom-job",
        "jobSpec": pipeline["trainingTaskInputs"],
        "labels": {"team": "a"},
    }


def test_the_name_of_a_job_has_room_for_the_longest_name_of_a_pipeline() -> None:
    _, request = read(make_pipeline(displayName="p" * 128))

    assert len(request["displayName"]) == 128
    assert request["displayName"].endswith("p-custom-job")


def test_what_a_client_cannot_say_is_ignored() -> None:
    sent = make_pipeline(name="n", state="PIPELINE_STATE_FAILED", modelToUpload={**MODEL, "versionId": "7"})

    request = pipeline_request_of(sent)

    assert request == make_pipeline(modelToUpload=MODEL)


def test_another_task_is_refused_by_its_name() -> None:
    other = CUSTOM_TASK.replace("custom_task", "automl_tabular")

    told = broken(make_pipeline(trainingTaskDefinition=other))

    assert told == {
        "trainingTaskDefinition": f"must be {CUSTOM_TASK}, as this service runs no other task; got {other!r}"
    }


@pytest.mark.parametrize("name", ["inputDataConfig", "modelId", "parentModel"])
def test_what_is_not_here_is_refused_by_name_with_the_way_out(name: str) -> None:
    told = broken(make_pipeline(**{name: {}}))

    assert told.keys() == {name}
    assert "; leave it out" in told[name]


def test_inputs_are_required() -> None:
    assert broken(make_pipeline(trainingTaskInputs=None)).keys() == {"trainingTaskInputs"}


def test_every_broken_rule_is_told_once_by_the_fields_of_the_pipeline() -> None:
    pipeline = make_pipeline(
        make_pool(2), job_spec={"tensorboard": "t"}, displayName="", labels={"A": ""}, modelToUpload={}
    )

    told = broken(pipeline)

    assert told.keys() == {
        "displayName",
        "labels",
        "modelToUpload.displayName",
        "modelToUpload",
        "trainingTaskInputs.tensorboard",
        "trainingTaskInputs.workerPoolSpecs[0].replicaCount",
    }
