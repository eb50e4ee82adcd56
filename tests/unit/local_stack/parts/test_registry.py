"""The registry as a part: the program from Debian, or else its image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_stack.errors import PackagesMissing
from local_stack.parts import registry
from local_stack.parts.registry import Registry, ensure_registry_program
from local_stack.processes.packages import PackageInstaller
from tests.support.fakes.stack_workshop import make_workshop, said


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has no registry of its own, and the service has its key."""
    monkeypatch.setattr(registry, "find_program", lambda name: None)
    monkeypatch.setattr(registry, "registry_auth", lambda settings: {"token": {"service": "registry"}})


def put_program(tools: Path) -> Path:
    program = tools / "docker-registry" / "usr" / "bin" / "docker-registry"
    program.parent.mkdir(parents=True)
    program.touch()
    return program


def test_the_program_that_was_unpacked_is_run_with_the_stacks_configuration(tmp_path: Path) -> None:
    part = Registry(make_workshop(tmp_path, tools_dir=tmp_path / "tools", registry_port=5999))
    binary = put_program(tmp_path / "tools")

    part.prepare()
    (program,) = part.programs()

    assert program.command == (str(binary), "serve", str(tmp_path / "registry.yml"))
    written = json.loads((tmp_path / "registry.yml").read_text())
    assert written["http"]["addr"] == part.address() == "127.0.0.1:5999"
    assert written["storage"]["filesystem"]["rootdirectory"] == str(tmp_path / "registry")
    assert written["storage"]["delete"]["enabled"] is True
    assert written["auth"] == {"token": {"service": "registry"}}


def test_without_the_program_the_image_is_run_and_has_time_to_stop(tmp_path: Path) -> None:
    part = Registry(make_workshop(tmp_path, tools_dir=tmp_path / "tools", registry_image="registry:2.8"))

    part.prepare()
    (program,) = part.programs()

    assert {"--image=registry:2.8", f"--data={tmp_path}/registry", "--engine=unix:///absent.sock"} <= set(
        program.command
    )
    assert program.stop_wait_seconds > 10


def test_a_program_that_is_there_is_not_unpacked_again(tmp_path: Path) -> None:
    workshop = make_workshop(tmp_path, tools_dir=tmp_path / "tools")
    program = put_program(tmp_path / "tools")

    assert ensure_registry_program(workshop.settings, workshop.packages) == program


@pytest.mark.parametrize("is_had", [True, False])
def test_the_program_is_unpacked_where_that_is_possible_and_else_the_image_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_had: bool
) -> None:
    workshop = make_workshop(tmp_path, tools_dir=tmp_path / "tools")

    def unpack(installer: PackageInstaller, package: str, into: Path) -> None:
        assert (package, into) == ("docker-registry", tmp_path / "tools" / "docker-registry")
        if not is_had:
            raise PackagesMissing("no network")
        put_program(tmp_path / "tools")

    monkeypatch.setattr(PackageInstaller, "refusal", lambda installer: None)
    monkeypatch.setattr(PackageInstaller, "unpack", unpack)

    found = ensure_registry_program(workshop.settings, workshop.packages)

    assert (found is not None) is is_had
    image = workshop.settings.registry_image
    assert said(workshop.progress) == ([] if is_had else [f"no network; using the image {image} instead"])


def test_with_other_machines_the_registry_has_tls_and_starts_again_with_a_renewed_certificate(
    tmp_path: Path,
) -> None:
    workshop = make_workshop(
        tmp_path, tools_dir=tmp_path / "tools", require_auth=True, advertise_address="10.0.0.5"
    )
    part, certificate = Registry(workshop), tmp_path / "machines" / "certificate.pem"
    put_program(tmp_path / "tools")
    certificate.parent.mkdir()
    certificate.write_text("one")

    part.prepare()
    (before,), (same,) = part.programs(), part.programs()
    certificate.write_text("two")
    (after,) = part.programs()

    http = json.loads((tmp_path / "registry.yml").read_text())["http"]
    assert http == {
        "addr": "10.0.0.5:5000",
        "tls": {"certificate": str(certificate), "key": str(certificate.with_name("key.pem"))},
    }
    assert [each.host for each in part.listeners()] == ["10.0.0.5"]
    assert before == same != after
