"""Patching a job's labels: masks, etags, and writers that meet."""

from __future__ import annotations

import pytest

from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import EditConflict, InvalidRequest, JobNotFound
from training_api.job.labels import ORIGIN_LABELS
from training_api.states import JobState


def labels(**pairs: str) -> Job:
    return Job(labels=pairs)


def test_labels_are_replaced_as_a_whole(world: World) -> None:
    world.submit()
    world.jobs.patch(PROJECT, "job", labels(team="vision", env="dev"), "labels")

    patched = world.jobs.patch(PROJECT, "job", labels(env="prod"), "labels")

    assert patched.labels == {"env": "prod"}
    assert world.get() == patched
    assert [job.job_id for job in world.jobs.list_page(PROJECT, "labels.env=prod").jobs or []] == ["job"]


@pytest.mark.parametrize("body", [Job(labels={}), Job()])
def test_empty_labels_clear_them(world: World, body: Job) -> None:
    world.submit()
    world.jobs.patch(PROJECT, "job", labels(env="prod"), "labels")

    assert world.jobs.patch(PROJECT, "job", body, "labels").labels is None


def test_only_what_the_mask_names_is_written(world: World) -> None:
    world.submit()
    etag = world.get().etag

    answered = world.jobs.patch(PROJECT, "job", Job(labels={"a": "b"}, etag=etag), "etag")

    assert answered.labels is None
    assert answered.etag == etag


def test_ended_job_can_be_patched_and_stays_ended(world: World) -> None:
    world.add_image()
    world.submit()
    world.jobs.cancel(PROJECT, "job")
    world.settle()

    patched = world.jobs.patch(PROJECT, "job", labels(env="prod"), "labels")

    assert (patched.state, patched.labels) == (JobState.CANCELLED, {"env": "prod"})


def test_etag_of_what_was_read_lets_one_writer_through(world: World) -> None:
    world.submit()
    etag = world.get().etag
    first = world.jobs.patch(PROJECT, "job", Job(labels={"a": "1"}, etag=etag), "labels,etag")

    with pytest.raises(EditConflict, match="'job' has changed since etag"):
        world.jobs.patch(PROJECT, "job", Job(labels={"a": "2"}, etag=etag), "labels")

    assert first.etag != etag
    assert world.get().labels == {"a": "1"}


def test_store_writes_labels_only_over_the_version_that_was_read(world: World) -> None:
    world.submit()
    seen = world.store.get(PROJECT, "job")
    world.store.advance(seen, JobState.PREPARING, at=world.engine.now, message="x")

    assert not world.store.set_labels(seen, {"a": "1"})

    assert world.get().labels is None
    assert world.state() is JobState.PREPARING


@pytest.mark.parametrize("mask", ["labels", " labels , etag ", "etag,labels", "labels,labels"])
def test_mask_is_a_list_in_any_order(world: World, mask: str) -> None:
    world.submit()

    patched = world.jobs.patch(PROJECT, "job", Job(labels={"a": "1"}, etag=world.get().etag), mask)

    assert patched.labels == {"a": "1"}


@pytest.mark.parametrize(
    ("mask", "body", "field", "text"),
    [
        ("", Job(), "updateMask", "is required"),
        ("state", Job(), "updateMask", "got 'state'"),
        ("labels,trainingInput", Job(), "updateMask", "got 'trainingInput'"),
        ("*", Job(), "updateMask", "got '*'"),
        ("labels.team", Job(), "updateMask", "got 'labels.team'"),
        ("labels,", Job(), "updateMask", "got ''"),
        ("labels,etag", Job(), "etag", "must be set"),
        ("labels", Job(labels={"Team": "a"}), "labels", "key 'Team' must start with a-z"),
        ("labels", Job(labels={"team": "A"}), "labels", "value 'A' of 'team'"),
        ("labels", Job(labels={f"k{number}": "" for number in range(65)}), "labels", "at most 64, got 65"),
    ],
)
def test_bad_patch_is_refused_by_field(world: World, mask: str, body: Job, field: str, text: str) -> None:
    world.submit()

    with pytest.raises(InvalidRequest) as caught:
        world.jobs.patch(PROJECT, "job", body, mask)

    assert [violation.field for violation in caught.value.violations] == [field]
    assert text in str(caught.value)


def test_unknown_job_is_not_found(world: World) -> None:
    with pytest.raises(JobNotFound):
        world.jobs.patch(PROJECT, "absent", labels(), "labels")


@pytest.mark.parametrize("name", ORIGIN_LABELS)
def test_whose_task_a_job_is_of_stays_as_it_was_made(world: World, name: str) -> None:
    world.add_image()
    labels = {name: "mine", "team": "a"}
    job = Job(
        job_id="job",
        labels=labels,
        training_input=TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE)),
    )
    world.jobs.create(PROJECT, job)

    for changed in ({"team": "b"}, {**labels, name: "yours"}, {}):
        with pytest.raises(InvalidRequest, match=f"labels.{name}: says of which task"):
            world.jobs.patch(PROJECT, "job", Job(labels=changed), "labels")
    patched = world.jobs.patch(PROJECT, "job", Job(labels={**labels, "team": "b"}), "labels")

    assert patched.labels == {**labels, "team": "b"}


@pytest.mark.parametrize("changed", [{}, {"secret-key": ""}, {"secret-key": "api_key", "secret-other": ""}])
def test_which_secrets_a_job_gets_stays_as_it_was_made(world: World, changed: dict[str, str]) -> None:
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    labels = {"secret-key": "api_key"}
    world.jobs.create(PROJECT, Job(job_id="job", labels=labels, training_input=training))

    with pytest.raises(InvalidRequest, match=r"labels.secret-\w+: says which secret the job gets"):
        world.jobs.patch(PROJECT, "job", Job(labels=changed), "labels")
    patched = world.jobs.patch(PROJECT, "job", Job(labels={**labels, "team": "b"}), "labels")

    assert patched.labels == {**labels, "team": "b"}
