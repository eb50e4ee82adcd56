"""Other names of images, on the memory engine: what runs, and with whose rights."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.job.image_ref import parse_image_ref
from training_api.states import JobState
from training_service.model.images.image_aliases import alias_of
from training_service.model.records import JobRecord
from training_service.settings import ServiceSettings

LOCAL = "localhost/container-training/runtime:0123"
PUSHED = "registry.test/project/trainer:9"
PREBUILT = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14:latest"


@pytest.mark.parametrize(
    ("image", "target"),
    [
        ("a.io/p/one:1", "localhost/tagged"),
        ("a.io/p/one:2", "localhost/any-tag"),
        ("a.io/p/one", "localhost/any-tag"),
        ("a.io/p/training/x:1", "localhost/longer"),
        ("a.io/p/other", "localhost/shorter"),
        ("b.io/p/one:1", None),
    ],
)
def test_the_most_particular_name_counts(image: str, target: str | None) -> None:
    aliases = {
        "a.io/p/*": "localhost/shorter",
        "a.io/p/training/*": "localhost/longer",
        "a.io/p/one": "localhost/any-tag",
        "a.io/p/one:1": "localhost/tagged",
    }

    found = alias_of(aliases, parse_image_ref(image))

    assert (str(found) if found else None) == target


def run(world: World, target: str) -> JobRecord:
    world.aliases = {"us-docker.pkg.dev/vertex-ai/*": target}
    world.restart()
    job = make_custom_job(make_pool(imageUri=PREBUILT))
    world.store.insert(custom_job_spec(PROJECT, "us-central1", "123", job), job)
    world.settle()
    return world.store.get(PROJECT, "123")


@pytest.mark.parametrize("target", [LOCAL, PUSHED])
def test_a_job_runs_what_its_image_stands_for_and_shows_the_name_that_was_sent(
    world: World, target: str
) -> None:
    world.add_image(image=target)

    job = run(world, target)

    (launch,) = world.engine.launches()
    assert (launch.image_id, job.state) == (target, JobState.RUNNING)
    assert job.request["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] == PREBUILT


def test_an_image_of_the_engine_alone_needs_no_registry(world: World) -> None:
    world.add_image(image=LOCAL)
    world.engine.registry_available = False

    assert run(world, LOCAL).state is JobState.RUNNING


def test_an_image_of_a_registry_is_pulled_with_the_rights_of_the_job(world: World) -> None:
    world.add_image(image=PUSHED)
    world.engine.registry_available = False

    assert run(world, PUSHED).state is JobState.PREPARING


def test_an_image_that_the_engine_lacks_fails_the_job_with_both_names(world: World) -> None:
    job = run(world, LOCAL)

    assert job.state is JobState.FAILED
    assert f"the engine does not have {LOCAL}, which TRAINING_IMAGE_ALIASES has for {PREBUILT}" in (
        job.reason.message if job.reason else ""
    )


def test_aliases_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_IMAGE_ALIASES", json.dumps({"gcr.io/p/*": LOCAL}))

    assert ServiceSettings().image_aliases == {"gcr.io/p/*": LOCAL}


@pytest.mark.parametrize(
    "aliases", [{"*": LOCAL}, {"trainer": LOCAL}, {"gcr.io/*/x": LOCAL}, {"gcr.io/p/*": "no host"}]
)
def test_an_alias_has_a_form(monkeypatch: pytest.MonkeyPatch, aliases: dict[str, str]) -> None:
    monkeypatch.setenv("TRAINING_IMAGE_ALIASES", json.dumps(aliases))

    with pytest.raises(ValidationError, match="image_aliases"):
        ServiceSettings()
