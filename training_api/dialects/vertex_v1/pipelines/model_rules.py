"""
A model that a pipeline leaves or a client uploads: its rules, and where it lies. Pure.

It is a note of what was trained: nothing here serves it. So what says how it would be served is kept and
shown, and has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_api.dialects.vertex_v1.environment import output_folders
from training_api.dialects.vertex_v1.job_rules import check_identity
from training_api.job.violations import Violations

#: What a client says of a Model; every other field is output only.
_INPUT_FIELDS = (
    *("displayName", "description", "labels", "encryptionSpec", "versionDescription", "versionAliases"),
    *("containerSpec", "predictSchemata", "metadataSchemaUri", "metadata", "explanationSpec"),
    "artifactUri",
)
#: discovery: Model.versionAliases; [code: google-cloud-aiplatform, training_jobs.py] has capitals, too.
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
DEFAULT_ALIAS = "default"


def model_request_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a Model is the client's."""
    return {name: resource[name] for name in _INPUT_FIELDS if name in resource}


def check_model(rules: Violations, path: str, model: Mapping[str, Any]) -> None:
    """Check what is the same of every model. :param path: where it is in the request."""
    of_identity = Violations()
    check_identity(of_identity, model)
    for each in of_identity.found:
        rules.add(f"{path}.{each.field}", each.description)
    for index, alias in enumerate(model.get("versionAliases", [])):
        form = "a letter, then letters, digits and dashes, at most 128, with no dash or capital at the end"
        rules.check_form(f"{path}.versionAliases[{index}]", alias, _ALIAS, form)
    if "containerSpec" in model and not model["containerSpec"].get("imageUri"):
        rules.add(f"{path}.containerSpec.imageUri", "is required: the image that would serve the model")


def check_model_of_pipeline(
    rules: Violations, path: str, model: Mapping[str, Any], job_spec: Mapping[str, Any]
) -> None:
    """
    Check the model of a pipeline.

    :param path: where it is in the request.
    :param job_spec: the CustomJobSpec that is to train it.
    """
    check_model(rules, path, model)
    if "artifactUri" in model:
        rules.add(
            f"{path}.artifactUri",
            "is given by the service: it is the AIP_MODEL_DIR of the trainer; leave it out",
        )
    if not artifact_uri(job_spec):
        rules.add(
            path,
            "needs trainingTaskInputs.baseOutputDirectory: the model is what the trainer writes to its "
            "AIP_MODEL_DIR; add the directory, or leave the model out",
        )


def artifact_uri(job_spec: Mapping[str, Any]) -> str:
    """Return where the trainer writes its model; empty: it is not told where."""
    folders = output_folders(job_spec.get("baseOutputDirectory", {}).get("outputUriPrefix", ""))
    return folders.get("AIP_MODEL_DIR", "")


def trained(model: Mapping[str, Any], job_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model of a pipeline once it is there: with its place and its aliases."""
    return with_aliases({**model, "artifactUri": artifact_uri(job_spec)})


def with_aliases(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model with the aliases of its first version."""
    aliases = dict.fromkeys([DEFAULT_ALIAS, *model.get("versionAliases", [])])
    return {**model, "versionAliases": list(aliases)}
