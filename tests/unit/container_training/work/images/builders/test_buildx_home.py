"""The folder of docker's command line for one build."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_training.work.images.builders.buildx_home import BuildxHome, buildx_home
from container_training.work.images.builders.docker_cli import find_buildx_cli
from container_training.work.images.builders.remote_builder import RemoteBuilder
from tests.support.certificates import write_certificates
from tests.support.fakes.docker_program import DockerProgram, put_on_path
from training_api.errors import BuildKitMissing

LOGINS = {
    "registry.example": {"username": "u", "password": "p"},
    "docker.io": {"Username": "hub", "Password": "secret"},
    "tokens.example": {"IdentityToken": "t", "ServerAddress": "tokens.example"},
    "not-asked.example": {"username": "x", "password": "y"},
}


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, with a login that no build may get."""
    folder = tmp_path / "users"
    (folder / "contexts").mkdir(parents=True)
    (folder / "config.json").write_text('{"auths": {"private.example": {"auth": "dTpw"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine.example:2376")
    monkeypatch.delenv("BUILDX_CONFIG", raising=False)
    return folder


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DockerProgram:
    return put_on_path(tmp_path / "bin", monkeypatch)


def open_home(builder: RemoteBuilder, *hosts: str) -> BuildxHome:
    with buildx_home(find_buildx_cli(), builder, hosts, lambda host: LOGINS.get(host, {})) as home:
        pass
    return home


def test_an_address_is_an_instance_in_a_folder_that_is_private_and_goes(
    tmp_path: Path, users: Path, program: DockerProgram
) -> None:
    certificates = tmp_path / "with, a comma"
    certificates.mkdir()
    write_certificates(certificates, "127.0.0.1")

    home = open_home(RemoteBuilder(url="tcp://builder:1234", cert_path=str(certificates)))

    (call,) = program.calls()
    folder = Path(home.environment["DOCKER_CONFIG"])
    assert call["arguments"] == [
        *("buildx", "create", "--name", "container-training", "--driver", "remote"),
        *("--driver-opt", f'"cacert={certificates}/ca.pem"'),
        *("--driver-opt", f'"cert={certificates}/cert.pem"'),
        *("--driver-opt", f'"key={certificates}/key.pem"'),
        "tcp://builder:1234",
    ]
    assert (home.builder, call["mode"]) == ("container-training", 0o700)
    assert call["environment"]["BUILDX_CONFIG"] == str(folder / "buildx")
    assert "DOCKER_HOST" not in call["environment"]
    assert call["configuration"]["cliPluginsExtraDirs"] == [f"{users}/cli-plugins"]
    assert not folder.exists()


def test_only_the_registries_of_the_build_have_their_logins_there(
    users: Path, program: DockerProgram
) -> None:
    open_home(
        RemoteBuilder(url="tcp://127.0.0.1:1"),
        *("registry.example", "docker.io", "tokens.example", "anonymous.example"),
    )

    assert program.calls()[0]["configuration"]["auths"] == {
        "registry.example": {"auth": "dTpw"},
        "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
        "tokens.example": {"identitytoken": "t"},
    }


def test_a_name_is_one_of_the_users_builders(users: Path, program: DockerProgram) -> None:
    home = open_home(RemoteBuilder(name="shared"), "registry.example")

    assert program.calls() == []
    assert home.builder == "shared"
    assert home.environment["BUILDX_CONFIG"] == str(users / "buildx")
    assert home.environment["DOCKER_CONFIG"] != str(users)
    assert home.environment["DOCKER_HOST"] == "tcp://engine.example:2376"


def test_a_builder_that_buildx_refuses_is_named(
    tmp_path: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch, then="sys.exit('ERROR: failed to find driver remote')")

    with pytest.raises(
        BuildKitMissing, match=r"cannot use the builder at tcp://127.*: ERROR: failed to find"
    ):
        open_home(RemoteBuilder(url="tcp://127.0.0.1:1"))


def test_a_command_line_that_is_gone_is_named(tmp_path: Path, users: Path) -> None:
    gone = str(tmp_path / "docker")

    with (
        pytest.raises(
            BuildKitMissing, match=r"cannot use the builder at tcp://127.*No such file.*; check that"
        ),
        buildx_home(gone, RemoteBuilder(url="tcp://127.0.0.1:1"), (), lambda host: {}),
    ):
        pass


def test_a_command_line_that_does_not_end_is_named(
    tmp_path: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch, then="import time; time.sleep(600)")
    monkeypatch.setattr("container_training.work.images.builders.buildx_home._SECONDS", 0.01)

    with pytest.raises(BuildKitMissing, match=r"cannot use the builder at tcp://127.*timed out"):
        open_home(RemoteBuilder(url="tcp://127.0.0.1:1"))
