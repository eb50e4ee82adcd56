"""Cloud Build's answers in the project's words, from a server that speaks its API."""

from __future__ import annotations

import io
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import Forbidden
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.cloud.devtools.cloudbuild_v1 import types  # noqa: TID253  # its messages

from container_training.hooks.closing import NoSuchConnection
from container_training.hooks.cloud_build import CloudBuildHook
from container_training.work.object_store import ObjectStore
from tests.support.fakes.cloud_build_server import CloudBuildServer
from training_api.errors import BuildFailed, EngineBusy, EngineUnavailable, InvalidRequest
from training_api.job.image_ref import parse_image_ref

REF = parse_image_ref("europe-docker.pkg.dev/p-1/images/digits:ctx-0123456789abcdef")
BUILD = {"images": [str(REF)], "tags": ["container-training", REF.tag]}


def test_a_build_is_started_read_and_cancelled_in_the_connections_project(cloud: CloudBuildServer) -> None:
    hook = CloudBuildHook(location="europe-west1")

    build_id = hook.create(BUILD)
    seen = hook.get(build_id)
    hook.cancel(build_id)

    (request,) = cloud.created
    assert (request.project_id, request.parent) == ("p-1", "projects/p-1/locations/europe-west1")
    assert (seen.status, seen.images) == ("WORKING", (str(REF),))
    assert cloud.cancelled == [build_id]
    assert hook.get(build_id).status == "CANCELLED"


def test_a_build_of_the_same_content_is_found_while_it_goes_on(cloud: CloudBuildServer) -> None:
    hook = CloudBuildHook()
    assert hook.find_running(REF) is None
    cloud.course = ["WORKING"]
    other = types.Build(id="other", images=["gcr.io/p/other:1"], tags=BUILD["tags"])
    cloud.add(other)
    build_id = hook.create(BUILD)

    found = hook.find_running(REF)
    hook.cancel(build_id)

    assert found is not None
    assert found.build_id == build_id
    assert hook.find_running(REF) is None


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (
            grpc.StatusCode.PERMISSION_DENIED,
            BuildFailed,
            "starting a build in project p-1 was refused: CreateBuild is refused; the account needs roles/cloudbuild",
        ),
        (grpc.StatusCode.UNAUTHENTICATED, BuildFailed, "the account needs roles/cloudbuild.builds.editor"),
        (grpc.StatusCode.INVALID_ARGUMENT, BuildFailed, "was refused: CreateBuild is refused"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, EngineBusy, "has to wait"),
        (grpc.StatusCode.INTERNAL, EngineUnavailable, "starting a build in project p-1 failed"),
    ],
)
def test_a_refusal_is_told_in_the_projects_words(
    cloud: CloudBuildServer, code: grpc.StatusCode, error: type[Exception], message: str
) -> None:
    cloud.refusals["CreateBuild"] = code

    with pytest.raises(error, match=message):
        CloudBuildHook().create(BUILD)


def test_a_machine_that_cloud_build_does_not_know_is_named(cloud: CloudBuildServer) -> None:
    message = r"machine_type: must be one of UNSPECIFIED, .*E2_HIGHCPU_8.*, got 'A_BIG_ONE'"
    with pytest.raises(InvalidRequest, match=message):
        CloudBuildHook().create({**BUILD, "options": {"machine_type": "A_BIG_ONE"}})
    assert cloud.created == []


def test_a_machine_that_cloud_build_knows_is_passed_on(cloud: CloudBuildServer) -> None:
    CloudBuildHook().create({**BUILD, "options": {"machine_type": "E2_HIGHCPU_8"}})

    assert cloud.created[0].build.options.machine_type.name == "E2_HIGHCPU_8"


@pytest.mark.parametrize("wrong", [{"no_such_field": 1}, {"steps": 3}, {"timeout": "soon"}])
def test_another_field_that_cloud_build_does_not_know_is_not_blamed_on_the_machine(
    cloud: CloudBuildServer, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match=r"^build: must be what Cloud Build knows: "):
        CloudBuildHook().create({**BUILD, "options": {"machine_type": "E2_HIGHCPU_8"}, **wrong})
    assert cloud.created == []


def test_a_context_is_stored_once(cloud: CloudBuildServer, store: ObjectStore, folder: str) -> None:
    hook = CloudBuildHook()

    first = hook.upload(f"{folder}/a.tar.gz", io.BytesIO(b"packed"))
    again = hook.upload(f"{folder}/a.tar.gz", io.BytesIO(b"packed"))

    assert again == first
    assert store.read(f"{folder}/a.tar.gz", 100) == b"packed"


def test_a_bucket_that_is_not_there_is_named(cloud: CloudBuildServer) -> None:
    with pytest.raises(
        InvalidRequest, match="staging_dir: must be in a bucket that exists: bucket 'no-such'"
    ):
        CloudBuildHook().upload("gs://no-such/a.tar.gz", io.BytesIO(b"packed"))


def test_a_bucket_that_may_not_be_written_is_named(
    cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise Forbidden("denied")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(ObjectStore, "write_new", refuse)

    with pytest.raises(
        BuildFailed, match=r"storing the build context at gs://b/a was refused: denied; .*objects.create"
    ):
        CloudBuildHook().upload("gs://b/a", io.BytesIO(b"packed"))


def test_a_project_is_needed(cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CloudBuildHook(project_id="other").project == "other"
    monkeypatch.setattr(type(CloudBuildHook().provider), "project_id", "")
    with pytest.raises(
        InvalidRequest, match="project_id: must be given, or be in connection 'google_cloud_default'"
    ):
        _ = CloudBuildHook().project


def test_a_connection_that_is_not_there_is_named(cloud: CloudBuildServer) -> None:
    with pytest.raises(NoSuchConnection, match="gcp_conn_id must be the id of a connection, got 'nobody'"):
        CloudBuildHook("nobody").get_conn()


def test_googles_registries_get_an_access_token(
    cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CloudBuildHook()

    class Credentials:
        valid, token = False, None

        def refresh(self, request: object) -> None:
            self.token = "ya29.token"

    monkeypatch.setattr(type(hook.provider), "get_credentials", lambda self: Credentials())

    assert hook.registry_login() == {"username": "oauth2accesstoken", "password": "ya29.token"}


def test_credentials_that_give_no_token_are_told_in_the_projects_words(
    cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CloudBuildHook()

    class Credentials:
        valid = False

        def refresh(self, request: object) -> None:
            raise RefreshError("iamcredentials: denied")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(type(hook.provider), "get_credentials", lambda self: Credentials())

    with pytest.raises(EngineUnavailable, match=r"getting a token for Google's registries failed: .*denied"):
        hook.registry_login()


def test_a_project_that_cannot_be_found_out_is_told_in_the_projects_words(
    cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise DefaultCredentialsError("no credentials")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(type(CloudBuildHook().provider), "project_id", property(refuse))

    with pytest.raises(EngineUnavailable, match=r"reading the project of .* failed: no credentials"):
        CloudBuildHook().get("build-1")
