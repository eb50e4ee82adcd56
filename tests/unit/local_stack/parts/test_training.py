"""The training service as a part: where it listens, and what it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from local_stack.errors import PartFailed
from local_stack.parts import training
from local_stack.parts.agent_image import agent_image
from local_stack.parts.own_image import OwnImage
from local_stack.parts.runtime_image import runtime_image
from local_stack.parts.training import Training
from tests.support.fakes.stack_workshop import FakeEngine, make_workshop, said

BASE = "registry.test/python:1"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(training, "connect", lambda url, **_: engine)
    monkeypatch.setattr(training, "find_gateway", lambda url: "172.17.0.1")
    monkeypatch.setattr(training, "find_program", lambda name: Path("/usr/sbin", name))
    return engine


def make_part(folder: Path, **settings: Any) -> Training:
    return Training(make_workshop(folder, **{"base_image": BASE, "training_port": 8999} | settings))


def environment_of(part: Training) -> dict[str, str]:
    (program,) = part.programs()
    return dict(program.environment)


def test_preparing_makes_the_runtime_image_once(engine: FakeEngine, tmp_path: Path) -> None:
    part = make_part(tmp_path)

    part.prepare()
    part.prepare()

    assert engine.acts == [f"build from {BASE}: {runtime_image(BASE).name}"]
    assert engine.is_closed


def test_jobs_of_containers_go_on_without_the_runtime_image(engine: FakeEngine, tmp_path: Path) -> None:
    engine.refuses = docker.errors.APIError("no network")
    part = make_part(tmp_path)

    part.prepare()

    assert any("jobs of packages will fail" in line for line in said(part.progress))


def test_the_service_of_a_stack_from_before_is_started_again_when_a_principal_is_new(
    engine: FakeEngine, tmp_path: Path
) -> None:
    part = make_part(tmp_path)
    (now,) = part.programs()
    (again,) = part.programs()
    part.settings.airflow_token_file.unlink()
    (other,) = part.programs()

    assert now == again
    assert now != other


def test_what_closes_the_networks_of_jobs_is_installed_or_said_to_be_missing(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "find_program", lambda name: None)
    part = make_part(tmp_path, install_packages=False)

    part.prepare()

    (line,) = [line for line in said(part.progress) if "nftables" in line]
    assert "jobs reach this machine" in line


def test_the_service_is_told_where_everything_is(engine: FakeEngine, tmp_path: Path) -> None:
    environment = environment_of(make_part(tmp_path, require_auth=True, object_store_port=9123))

    assert (
        environment.items()
        >= {
            "TRAINING_HOST": "127.0.0.1",
            "TRAINING_PORT": "8999",
            "TRAINING_DATABASE_URL": f"sqlite:///{tmp_path}/training/jobs.db",
            "TRAINING_REQUIRE_AUTH": "true",
            "TRAINING_STORAGE_ENDPOINT": "http://127.0.0.1:9123",
            "TRAINING_METADATA_HOST": "172.17.0.1",
            "DOCKER_HOST": "unix:///absent.sock",
        }.items()
    )
    in_containers = json.loads(environment["TRAINING_CONTAINER_ENV"])
    assert in_containers == {
        "STORAGE_EMULATOR_HOST": "http://host.docker.internal:9123",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA": "true",
    }
    assert set(json.loads(environment["TRAINING_RUNTIME_IMAGES"]).values()) == {runtime_image(BASE).name}
    aliases = json.loads(environment["TRAINING_IMAGE_ALIASES"])
    assert aliases["us-docker.pkg.dev/vertex-ai/*"] == runtime_image(BASE).name


def test_clients_of_vertex_ai_are_let_in_where_the_stack_says(engine: FakeEngine, tmp_path: Path) -> None:
    part = make_part(tmp_path, grpc_port=8901, vertex_proxy_port=8902)

    assert {each.setting: each.port for each in part.listeners()}.items() >= {
        "LOCAL_STACK_GRPC_PORT": 8901,
        "LOCAL_STACK_VERTEX_PROXY_PORT": 8902,
    }.items()
    environment = environment_of(part)
    assert environment["TRAINING_GRPC_PORT"] == "8901"
    assert environment["TRAINING_VERTEX_PROXY_PORT"] == "8902"
    told = part.settings.vertex_environment
    assert told["grpc_proxy"] == "http://127.0.0.1:8902"
    assert (
        told["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] == f"{environment['TRAINING_CERTIFICATES_DIR']}/bundle.pem"
    )


def test_a_setting_of_ones_own_wins(engine: FakeEngine, tmp_path: Path) -> None:
    part = make_part(tmp_path, training_environment={"TRAINING_METADATA_PORT": "1", "TRAINING_X": "y"})

    assert environment_of(part).items() >= {"TRAINING_METADATA_PORT": "1", "TRAINING_X": "y"}.items()


def test_the_metadata_of_jobs_is_on_the_bridge_where_there_is_one(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = make_part(tmp_path, metadata_port=8777)

    own = [("127.0.0.1", 8999), ("127.0.0.1", 8472), ("127.0.0.1", 8473)]
    assert [(each.host, each.port) for each in part.listeners()] == [*own, ("172.17.0.1", 8777)]

    monkeypatch.setattr(training, "find_gateway", lambda url: None)
    assert [(each.host, each.port) for each in part.listeners()] == own
    assert environment_of(part)["TRAINING_METADATA_HOST"] == ""


@pytest.mark.parametrize(("port", "listened_to"), [(9472, [9472]), (0, [])])
def test_grpc_has_a_port_of_its_own_or_none(
    engine: FakeEngine, tmp_path: Path, port: int, listened_to: list[int]
) -> None:
    part = make_part(tmp_path, grpc_port=port)

    assert environment_of(part)["TRAINING_GRPC_PORT"] == str(port)
    assert [each.port for each in part.listeners() if each.setting == "LOCAL_STACK_GRPC_PORT"] == listened_to


def test_with_other_machines_the_service_runs_jobs_on_the_swarm_and_listens_no_further(
    engine: FakeEngine, tmp_path: Path
) -> None:
    part = make_part(tmp_path, require_auth=True, advertise_address="10.0.0.5")
    environment = environment_of(part)

    assert (
        environment.items()
        >= {
            "TRAINING_HOST": "127.0.0.1",
            "TRAINING_ENGINE": "swarm",
            "TRAINING_REQUIRE_AUTH": "true",
            "TRAINING_REGISTRY": "10.0.0.5:5000",
            "TRAINING_ALLOWED_HOSTS": '["10.0.0.5"]',
            # A container cannot be told by its address, so none gets a token by it.
            "TRAINING_METADATA_HOST": "",
            "SSL_CERT_FILE": str(tmp_path / "machines" / "bundle.pem"),
        }.items()
    )
    assert {each.host for each in part.listeners()} == {"127.0.0.1"}


@pytest.mark.parametrize("is_refused", [False, True])
def test_with_other_machines_the_runtime_image_is_pushed_or_that_is_said(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    pushed: list[str] = []

    def push(_: OwnImage, client: FakeEngine, name: str, login: dict[str, str]) -> None:
        pushed.append(name)
        if is_refused:
            raise PartFailed("docker push", "failed")

    monkeypatch.setattr(OwnImage, "push", push)
    part = make_part(tmp_path, require_auth=True, advertise_address="10.0.0.5")
    named = set(json.loads(environment_of(part)["TRAINING_RUNTIME_IMAGES"]).values())

    part.complete()

    assert set(pushed) == named
    assert ["jobs of packages will fail" in line for line in said(part.progress)] == [True] * is_refused
    assert engine.is_closed


def test_on_one_machine_nothing_is_pushed(engine: FakeEngine, tmp_path: Path) -> None:
    make_part(tmp_path).complete()

    assert engine.acts == []


AGENT_SETTINGS = (
    "TRAINING_AGENT_IMAGE",
    "TRAINING_AGENT_URL",
    "TRAINING_AGENT_AUTHORITY",
    "TRAINING_AGENT_FOLDER",
)


def make_advertised(folder: Path, **told: str) -> Training:
    """Return the part of a stack with other machines, whose authority is there."""
    told = {"TRAINING_AGENT_FOLDER": str(folder / "metrics" / "of-agents"), **told}
    part = make_part(folder, require_auth=True, advertise_address="10.0.0.5", training_environment=told)
    part.settings.machines_dir.mkdir()
    part.settings.authority_file.write_text("PEM")
    return part


def test_with_other_machines_agents_have_an_image_a_folder_and_a_way_to_the_service(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = agent_image(BASE)
    name = image.pushed_name("10.0.0.5:5000/demo-project")
    pushed: list[tuple[str, object]] = []

    def push(_: OwnImage, client: FakeEngine, name: str, login: dict[str, str]) -> str:
        pushed.append((name, login))
        return "by-digest"

    monkeypatch.setattr(OwnImage, "push", push)
    monkeypatch.setattr(training, "stacks_registry_login", lambda settings, name: {"login for": name})
    part = make_advertised(tmp_path)

    part.prepare()
    told = environment_of(part)

    folder = tmp_path / "metrics" / "of-agents"
    assert f"build from {BASE}: {image.name}" in engine.acts
    assert [told[name] for name in AGENT_SETTINGS] == [
        "by-digest",
        "https://10.0.0.5:8474",
        str(tmp_path / "machines" / "authority.pem"),
        str(folder),
    ]
    assert folder.stat().st_mode & 0o777 == 0o700
    # Before the service starts, so that its agents find it.
    assert pushed == [(name, {"login for": name})]


def test_where_the_agents_image_cannot_be_built_the_stack_goes_on_without_agents(
    engine: FakeEngine, tmp_path: Path
) -> None:
    engine.present.add(runtime_image(BASE).name)
    engine.refuses = docker.errors.APIError("no index of packages")
    part = make_advertised(tmp_path)

    part.prepare()

    (line,) = [line for line in said(part.progress) if "no index of packages" in line]
    assert "tuning jobs will be refused" in line
    assert "TRAINING_AGENT_IMAGE" not in environment_of(part)


def test_an_image_of_ones_own_for_agents_is_not_built(engine: FakeEngine, tmp_path: Path) -> None:
    part = make_advertised(tmp_path, TRAINING_AGENT_IMAGE="")

    part.prepare()

    assert not [act for act in engine.acts if "agent" in act]
    told = environment_of(part)
    assert (told["TRAINING_AGENT_IMAGE"], "TRAINING_AGENT_URL" in told) == ("", False)


def test_on_one_machine_there_are_no_agents(engine: FakeEngine, tmp_path: Path) -> None:
    part = make_part(tmp_path)

    part.prepare()

    assert not set(AGENT_SETTINGS) & set(environment_of(part))
