"""
From an UploadModelRequest in canonical JSON to the model that it leaves. Pure.

Source of the rules, unless another is named: the discovery document aiplatform.v1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_api.dialects.vertex_v1.job_rules import BUCKET_PATH
from training_api.dialects.vertex_v1.pipelines.model_rules import check_model, model_request_of, with_aliases
from training_api.errors import InvalidRequest
from training_api.job.violations import Violations

_MODEL, _MODEL_ID = "model", "modelId"
#: discovery: UploadModelRequest.modelId.
_ID = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
#: Fields that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "parentModel": "this service has one version of each model; leave it out, and a new model is made",
    "serviceAccount": "this service reads no artifacts of a model; leave it out",
}


def uploaded_model(request: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """
    Return the id of the model that a request uploads, and the model.

    The id is empty if the service is to give one.

    :raises InvalidRequest: with every rule that the request breaks.
    """
    rules = Violations()
    for name, why in NOT_HERE.items():
        if name in request:
            rules.add(name, why)
    model_id = request.get(_MODEL_ID, "")
    form = (
        "lowercase letters, digits, underscores and dashes, at most 63, and begin with a letter or underscore"
    )
    rules.check_form(_MODEL_ID, model_id, _ID, form)
    model = model_request_of(request.get(_MODEL, {}))
    check_model(rules, _MODEL, model)
    rules.check_form(
        f"{_MODEL}.artifactUri",
        model.get("artifactUri"),
        BUCKET_PATH,
        "a folder in Cloud Storage gs://BUCKET/FOLDER",
    )
    if rules.found:
        raise InvalidRequest(rules.found)
    return model_id, with_aliases(model)
