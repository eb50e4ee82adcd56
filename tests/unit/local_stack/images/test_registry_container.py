"""The registry's image in the foreground: removed before it starts, and however it ends."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from local_stack.images import registry_container
from local_stack.images.registry_container import main, run

AUTH = {
    "realm": "http://127.0.0.1:8470/registry/token",
    "service": "registry",
    "issuer": "training",
    "rootcertbundle": "/state/certificate.pem",
}


class Container:
    """Stands for a container that prints two lines and ends, or is stopped while it prints."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name

    def logs(self, *, stream: bool, follow: bool) -> Iterator[bytes]:
        assert stream
        assert follow
        yield b"listening\n"
        if self._engine.is_stopped_meanwhile:
            signal.raise_signal(signal.SIGTERM)
        yield b"bye\n"

    def wait(self) -> dict[str, int]:
        return {"StatusCode": 3}

    def remove(self, *, force: bool) -> None:
        assert force
        if self._name not in self._engine.names:
            raise docker.errors.NotFound(self._name)
        self._engine.names.remove(self._name)


class Engine:
    """Stands for the engine: the names of its containers, and how the last one was started."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.started: dict[str, Any] = {}
        self.is_stopped_meanwhile = False
        self.containers = SimpleNamespace(get=self._get, run=self._run)

    def _get(self, name: str) -> Container:
        if name not in self.names:
            raise docker.errors.NotFound(name)
        return Container(self, name)

    def _run(self, image: str, **options: Any) -> Container:
        assert options["name"] not in self.names, "the name is taken"
        self.started = {"image": image, **options}
        self.names.append(options["name"])
        return Container(self, options["name"])


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    engine = Engine()
    monkeypatch.setattr(registry_container.docker, "DockerClient", lambda base_url: engine)
    before = signal.getsignal(signal.SIGTERM)
    yield engine
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "registry.yml"
    path.write_text(json.dumps({"auth": {"token": AUTH}, "http": {"addr": "127.0.0.1:5999"}}))
    return path


def test_the_registry_listens_on_loopback_and_wants_the_tokens_of_the_configuration(
    engine: Engine, config: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("unix:///e.sock", "registry:2", "127.0.0.1", 5999, "/state/registry", config) == 3

    assert engine.started["ports"] == {"5000/tcp": ("127.0.0.1", 5999)}
    assert engine.started["volumes"]["/state/registry"]["mode"] == "rw"
    assert engine.started["volumes"][AUTH["rootcertbundle"]]["mode"] == "ro"
    assert engine.started["environment"]["REGISTRY_AUTH_TOKEN_REALM"] == AUTH["realm"]
    assert capfdbinary.readouterr().out == b"listening\nbye\n"
    assert engine.names == []


def test_what_a_killed_process_left_behind_is_removed_first(engine: Engine, config: Path) -> None:
    engine.names = ["local-stack-registry-5999", "local-stack-registry-6000"]

    run("unix:///e.sock", "registry:2", "127.0.0.1", 5999, "/data", config)

    assert engine.names == ["local-stack-registry-6000"]


def test_a_registry_that_is_asked_to_end_leaves_no_container(engine: Engine, config: Path) -> None:
    engine.is_stopped_meanwhile = True

    with pytest.raises(SystemExit):
        run("unix:///e.sock", "registry:2", "127.0.0.1", 5999, "/data", config)

    assert engine.names == []


def test_the_command_line_is_what_the_stack_starts(
    engine: Engine, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [
        "--engine=unix:///e.sock",
        "--image=registry:2.8",
        "--port=5999",
        "--data=/d",
        f"--config={config}",
    ]
    monkeypatch.setattr(sys, "argv", ["registry_container", *options])

    assert main() == 3
    assert (engine.started["image"], engine.started["name"]) == ("registry:2.8", "local-stack-registry-5999")


def test_where_other_machines_take_part_the_container_has_tls_at_their_address(
    engine: Engine, tmp_path: Path
) -> None:
    config = tmp_path / "registry.yml"
    tls = {"certificate": "/state/certificate.pem", "key": "/state/key.pem"}
    config.write_text(json.dumps({"auth": {"token": AUTH}, "http": {"addr": "10.0.0.5:5999", "tls": tls}}))

    run("unix:///e.sock", "registry:2", "10.0.0.5", 5999, "/data", config)

    assert engine.started["ports"] == {"5000/tcp": ("10.0.0.5", 5999)}
    inside = {name: engine.started["environment"][f"REGISTRY_HTTP_TLS_{name.upper()}"] for name in tls}
    assert (
        engine.started["volumes"].items()
        >= {tls[name]: {"bind": path, "mode": "ro"} for name, path in inside.items()}.items()
    )
