"""How a job ends that cannot be read: the pure function, and what the loop makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from container_engines.base import EngineView
from training_api.causes import Cause
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.registry import DIALECTS
from training_api.job.capacity import Capacity
from training_api.job.job_spec import JobSpec
from training_api.job.machines import GIB, Resources
from training_api.states import JobState
from training_service.loop.reconcile import reconcile
from training_service.loop.unreadable import end_of
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, Trial, UnreadableJob
from training_service.model.work import RemoveJob, Transition

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CANCELLED = Reason(cause=Cause.CANCELLED, message="why")
MACHINE = Resources(cpus=2, memory_bytes=8 * GIB)
ROOM = Capacity(each=MACHINE, total=MACHINE, replicas=4)


def make_broken(state: JobState = JobState.RUNNING, outcome: JobState | None = None) -> UnreadableJob:
    spec = JobSpec(project="project", job_id="job", replicas=())
    record = JobRecord(uid="uid", sequence=1, spec=spec, state=state, created_at=NOW, outcome=outcome)
    return UnreadableJob(record=record, why="no form")


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING])
def test_a_job_that_goes_on_fails_with_the_reason(state: JobState) -> None:
    broken = make_broken(state)

    end = end_of(broken, NOW)

    assert (end.job, end.to, end.at) == (broken.record, JobState.FAILED, NOW)
    assert end.reason is not None
    assert end.reason.cause is Cause.UNREADABLE
    assert end.reason.message.endswith(": no form")


@pytest.mark.parametrize(
    ("state", "outcome", "end"),
    [
        (JobState.CANCELLING, None, JobState.CANCELLED),
        (JobState.RUNNING, JobState.SUCCEEDED, JobState.SUCCEEDED),
        (JobState.RUNNING, JobState.FAILED, JobState.FAILED),
    ],
)
def test_an_end_that_was_decided_stays(state: JobState, outcome: JobState | None, end: JobState) -> None:
    broken = make_broken(state, outcome)
    record = replace(broken.record, reason=CANCELLED)

    found = end_of(replace(broken, record=record), NOW)

    assert found == Transition(job=record, to=end, at=NOW, reason=CANCELLED)


def test_an_outcome_that_cannot_follow_the_state_is_no_end() -> None:
    assert end_of(make_broken(JobState.PREPARING, JobState.SUCCEEDED), NOW).to is JobState.FAILED


def test_its_containers_stay_until_its_end_is_written() -> None:
    broken = make_broken()
    view = EngineView(job_uids=frozenset({"uid", "stray"}))

    actions = reconcile(
        jobs=[],
        view=view,
        drained=(),
        busy=(),
        now=NOW,
        capacity=ROOM,
        dialects=DIALECTS,
        unreadable=[broken],
    )

    assert actions == [end_of(broken, NOW), RemoveJob(job_uid="stray")]


def test_a_trial_whose_study_cannot_be_read_ends_with_it() -> None:
    trial = Trial(study_uid="uid", study_sequence=1, number=1, hyperparameters={"lr": "0.5"})
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/p/trainer:1"))
    spec = job_spec_from_wire("project", Job(job_id="job", training_input=training))
    record = replace(make_broken().record, uid="trial", spec=spec, trial=trial)

    actions = reconcile(
        jobs=[record],
        view=EngineView(job_uids=frozenset({"uid", "trial"})),
        drained=(),
        busy=(),
        now=NOW,
        capacity=ROOM,
        dialects=DIALECTS,
        unreadable=[make_broken()],
    )

    reason = Reason(cause=Cause.STUDY_ENDED, message="the job job is ending")
    assert actions[1:] == [Transition(job=record, to=JobState.CANCELLING, at=NOW, reason=reason)]
