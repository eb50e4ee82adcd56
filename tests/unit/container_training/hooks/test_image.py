"""From Airflow connections to logins and environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.auth.exceptions import DefaultCredentialsError
from google.oauth2.credentials import Credentials

from container_training.hooks.image import (
    ImageHook,
    full_image_name,
    open_build_context,
    training_environment,
)
from training_api.errors import (
    AccessDenied,
    EngineUnavailable,
    InvalidImageRef,
    InvalidJobSpec,
    InvalidRequest,
)

pytestmark = pytest.mark.usefixtures("airflow_db")


def set_connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "docker"} | fields))


def test_the_login_goes_to_its_own_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "docker_default", host="registry.example", port=5000, login="u", password="p")
    hook = ImageHook()

    assert hook.find_login("registry.example:5000") == {"username": "u", "password": "p"}
    assert hook.find_login("other.example") == {}


def test_the_host_of_the_connection_may_be_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(
        monkeypatch, "docker_default", host="https://registry.example/v2/", login="u", password="p"
    )

    assert ImageHook().find_login("registry.example")["username"] == "u"


def test_without_login_or_connection_access_is_anonymous(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "no_login", host="127.0.0.1", port=5000)

    assert ImageHook("no_login").find_login("127.0.0.1:5000") == {}
    assert ImageHook("not_defined").find_login("127.0.0.1:5000") == {}
    assert ImageHook(None).find_login("127.0.0.1:5000") == {}


def test_a_stored_docker_login_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = {"auths": {"registry.example": {"auth": "dTpw"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    login = ImageHook("not_defined").find_login("registry.example")

    assert (login["username"], login["password"]) == ("u", "p")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return as whom Google's credentials are asked for; they have a token."""
    found: list[tuple[str, Any]] = []

    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    def get_credentials(hook: GoogleBaseHook) -> Credentials:
        found.append((hook.gcp_conn_id, hook.impersonation_chain))
        return Credentials(token="short-lived")

    monkeypatch.setattr(GoogleBaseHook, "get_credentials", get_credentials)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "google-cloud-platform://")
    return found


GOOGLES = "europe-west4-docker.pkg.dev"


def test_a_registry_of_google_is_asked_with_a_short_lived_token(
    monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, Any]]
) -> None:
    set_connection(
        monkeypatch,
        "docker_default",
        host="127.0.0.1",
        extra={"gcp_conn_id": "mine", "impersonation_chain": "a@x.test, b@x.test"},
    )
    hook, login = ImageHook(), {"username": "oauth2accesstoken", "password": "short-lived"}

    assert [hook.find_login(host) for host in (GOOGLES, "eu.gcr.io")] == [login, login]
    assert hook.find_login("pkg.dev.example.com") == {}
    assert ImageHook("not_defined").find_login(GOOGLES) == login
    assert asked == [("mine", ("a@x.test", "b@x.test")), ("google_cloud_default", None)]


def test_a_login_of_ones_own_comes_before_googles(
    monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, Any]]
) -> None:
    set_connection(monkeypatch, "docker_default", host=GOOGLES, login="_json_key", password="{}")

    assert ImageHook().find_login(GOOGLES)["username"] == "_json_key"
    assert asked == []


@pytest.mark.parametrize("missing", [DefaultCredentialsError("none here"), FileNotFoundError("none here")])
def test_without_credentials_of_google_its_public_images_are_pulled_all_the_same(
    monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, Any]], missing: Exception
) -> None:
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    def refuse(_: GoogleBaseHook) -> Credentials:
        raise missing

    monkeypatch.setattr(GoogleBaseHook, "get_credentials", refuse)
    set_connection(monkeypatch, "named", host="127.0.0.1", extra={"gcp_conn_id": "mine"})

    assert ImageHook("not_defined").find_login("gcr.io") == {}
    with pytest.raises(AccessDenied, match="'mine' gives no access token: none here"):
        ImageHook("named").find_login("gcr.io")


def test_an_engine_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="no Docker Engine answers at unix://"):
        ImageHook(docker_url=f"unix://{tmp_path}/no.sock").get_conn()


def test_the_connection_names_the_engine_and_an_operator_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(
        monkeypatch, "docker_default", extra={"engine_url": "tcp://builder:2376", "cert_path": "/certs"}
    )
    monkeypatch.setenv("DOCKER_HOST", "unix:///of-the-environment.sock")

    assert ImageHook().engine.environment() == {
        "DOCKER_HOST": "tcp://builder:2376",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": "/certs",
    }
    assert ImageHook(docker_url="unix:///mine.sock").engine.environment() == {
        "DOCKER_HOST": "unix:///mine.sock"
    }
    assert ImageHook("not_defined").engine.url == "unix:///of-the-environment.sock"


