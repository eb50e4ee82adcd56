"""Jobs of packages on the memory engine: their image, and the message if there is none."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import InvalidJobSpec
from training_api.states import JobState
from training_service.model.images.runtimes import RuntimeImage
from training_service.settings import ServiceSettings

LOCAL = "localhost/container-training/runtime:0123"
PUSHED = "registry.test/project/tensorflow:2.11"
TRAINING = TrainingInput(
    package_uris=["gs://bkt/trainer-0.0.0.tar.gz"],
    python_module="trainer.task",
    runtime_version="2.11",
    python_version="3.7",
)


def use_runtimes(world: World, images: dict[str, str]) -> None:
    world.runtimes = {version: RuntimeImage(image=image) for version, image in images.items()}
    world.restart()


def submit(world: World) -> None:
    world.jobs.create(PROJECT, Job(job_id="job", training_input=TRAINING))


@pytest.mark.parametrize("image", [LOCAL, PUSHED])
def test_a_job_of_packages_runs_the_image_of_its_runtime_version(world: World, image: str) -> None:
    use_runtimes(world, {"2.11": image})
    world.add_image(image=image)

    submit(world)
    world.settle()

    (launch,) = world.engine.launches()
    assert launch.image_id == image
    assert launch.args[0] == "--package=gs://bkt/trainer-0.0.0.tar.gz"
    assert world.state() is JobState.RUNNING


def test_an_image_that_the_engine_has_needs_no_registry(world: World) -> None:
    use_runtimes(world, {"2.11": LOCAL})
    world.add_image(image=LOCAL)
    world.engine.registry_available = False

    submit(world)
    world.settle()

    assert world.state() is JobState.RUNNING


def test_a_local_image_that_is_gone_fails_the_job_at_once(world: World) -> None:
    use_runtimes(world, {"2.11": LOCAL})

    submit(world)
    world.settle()

    assert world.state() is JobState.FAILED
    assert "the engine does not have localhost/container-training/runtime:0123" in (
        world.get().error_message or ""
    )


def test_an_unknown_version_is_refused_and_nothing_is_stored(world: World) -> None:
    use_runtimes(world, {"2.1": LOCAL})

    with pytest.raises(InvalidJobSpec, match=r"must be one of 2\.1; got '2\.11'"):
        submit(world)

    assert world.store.list_active() == []


def test_a_version_that_was_taken_out_of_the_settings_fails_the_jobs_that_wait_for_it(world: World) -> None:
    use_runtimes(world, {"2.11": LOCAL})
    submit(world)

    use_runtimes(world, {"2.1": LOCAL})
    world.settle()

    assert world.state() is JobState.FAILED
    assert "has no runtime version 2.11 any more (it has 2.1)" in (world.get().error_message or "")


def test_the_settings_take_a_name_or_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"2.11": LOCAL, "1.15": {"image": PUSHED, "python_versions": ["2.7", "3.7"]}}
    monkeypatch.setenv("TRAINING_RUNTIME_IMAGES", json.dumps(both))

    images = ServiceSettings().runtime_images

    assert images["2.11"] == RuntimeImage(image=LOCAL, python_versions=("3.7",))
    assert images["1.15"].python_versions == ("2.7", "3.7")


@pytest.mark.parametrize("wrong", ["tensorflow:2.11", {"image": LOCAL, "python": "3.7"}, {}, 3])
def test_settings_that_name_no_image_are_refused(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    monkeypatch.setenv("TRAINING_RUNTIME_IMAGES", json.dumps({"2.11": wrong}))

    with pytest.raises(ValidationError, match="runtime_images"):
        ServiceSettings()
