"""The rules of a job as a whole: names, formats, what one machine does not have. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_api.job.violations import Violations

_MAX_NAME = 128
#: discovery: "can be no longer than 64 characters (Unicode codepoints)"; how many: [code:
#: google-cloud-aiplatform, training_jobs.py].
_MAX_LABELS, _MAX_LABEL = 64, 64
_LABEL_RULE = (
    f"must hold only lowercase letters, digits, underscores and dashes, and be at most {_MAX_LABEL} long"
)
BUCKET_PATH = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?", re.DOTALL)
_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
#: Fields of a CustomJobSpec that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "enableWebAccess": "this service has no interactive shells; leave it out and use `docker exec` on its machine",
    "enableDashboardAccess": "this service shows no dashboards of containers; leave it out",
    "experiment": "this service has no experiments; leave it out, and log to a tracking server of your own",
    "experimentRun": "this service has no experiments; leave it out, and log to a tracking server of your own",
    "models": "this service has no models; leave it out",
    "persistentResourceId": "this service has no persistent resources; leave it out",
    "protectedArtifactLocationId": "this service has no protected artifacts; leave it out",
    "tensorboard": "this service has no managed TensorBoard; leave it out, and write to AIP_TENSORBOARD_LOG_DIR",
}


def check_identity(rules: Violations, request: Mapping[str, Any]) -> None:
    """Check the display name, the labels, and the key that is said to encrypt the job."""
    name = request.get("displayName", "")
    if not 1 <= len(name) <= _MAX_NAME:
        rules.add("displayName", f"is required, and must be at most {_MAX_NAME} characters; got {len(name)}")
    labels = request.get("labels", {})
    if len(labels) > _MAX_LABELS:
        rules.add("labels", f"must be at most {_MAX_LABELS}, got {len(labels)}")
    for key, value in labels.items():
        if not key or not _is_label(key):
            rules.add("labels", f"key {_shown(key)} {_LABEL_RULE}, and not be empty")
        if not _is_label(value):
            rules.add("labels", f"value {_shown(value)} of {_shown(key)} {_LABEL_RULE}")
    key = request.get("encryptionSpec", {}).get("kmsKeyName", "")
    form = "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY"
    rules.check_form("encryptionSpec.kmsKeyName", key, _KMS_KEY, form)


def check_job_spec(rules: Violations, job_spec: Mapping[str, Any]) -> None:
    """
    Check the fields of a CustomJobSpec that are of no pool.

    ``network``, ``reservedIpRanges`` and ``pscInterfaceConfig`` have no effect on one machine; they are kept
    and shown.
    """
    for name, why in NOT_HERE.items():
        if name in job_spec:
            rules.add(f"jobSpec.{name}", why)
    rules.check_form(
        "jobSpec.serviceAccount", job_spec.get("serviceAccount"), _EMAIL, "an email address NAME@DOMAIN"
    )
    rules.check_form(
        "jobSpec.network", job_spec.get("network"), _NETWORK, "projects/PROJECT/global/networks/NETWORK"
    )
    base = job_spec.get("baseOutputDirectory")
    if base is not None and not BUCKET_PATH.fullmatch(base.get("outputUriPrefix", "")):
        rules.add(
            "jobSpec.baseOutputDirectory.outputUriPrefix",
            f"must be a Cloud Storage path gs://BUCKET/FOLDER; got {_shown(base.get('outputUriPrefix', ''))}",
        )


def _is_label(text: str) -> bool:
    return len(text) <= _MAX_LABEL and all(_is_of_label(character) for character in text)


def _is_of_label(character: str) -> bool:
    # Letters without case, as those of Chinese, are no capitals either.
    return (
        character in "_-" or character.isnumeric() or (character.isalpha() and character == character.lower())
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
