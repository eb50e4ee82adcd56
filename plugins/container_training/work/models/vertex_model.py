"""A version of a model as a ``Model`` of Vertex AI. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from container_training.work.models.versions import ModelVersion

#: An id of a model has at most 63 characters, ``[a-z0-9_-]``, and begins with none of ``[0-9-]``.
#: Source: the discovery document aiplatform.v1, ``UploadModelRequest.modelId``.
_PREFIX, _DIGITS = "version-", 40


def vertex_model_id(version: ModelVersion) -> str:
    """
    Return the id of the version in Vertex AI.

    It is the same for every try of a task, and for no other version: it follows from the address of the
    version's own copy of the model, with its generation.
    """
    return f"{_PREFIX}{hashlib.sha256(version.model_uri.encode()).hexdigest()[:_DIGITS]}"


def vertex_model(version: ModelVersion, given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the fields of the ``Model`` that shows a version, in snake_case.

    :param given: fields of the caller, which replace those that follow from the version.
    """
    folder, _, _ = version.model.uri.rpartition("/")
    model_folder = folder.rpartition("/versions/")[0]
    return {
        "display_name": model_folder.rpartition("/")[2],
        "description": f"Version {version.version_id} of {model_folder}, of job {version.job_id}",
        "artifact_uri": f"{folder}/",
        **given,
    }
