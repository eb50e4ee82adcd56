"""TrainingPipelines of Vertex AI, as the tests send them."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.custom_jobs import make_custom_job
from training_api.dialects.vertex_v1.pipelines.reader import CUSTOM_TASK

BASE = "gs://bucket/base"
#: A model, and the directory that it needs.
MODEL = {"displayName": "a model", "containerSpec": {"imageUri": "registry.test/p/server:1"}}
WITH_BASE = {"baseOutputDirectory": {"outputUriPrefix": BASE}}


def make_pipeline(
    *pools: dict[str, Any], job_spec: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """
    Return a pipeline of the custom task, of one replica without ``pools``.

    :param job_spec: more of its inputs.
    :param more: laid over the pipeline.
    """
    inputs = make_custom_job(*pools, **(job_spec or {}))["jobSpec"]
    return {
        "displayName": "pipeline",
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": inputs,
        **more,
    }
