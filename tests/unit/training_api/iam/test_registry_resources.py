"""The names of the resources whose policies decide about pulls."""

from __future__ import annotations

import pytest

from training_api.errors import InvalidImageRef
from training_api.iam.registry_resources import ResourceKind, project_resource, registry_resource
from training_api.job.image_ref import parse_image_ref

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("image", "name", "project"),
    [
        ("gcr.io/demo/train:1", "buckets/artifacts.demo.appspot.com", "demo"),
        (f"gcr.io/demo/team/train@{DIGEST}", "buckets/artifacts.demo.appspot.com", "demo"),
        ("us.gcr.io/demo/train", "buckets/us.artifacts.demo.appspot.com", "demo"),
        ("eu.gcr.io/demo/train", "buckets/eu.artifacts.demo.appspot.com", "demo"),
        ("asia.gcr.io/demo/train", "buckets/asia.artifacts.demo.appspot.com", "demo"),
        (
            "gcr.io/example.com/vision/train",
            "buckets/artifacts.vision.example.com.a.appspot.com",
            "example.com:vision",
        ),
        (
            "eu.gcr.io/example.com/vision/train",
            "buckets/eu.artifacts.vision.example.com.a.appspot.com",
            "example.com:vision",
        ),
    ],
)
def test_an_image_of_container_registry_is_in_a_bucket(image: str, name: str, project: str) -> None:
    found = registry_resource(parse_image_ref(image))

    assert found is not None
    assert (found.kind, found.name, found.project, found.reader_role) == (
        ResourceKind.BUCKET,
        name,
        project,
        "roles/storage.objectViewer",
    )


@pytest.mark.parametrize(
    ("image", "name", "project"),
    [
        ("us-docker.pkg.dev/demo/repo/train:1", "projects/demo/locations/us/repositories/repo", "demo"),
        (
            f"europe-west4-docker.pkg.dev/demo/repo/team/train@{DIGEST}",
            "projects/demo/locations/europe-west4/repositories/repo",
            "demo",
        ),
        (
            "us-docker.pkg.dev/example.com/vision/repo/train",
            "projects/example.com:vision/locations/us/repositories/repo",
            "example.com:vision",
        ),
        ("127.0.0.1:5000/demo/digits:1", "projects/demo/locations/local/repositories/digits", "demo"),
        ("127.0.0.1:5000/demo/repo/train", "projects/demo/locations/local/repositories/repo", "demo"),
        ("localhost:5000/demo/digits", "projects/demo/locations/local/repositories/digits", "demo"),
        ("[::1]:5000/demo/digits", "projects/demo/locations/local/repositories/digits", "demo"),
        (
            "127.0.0.1:5000/example.com/vision/digits",
            "projects/example.com:vision/locations/local/repositories/digits",
            "example.com:vision",
        ),
    ],
)
def test_an_image_of_artifact_registry_or_the_local_registry_is_in_a_repository(
    image: str, name: str, project: str
) -> None:
    found = registry_resource(parse_image_ref(image))

    assert found is not None
    assert (found.kind, found.name, found.project, found.reader_role) == (
        ResourceKind.REPOSITORY,
        name,
        project,
        "roles/artifactregistry.reader",
    )


@pytest.mark.parametrize(
    "image",
    [
        "docker.io/library/python:3",
        "registry.test/demo/train",
        "mirror.gcr.io/demo/train",
        "fr.gcr.io/demo/train",
        "127.0.0.1.example.com/demo/train",
        "us-docker.pkg.dev.example.com/demo/repo/train",
        "registry:5000/demo/train",
    ],
)
def test_no_policy_decides_about_images_of_other_registries(image: str) -> None:
    assert registry_resource(parse_image_ref(image)) is None


def test_the_local_registry_may_be_at_an_address_that_other_machines_reach() -> None:
    image = parse_image_ref("10.0.0.5:5000/other/digits/train:1")

    found = registry_resource(image, "10.0.0.5:5000")

    assert found == registry_resource(parse_image_ref("127.0.0.1:5000/other/digits/train:1"))
    assert found is not None
    assert found.name == "projects/other/locations/local/repositories/digits"
    assert registry_resource(image, "10.0.0.5:5001") is None


@pytest.mark.parametrize("image", ["gcr.io/demo", "us-docker.pkg.dev/demo:1", "127.0.0.1:5000/digits"])
def test_an_image_without_a_repository_is_refused_with_the_expected_form(image: str) -> None:
    reference = parse_image_ref(image)

    with pytest.raises(InvalidImageRef) as refused:
        registry_resource(reference)

    assert str(refused.value) == (
        f"image {reference.name!r} names no repository; expected {reference.host}/PROJECT/REPOSITORY"
    )


def test_a_whole_project_has_the_role_that_is_asked_for() -> None:
    found = project_resource("demo", "roles/ml.serviceAgent")

    assert (found.kind, found.name, found.reader_role) == (
        ResourceKind.PROJECT,
        "projects/demo",
        "roles/ml.serviceAgent",
    )