def test_certificates_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extra = {"engine_url": "tcp://127.0.0.1:1", "cert_path": str(tmp_path)}
    set_connection(monkeypatch, "docker_default", extra=extra)

    with pytest.raises(
        InvalidRequest, match=r"'docker_default', extra\.cert_path: must be a folder with ca\.pem"
    ):
        ImageHook().get_conn()


def test_the_connection_names_a_remote_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "docker_default", extra={"builder_url": "unix:///run/buildkit.sock"})
    set_connection(monkeypatch, "named", extra={"builder_name": "shared"})
    set_connection(monkeypatch, "wrong", extra={"builder_url": "tcp://builder.example:1234"})

    assert str(ImageHook().remote_builder) == "unix:///run/buildkit.sock"
    assert str(ImageHook("named").remote_builder) == "shared"
    assert ImageHook("not_defined").remote_builder is None
    with pytest.raises(
        InvalidRequest, match=r"connection 'wrong', extra\.builder_cert_path: must be given for"
    ):
        _ = ImageHook("wrong").remote_builder


@pytest.mark.parametrize("as_text", [True, False])
def test_the_environment_of_jobs_comes_from_the_training_connection(
    monkeypatch: pytest.MonkeyPatch, as_text: bool
) -> None:
    variables = {"STORAGE_EMULATOR_HOST": "http://host.docker.internal:9023", "N": 1}
    extra = {"project": "p-1", "container_env": json.dumps(variables) if as_text else variables}
    set_connection(monkeypatch, "training_default", extra=extra)

    assert training_environment("training_default") == {
        "GOOGLE_CLOUD_PROJECT": "p-1",
        "STORAGE_EMULATOR_HOST": "http://host.docker.internal:9023",
        "N": "1",
    }


def test_without_a_training_connection_there_is_no_environment() -> None:
    assert training_environment("not_defined") == {}


@pytest.mark.parametrize("container_env", ["{", "[1]", {"A": {"B": 1}}])
def test_an_environment_that_is_no_flat_object_is_refused(
    monkeypatch: pytest.MonkeyPatch, container_env: object
) -> None:
    set_connection(monkeypatch, "training_default", extra={"container_env": container_env})

    with pytest.raises(InvalidJobSpec, match=r"extra\.container_env"):
        training_environment("training_default")


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("digits", "registry.example/demo/digits"),
        ("team/digits:1", "registry.example/demo/team/digits:1"),
        (f"digits@sha256:{'a' * 64}", f"registry.example/demo/digits@sha256:{'a' * 64}"),
        ("other.example/digits", "other.example/digits"),
        ("localhost/framework", "localhost/framework"),
        ("127.0.0.1:5000/demo/digits:1", "127.0.0.1:5000/demo/digits:1"),
    ],
)
def test_a_short_name_is_one_below_the_connections_prefix(
    image: str, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_connection(monkeypatch, "trainings", extra={"image_prefix": "registry.example/demo/"})

    assert full_image_name(image, "trainings") == full


@pytest.mark.parametrize("extra", [{}, {"image_prefix": ""}, None])
def test_a_short_name_without_a_prefix_is_refused(
    extra: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if extra is not None:
        set_connection(monkeypatch, "trainings", extra=extra)

    with pytest.raises(
        InvalidImageRef, match=r"'digits' .*'trainings' has no extra\.image_prefix .*; set that"
    ):
        full_image_name("digits", "trainings")
    assert full_image_name("h.example/digits", "trainings") == "h.example/digits"


@pytest.mark.parametrize(
    ("dockerfile", "given", "expected"),
    [
        ("ARG BASE_IMAGE=python:3.11\nFROM ${BASE_IMAGE}\n", None, {"BASE_IMAGE": "own:1"}),
        ("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n", {"A": "1"}, {"A": "1", "BASE_IMAGE": "own:1"}),
        ("ARG BASE_IMAGE=b\nFROM ${BASE_IMAGE}\n", {"BASE_IMAGE": "mine:2"}, {"BASE_IMAGE": "mine:2"}),
        ("ARG BASE_IMAGE=b\nFROM ${BASE_IMAGE}\n", {"BASE_IMAGE": ""}, {}),
        ("FROM python:3.11\n# ARG BASE_IMAGE\n", None, {}),
    ],
)
def test_a_dockerfile_that_asks_for_a_base_image_gets_the_connections(
    dockerfile: str,
    given: dict[str, str] | None,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_connection(monkeypatch, "trainings", extra={"base_image": "own:1"})
    (tmp_path / "Dockerfile").write_text(dockerfile)

    context = open_build_context(
        tmp_path, dockerfile="Dockerfile", build_args=given, training_conn_id="trainings"
    )

    assert context.build_args == expected


def test_without_a_connection_the_dockerfiles_own_base_image_counts(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE_IMAGE=b\nFROM ${BASE_IMAGE}\n")

    context = open_build_context(
        tmp_path, dockerfile="Dockerfile", build_args=None, training_conn_id="not_defined"
    )

    assert context.build_args == {}
