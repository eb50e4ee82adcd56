"""What Cloud Build is asked for, and what came of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from google.cloud.devtools.cloudbuild_v1 import types  # noqa: TID253  # its messages

from container_training.work.images.cloud_build import (
    CloudBuild,
    CloudMachine,
    StoredContext,
    build_request,
    check_registry,
)
from container_training.work.images.content import ImageContent
from container_training.work.images.parts import PARTS_LABEL, ImageParts, image_parts
from training_api.errors import BuildFailed, EngineBusy, EngineUnavailable, InvalidImageRef, InvalidRequest
from training_api.job.image_ref import parse_image_ref
from training_api.retrying import is_worth_a_retry

REF = parse_image_ref("europe-docker.pkg.dev/p-1/images/digits:ctx-0123456789abcdef")
DIGEST = "sha256:" + "d" * 64
PARTS = image_parts(dockerfile="Dockerfile", files={"Dockerfile": "a" * 64}, build_args={}, base_image_ids={})
CONTENT = ImageContent(ref=REF, digest="0" * 64, base_images=(), parts=PARTS)
STORED = StoredContext(bucket="b", name="contexts/0.tar.gz", generation=7)
SECRET = "projects/p-1/secrets/hub/versions/3"


def request(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "dockerfile": "Dockerfile",
        "dockerfile_text": "FROM scratch\n",
        "build_args": {},
        "labels": {},
        "secrets": {},
        "machine": CloudMachine(timeout=timedelta(minutes=20)),
        **changes,
    }
    return build_request(CONTENT, STORED, **given)


def test_docker_builds_the_stored_context_and_cloud_build_pushes_the_image() -> None:
    build = types.Build(request(build_args={"A": "1"}, labels={"team": "vision"}))

    assert (build.source.storage_source.bucket, build.source.storage_source.object_) == (
        "b",
        "contexts/0.tar.gz",
    )
    assert build.source.storage_source.generation == 7
    assert [step.name for step in build.steps] == ["gcr.io/cloud-builders/docker"]
    assert list(build.steps[0].args) == [
        *("build", "--file", "Dockerfile", "--tag", str(REF), "--build-arg=A=1", "--label=team=vision", "."),
    ]
    assert list(build.steps[0].env) == []
    assert list(build.images) == [str(REF)]
    assert list(build.tags) == ["container-training", "ctx-0123456789abcdef"]
    assert build.timeout == timedelta(minutes=20)


def test_a_dollar_sign_is_none_of_cloud_builds_variables() -> None:
    build = request(build_args={"A": "$PROJECT_ID"}, dockerfile="a$b/Dockerfile")

    assert "--build-arg=A=$$PROJECT_ID" in build["steps"][0]["args"]
    assert "a$$b/Dockerfile" in build["steps"][0]["args"]


def test_a_secret_is_read_by_cloud_build_itself() -> None:
    build = types.Build(request(secrets={"hub-token": SECRET}))

    assert "--secret=id=hub-token,env=SECRET_0" in build.steps[0].args
    assert list(build.steps[0].secret_env) == ["SECRET_0"]
    assert list(build.steps[0].env) == ["DOCKER_BUILDKIT=1"]
    (secret,) = build.available_secrets.secret_manager
    assert (secret.version_name, secret.env) == (SECRET, "SECRET_0")


def test_a_dockerfile_that_needs_buildkit_gets_it() -> None:
    assert request(dockerfile_text="FROM scratch\nCOPY --link a b\n")["steps"][0]["env"] == [
        "DOCKER_BUILDKIT=1"
    ]


def test_the_machine_and_the_account_are_named() -> None:
    pool = "projects/p-1/locations/europe-west1/workerPools/w"
    account = "projects/p-1/serviceAccounts/builder@p-1.iam.gserviceaccount.com"
    machine = CloudMachine(
        timeout=timedelta(hours=1), machine_type="E2_HIGHCPU_8", worker_pool=pool, service_account=account
    )

    build = types.Build(request(machine=machine))

    assert build.options.machine_type.name == "E2_HIGHCPU_8"
    assert build.options.pool.name == pool
    assert build.service_account == account
    assert build.options.logging.name == "CLOUD_LOGGING_ONLY"


def test_the_files_of_a_large_context_are_not_listed_in_a_label() -> None:
    files = {f"file-{number}": "a" * 64 for number in range(400)}
    parts = ImageParts(dockerfile="Dockerfile", files=files, build_args={}, base_images={})

    build = request(labels={PARTS_LABEL: parts.to_label()})

    assert max(map(len, build["steps"][0]["args"])) < 1000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secrets": {"hub": "variable:hub"}}, r"secrets\.hub: must be projects/P/secrets/S/versions/V"),
        (
            {"build_args": {f"A{n}": "1" for n in range(100)}},
            "build_args: must be few enough for the 100 arg",
        ),
        ({"build_args": {"A": "x" * 10_001}}, "build_args: must have at most 10000 characters each"),
    ],
)
def test_what_cloud_build_would_refuse_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        request(**changes)


@pytest.mark.parametrize("limit", [timedelta(0), timedelta(hours=25)])
def test_a_time_limit_is_one_that_cloud_build_takes(limit: timedelta) -> None:
    with pytest.raises(InvalidRequest, match="build_timeout: must be above 0 and at most 24 hours"):
        CloudMachine(timeout=limit)


def test_an_image_elsewhere_is_none_that_cloud_build_can_push() -> None:
    check_registry(REF)
    check_registry(parse_image_ref("gcr.io/p-1/digits"))
    with pytest.raises(InvalidImageRef, match=r"'registry\.example/p/digits' must be in Artifact Registry"):
        check_registry(parse_image_ref("registry.example/p/digits"))


def ended(status: str, **fields: Any) -> CloudBuild:
    return CloudBuild.of(
        types.Build(id="b-1", status=status, log_url="https://log", images=[str(REF)], **fields)
    )


def test_a_build_that_ended_well_has_the_digest() -> None:
    build = ended("SUCCESS", results={"images": [{"name": str(REF), "digest": DIGEST}]})

    assert build.is_over
    assert str(build.image(REF)) == f"{REF}@{DIGEST}"
    with pytest.raises(BuildFailed, match="ended well, and did not push"):
        ended("SUCCESS").image(REF)


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "WORKING"])
def test_a_build_that_goes_on_is_not_over(status: str) -> None:
    assert not ended(status).is_over


@pytest.mark.parametrize(
    ("status", "error", "is_retried"),
    [
        ("FAILURE", BuildFailed, False),
        ("TIMEOUT", BuildFailed, False),
        ("CANCELLED", BuildFailed, False),
        ("INTERNAL_ERROR", EngineUnavailable, True),
        ("EXPIRED", EngineBusy, True),
    ],
)
def test_a_build_that_failed_says_why_and_where_its_log_is(
    status: str, error: type[Exception], is_retried: bool
) -> None:
    build = ended(
        status,
        failure_info={"detail": "Build step failure"},
        status_detail="step exited with non-zero status: 1",
        steps=[{"name": "gcr.io/cloud-builders/docker", "status": "FAILURE"}],
    )

    with pytest.raises(error) as caught:
        build.image(REF)

    assert str(caught.value) == (
        f"Cloud Build's b-1 ended with {status}: Build step failure; step exited with non-zero status: 1; step 0 "
        "(gcr.io/cloud-builders/docker) FAILURE; log: https://log"
    )
    assert is_worth_a_retry(caught.value) is is_retried  # type: ignore[arg-type]
