"""The documented rules of a job, with sources: identity, labels, formats, scheduling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from training_api.dialects.ml_v1.resources import EncryptionConfig, Job, Scheduling, TrainingInput
from training_api.errors import FieldViolation
from training_api.job.job_spec import DEFAULT_RUNNING
from training_api.job.violations import Violations

JOB_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
JOB_ID_RULE = "must start with a letter, hold only letters, digits and underscores, and be at most 128 long"
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MAX_LABELS = 64
_BUCKET_PATH = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?")
_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")

#: discovery: Scheduling.maxWaitTime "The minimum for this field is 1800s".
MIN_WAIT = timedelta(seconds=1800)

#: Fields of the API that this version refuses by name rather than ignoring: path -> why.
_NOT_YET = {
    "enable_web_access": (
        "this service has no interactive shells; leave it out and use `docker exec` on its machine"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What a request's ``scheduling`` says.

    :param max_wait: limit on QUEUED and PREPARING together; ``None``: none.
    :param max_running: limit on RUNNING.
    :param priority: 0 to 1000, higher first.
    """

    max_wait: timedelta | None = None
    max_running: timedelta = DEFAULT_RUNNING
    priority: int = 0


def check_identity(rules: Violations, job: Job) -> None:
    """
    Check the job's id and labels.

    [unverified] the rule's wording; the pattern is what gcloud's tests and users report.
    """
    if not job.job_id or not JOB_ID.fullmatch(job.job_id):
        rules.add("jobId", f"{JOB_ID_RULE}; got {job.job_id!r}")
    rules.found += label_violations(job.labels or {})


def check_supported(rules: Violations, training: TrainingInput) -> None:
    """Refuse by name what this version does not do."""
    for name, why in _NOT_YET.items():
        if getattr(training, name) not in (None, 0, [], ""):
            rules.add(f"trainingInput.{_camel(name)}", why)


def check_formats(rules: Violations, training: TrainingInput) -> None:
    """
    Check the forms that the discovery document gives.

    Also of fields without an effect on one machine.
    """
    if training.job_dir is not None and not _BUCKET_PATH.fullmatch(training.job_dir):
        rules.add(
            "trainingInput.jobDir",
            f"must be a Cloud Storage path gs://BUCKET/FOLDER; got {training.job_dir!r}",
        )
    rules.check_form(
        "trainingInput.encryptionConfig.kmsKeyName",
        (training.encryption_config or EncryptionConfig()).kms_key_name,
        _KMS_KEY,
        "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY",
    )
    # A project's id is let through, where the document says its number: locally there are no numbers.
    rules.check_form(
        "trainingInput.network", training.network, _NETWORK, "projects/PROJECT/global/networks/NETWORK"
    )
    rules.check_form(
        "trainingInput.serviceAccount", training.service_account, _EMAIL, "an email address NAME@DOMAIN"
    )


def limits_from_wire(rules: Violations, scheduling: Scheduling) -> Limits:
    """Return the limits of a job; what breaks a rule is recorded, and is as if it were not set."""
    path = "trainingInput.scheduling"
    max_wait = _duration(rules, f"{path}.maxWaitTime", scheduling.max_wait_time)
    if max_wait is not None and max_wait < MIN_WAIT:
        rules.add(f"{path}.maxWaitTime", f"must be at least 1800s, got {scheduling.max_wait_time}")
    max_running = _duration(rules, f"{path}.maxRunningTime", scheduling.max_running_time)
    if max_running is not None and max_running <= timedelta(0):
        rules.add(f"{path}.maxRunningTime", "must be more than 0s")
    priority = scheduling.priority or 0
    if not 0 <= priority <= 1000:
        rules.add(f"{path}.priority", f"must be from 0 to 1000, got {priority}")
    return Limits(max_wait=max_wait, max_running=max_running or DEFAULT_RUNNING, priority=priority)


def parse_duration(text: str) -> timedelta:
    """
    Return the duration of ``"3600s"``: seconds, up to nine fractional digits, and an ``s``.

    :raises ValueError: any other form. Source: discovery, format ``google-duration``.
    """
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"must be seconds followed by 's', like '3600s'; got {text!r}")
    return timedelta(seconds=float(match[1]))


def label_violations(labels: Mapping[str, str]) -> list[FieldViolation]:
    """
    Return every rule that a job's labels break; none: they are good.

    Pure. Source: sdk, labels_util.py; the lengths: the label documentation.
    """
    broken = []
    if len(labels) > _MAX_LABELS:
        broken.append(f"must be at most {_MAX_LABELS}, got {len(labels)}")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            broken.append(f"key {key!r} must start with a-z, hold only [a-z0-9_-], and be at most 63 long")
        if not _LABEL_VALUE.fullmatch(value):
            broken.append(f"value {value!r} of {key!r} must hold only [a-z0-9_-] and be at most 63 long")
    return [FieldViolation(field="labels", description=description) for description in broken]


def _duration(rules: Violations, path: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        rules.add(path, str(error))
        return None


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)
