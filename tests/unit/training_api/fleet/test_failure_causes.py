"""Each message that the service writes has its cause; the messages are made by the service's own code."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from container_engines.base import ObservedReplica
from container_engines.docker.errors import engine_error
from training_api.fleet.failure_causes import Cause, cause_of, explain, title_of
from training_api.iam.registry_resources import PolicyResource
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import parse_image_ref
from training_api.job.restarts import Attempt
from training_api.states import JobState, ReplicaState
from training_service.access.image_access import _denied
from training_service.model.limits import limit_reached
from training_service.model.records import JobRecord
from training_service.model.verdict import Over, failure_message
from training_service.studies.study import Reported, judge_trial
from training_service.studies.study import _failure as study_failure
from training_service.use_cases.jobs import CANCELLED_BY_USER

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = parse_image_ref("127.0.0.1:5000/demo/repo/digits:1")
ROOT = Path(__file__).resolve().parents[4]


def exited(code: int, *, out_of_memory: bool = False, index: int = 0) -> ObservedReplica:
    return ObservedReplica(
        job_uid="1",
        replica=ReplicaId(role=ReplicaRole.WORKER, index=index)
        if index
        else ReplicaId(role=ReplicaRole.MASTER),
        attempt=Attempt(),
        container_id=f"c{index}",
        state=ReplicaState.EXITED,
        exit_code=code,
        out_of_memory=out_of_memory,
    )


def limit_text(state: JobState) -> str:
    spec = SimpleNamespace(max_wait=timedelta(seconds=1800), max_running=timedelta(seconds=7200))
    record = SimpleNamespace(state=state, spec=spec, created_at=NOW, running_at=NOW)
    return limit_reached(cast(JobRecord, record), NOW + timedelta(days=1))


def metric_text(value: float | None) -> str:
    study: Any = SimpleNamespace(metric_tag="accuracy")
    return judge_trial(study, Over(outcome=JobState.SUCCEEDED), Reported(value=value)).error_message


def pull_failed(error: object) -> str:
    """As ``Actions._pull`` writes it."""
    return f"The image {IMAGE} of the replica master 0 could not be pulled: {error}"


def start_failed(error: object) -> str:
    """As ``Actions._start_one`` writes it."""
    return f"The replica master 0 could not start: {error}"


DENIED = _denied(
    "serviceAccount:service-1@cloud-ml.google.com.iam.gserviceaccount.com",
    cast(
        PolicyResource,
        SimpleNamespace(
            name="projects/other/locations/local/repositories/repo",
            reader_role="roles/artifactregistry.reader",
        ),
    ),
)

MESSAGES = [
    (failure_message([exited(137, out_of_memory=True)]), Cause.OUT_OF_MEMORY),
    (failure_message([exited(1), exited(137, out_of_memory=True, index=1)]), Cause.OUT_OF_MEMORY),
    (failure_message([exited(1)]), Cause.PROGRAM_ERROR),
    (failure_message([exited(143), exited(3, index=1)]), Cause.PROGRAM_ERROR),
    (failure_message([exited(65)]), Cause.PROGRAM_ERROR),
    (failure_message([exited(127)]), Cause.COMMAND),
    (failure_message([exited(126)]), Cause.COMMAND),
    (failure_message([exited(137)]), Cause.INTERRUPTED),
    (failure_message([exited(143)]), Cause.INTERRUPTED),
    (failure_message([], [ReplicaId(role=ReplicaRole.WORKER, index=2)]), Cause.REPLICA_LOST),
    (pull_failed(DENIED), Cause.ACCESS),
    (pull_failed(engine_error("pull x", "unauthorized: authentication required")), Cause.ACCESS),
    (pull_failed(engine_error("pull x", 'denied: Permission "read" denied')), Cause.ACCESS),
    (pull_failed(f"registry {IMAGE.host} has no image {IMAGE}: manifest unknown"), Cause.IMAGE),
    (pull_failed(engine_error("pull x", "pull access denied for x, repository does not exist")), Cause.IMAGE),
    (pull_failed("TRAINING_RUNTIME_IMAGES has no runtime version 2.9 any more (it has 2.11)"), Cause.IMAGE),
    (f"The image {IMAGE} could not be pulled for 600 seconds: registry did not answer", Cause.REGISTRY),
    (
        (
            f"There is no room for the image {IMAGE} of the replica master 0: "
            f"{engine_error('pull x', 'write /var/lib/docker/tmp: no space left on device')}"
        ),
        Cause.STORAGE,
    ),
    (start_failed(engine_error("start x", "mkdir /var/lib/docker: no space left on device")), Cause.STORAGE),
    (start_failed("2 GPUs are needed and 1 of 2 are free"), Cause.QUOTA),
    (
        start_failed(engine_error("start x", 'exec: "train": executable file not found in $PATH')),
        Cause.COMMAND,
    ),
    (start_failed(engine_error("start x", "cgroup: cannot set memory limit")), Cause.ENGINE),
    ("The replica master 0 could not start for 120 seconds: make network x: no free address", Cause.ENGINE),
    (metric_text(None), Cause.METRIC),
    (metric_text(float("nan")), Cause.METRIC),
    ("something that nobody wrote yet", Cause.UNKNOWN),
    ("", Cause.UNKNOWN),
]


@pytest.mark.parametrize(("message", "cause"), MESSAGES)
def test_each_message_of_the_service_has_its_cause(message: str, cause: Cause) -> None:
    assert cause_of(JobState.FAILED, message) is cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (CANCELLED_BY_USER, Cause.CANCELLED),
        (limit_text(JobState.QUEUED), Cause.WAITED_TOO_LONG),
        (limit_text(JobState.PREPARING), Cause.WAITED_TOO_LONG),
        (limit_text(JobState.RUNNING), Cause.RAN_TOO_LONG),
        ("the job tune_1 is ending", Cause.STUDY_ENDED),
        (None, Cause.CANCELLED),
    ],
)
@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.CANCELLING])
def test_each_way_to_be_cancelled_has_its_cause(state: JobState, message: str | None, cause: Cause) -> None:
    assert cause_of(state, message) is cause


@pytest.mark.parametrize(("message", "cause"), MESSAGES[:-1])
def test_a_study_fails_for_the_reason_of_its_last_trial(message: str, cause: Cause) -> None:
    trial: Any = SimpleNamespace(number=7, error_message=message)
    text = study_failure([trial, trial], "none has succeeded")

    explained = explain(JobState.FAILED, text)

    assert explained is not None
    assert explained.cause is cause
    assert explained.text.startswith("2 trials have failed, and none has succeeded. The last of them: ")


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED])
def test_a_job_that_goes_on_or_went_well_has_no_cause(state: JobState) -> None:
    assert cause_of(state, "The replica master 0 exited with a non-zero status of 1.") is None
    assert explain(state, None) is None


@pytest.mark.parametrize("code", [65, 66, 69])
def test_a_job_of_packages_has_statuses_of_its_own(code: int) -> None:
    explained = explain(JobState.FAILED, failure_message([exited(code)]), uses_packages=True)

    assert explained is not None
    assert explained.cause is Cause.PACKAGE
    assert f"the status {code}" in explained.text


def test_the_words_name_the_replica_that_is_to_blame() -> None:
    message = failure_message([exited(143), exited(3, index=1)])

    explained = explain(JobState.FAILED, message)

    assert explained is not None
    assert "replica worker 1 ended by itself with the status 3" in explained.text


@pytest.mark.parametrize(("message", "cause"), MESSAGES)
def test_no_words_are_left_to_be_filled_in(message: str, cause: Cause) -> None:
    explained = explain(JobState.FAILED, message)

    assert explained is not None
    assert not re.search(r"[{}]|None|  ", f"{explained.text} {explained.fix}")


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_a_title(cause: Cause) -> None:
    assert title_of(cause)


def test_the_docs_have_what_the_words_refer_to() -> None:
    for message, _ in MESSAGES:
        explained = explain(JobState.FAILED, message)
        assert explained is not None
        path, _, anchor = explained.docs.partition("#")
        headings = re.findall(r"^#+\s+(.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
