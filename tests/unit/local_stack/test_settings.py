import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from container_training.work.images.dockerfile import base_images
from local_stack.errors import LocalStackError
from local_stack.settings import REPOSITORY_ROOT, Backend, StackSettings


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "BACKEND",
        "LOCAL_STACK_BACKEND",
        "DOCKER_HOST",
        "LOCAL_STACK_DOCKER_HOST",
        "LOCAL_STACK_STATE_DIR",
        "LOCAL_STACK_TRAINING_PORT",
    ):
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_those_of_the_design() -> None:
    settings = StackSettings()

    assert settings.state_dir == REPOSITORY_ROOT / ".local"
    assert settings.registry == "127.0.0.1:5000"
    assert settings.image_prefix == "127.0.0.1:5000/demo-project"
    assert settings.object_store_url == "http://127.0.0.1:9023"
    assert settings.training_url == "http://127.0.0.1:8470"
    assert settings.airflow_url == "http://127.0.0.1:8080"
    assert settings.job_bucket == "gs://demo-bucket/jobs"
    assert settings.engine_url == "unix:///var/run/docker.sock"


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_STACK_TRAINING_PORT", "1234")

    assert StackSettings().training_port == 1234
    assert StackSettings(training_port=4321).training_port == 4321


def test_the_engine_is_the_one_of_docker_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")

    assert StackSettings().engine_url == "tcp://127.0.0.1:2375"


@pytest.mark.parametrize("name", ["BACKEND", "LOCAL_STACK_BACKEND"])
def test_make_names_the_api_by_which_the_service_is_asked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert StackSettings().backend is Backend.ML_V1

    monkeypatch.setenv(name, "vertex")

    assert StackSettings().backend is Backend.VERTEX


def test_a_state_folder_too_long_for_a_socket_is_refused_with_the_way_out() -> None:
    with pytest.raises(LocalStackError, match=r"at most 100 bytes, got \d+: .*LOCAL_STACK_STATE_DIR"):
        StackSettings(state_dir=Path("/") / ("d" * 100))


def test_a_state_folder_that_supervisord_would_misread_is_refused() -> None:
    with pytest.raises(LocalStackError, match="must not have a '%' in its path"):
        StackSettings(state_dir=Path("/tmp/100%"))


def test_two_parts_cannot_share_a_port() -> None:
    with pytest.raises(LocalStackError, match="training_port and registry_port must differ, got 5000"):
        StackSettings(training_port=5000)


@pytest.mark.parametrize("port", [0, 65536, -1])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ValidationError):
        StackSettings(registry_port=port)


def test_images_of_others_are_named_by_digest() -> None:
    defaults = {name: str(one.default) for name, one in StackSettings.model_fields.items()}
    named = {defaults["public_base_image"], defaults["registry_image"]}
    for path in REPOSITORY_ROOT.glob("docker/**/Dockerfile*"):
        named.update(base_images(path.read_text("utf-8"), {}))

    foreign = {image for image in named if not image.startswith("localhost/")}

    assert all(re.search("@sha256:[0-9a-f]{64}$", image) for image in foreign), foreign
    # Each is named everywhere by the same digest.
    assert len({image.partition("@")[0] for image in foreign}) == len(foreign)


def test_by_default_nothing_is_for_other_machines() -> None:
    settings = StackSettings()

    assert not settings.is_advertised
    assert settings.registry_url == "http://127.0.0.1:5000"
    assert settings.authorities_environment == {}


def test_an_advertised_address_is_in_the_names_of_images_and_in_what_containers_are_told() -> None:
    settings = StackSettings.model_validate({"advertise_address": "10.0.0.5", "require_auth": True})

    assert settings.image_prefix == "10.0.0.5:5000/demo-project"
    assert settings.registry_url == "https://10.0.0.5:5000"
    assert settings.gate_url == "https://10.0.0.5:8474"
    assert settings.container_environment["STORAGE_EMULATOR_HOST"] == "http://10.0.0.5:9023"
    assert set(settings.authorities_environment.values()) == {str(settings.authorities_bundle)}
    # What this machine's own programs use stays on loopback.
    assert settings.training_url == "http://127.0.0.1:8470"
    assert settings.object_store_url == "http://127.0.0.1:9023"


@pytest.mark.parametrize(
    "told",
    [{}, {"require_auth": True, "training_environment": {"TRAINING_REQUIRE_AUTH": "False"}}],
)
def test_what_other_machines_reach_wants_tokens(told: dict[str, Any]) -> None:
    with pytest.raises(
        LocalStackError, match=r"=10\.0\.0\.5 needs LOCAL_STACK_REQUIRE_AUTH=true, .*run code here"
    ):
        StackSettings.model_validate({"advertise_address": "10.0.0.5", **told})


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"])  # noqa: S104  # refused
def test_an_address_that_no_other_machine_reaches_is_refused(address: str) -> None:
    with pytest.raises(LocalStackError, match="that other machines reach, got"):
        StackSettings.model_validate({"advertise_address": address, "require_auth": True})
