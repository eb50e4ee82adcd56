"""What docker/compose.yaml is told, and its secrets; no engine, no container."""

from __future__ import annotations

import io
import json
import re
import subprocess
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from local_stack import production
from local_stack.errors import EngineMissing, PackagesMissing
from local_stack.parts.airflow import MAX_OVERFLOW
from local_stack.parts.own_image import OwnImage
from local_stack.people import credentials
from local_stack.production import Production
from local_stack.settings import REPOSITORY_ROOT, StackSettings
from local_stack.stack import LocalStack
from training_service.cli.parser import main as service_command

FOLDER = REPOSITORY_ROOT / "docker"


def run_here(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """Run the service's command in this process: a start takes seconds; others test it."""
    output = io.StringIO()
    with redirect_stdout(output):
        status = service_command(command[command.index("training_service") + 1 :])
    return subprocess.CompletedProcess(command, status, stdout=output.getvalue(), stderr="")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Production:
    """A stack whose secrets and variables were made."""
    monkeypatch.setattr(LocalStack, "up", lambda *_: None)
    monkeypatch.setattr(production, "_ROOTS_METRICS", tmp_path / "roots")
    monkeypatch.setattr(production, "find_gateway", lambda _: "172.17.0.1")
    monkeypatch.setattr(OwnImage, "ensure", lambda *_: None)
    monkeypatch.setattr(production, "connect", lambda *_, **__: ExitStack())
    monkeypatch.setattr(credentials, "subprocess", SimpleNamespace(run=run_here))
    (tmp_path / "engine.sock").touch()
    settings = StackSettings(
        state_dir=tmp_path, base_image="base:1", docker_host=f"unix://{tmp_path / 'engine.sock'}"
    )
    stack = Production(LocalStack(settings))
    stack.prepare()
    return stack


def secrets_of(stack: Production) -> dict[str, str]:
    folder = stack.settings.state_dir / "secrets"
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def test_secrets_are_made_once_for_their_owner_alone(made: Production) -> None:
    before = secrets_of(made)
    made.prepare()

    assert secrets_of(made) == before
    for path in (made.settings.state_dir / "secrets").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert made.settings.state_dir.stat().st_mode & 0o077 == 0


def test_each_file_and_variable_that_compose_wants_is_there(made: Production) -> None:
    text = (FOLDER / "compose.yaml").read_text("utf-8")
    given = (made.settings.state_dir / "compose.env").read_text("utf-8")

    wanted = set(re.findall(r"\$\{STACK_DIR\}/secrets/([a-z-]+)", text))
    assert wanted
    assert wanted <= set(secrets_of(made))
    without_default = set(re.findall(r"\$\{([A-Z_]+)(?:\}|:\?)", text))
    assert without_default - set(re.findall(r"^([A-Z_]+)=", given, re.MULTILINE)) == set()


def test_airflow_finds_the_services_by_the_names_of_compose(made: Production) -> None:
    connections = json.loads(secrets_of(made)["airflow-connections"])

    training = connections["training_default"]
    assert (training["host"], training["port"]) == ("training", 8470)
    assert training["password"]
    own = connections["airflow_api_default"]
    assert (own["host"], own["port"]) == ("api-server", 8080)


def test_an_engine_elsewhere_is_refused(made: Production, tmp_path: Path) -> None:
    settings = StackSettings(state_dir=tmp_path, base_image="base:1", docker_host="tcp://10.0.0.1:2376")

    with pytest.raises(EngineMissing, match=r"at a unix socket, got 'tcp://10\.0\.0\.1:2376'"):
        Production(LocalStack(settings)).prepare()


def test_without_compose_the_missing_plugin_is_named(
    made: Production, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(production, "_runs", lambda _: False)
    settings = StackSettings(
        state_dir=tmp_path, tools_dir=tmp_path, base_image="base:1", install_packages=False
    )

    with pytest.raises(PackagesMissing, match="docker-compose-plugin"):
        Production(LocalStack(settings)).down()


def test_metrics_go_with_the_volumes(
    made: Production, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "compose", lambda *_: None)
    folders = (made.settings.state_dir, tmp_path / "roots")
    metrics = [path for folder in folders if folder.exists() for path in folder.glob("metrics*")]
    assert len(metrics) == 1

    made.down()
    assert metrics[0].exists()
    made.down(volumes=True)
    assert not metrics[0].exists()


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]
    return found


def test_only_what_runs_containers_has_the_socket_of_the_engine() -> None:
    having = {name for name, each in services().items() if "DOCKER_SOCKET" in json.dumps(each)}

    assert having == {"training-a", "training-b", "worker"}


@pytest.mark.parametrize("name", sorted(services()))
def test_each_service_is_bounded_and_has_no_rights_to_spare(name: str) -> None:
    service = services()[name]

    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    is_job = service["restart"] in ("no", "on-failure")
    assert is_job or service["deploy"]["resources"]["limits"]["memory"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_airflow_has_as_many_connections_as_in_the_local_stack() -> None:
    having = [each["environment"] for each in services().values() if "airflow:" in each.get("image", "")]

    assert having
    for environment in having:
        assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW"] == MAX_OVERFLOW


def test_the_scripts_of_the_containers_are_python_and_sh() -> None:
    for path in (FOLDER / "compose").glob("*.py"):
        compile(path.read_text("utf-8"), path, "exec")
    subprocess.run(["sh", "-n", str(FOLDER / "compose" / "postgres.sh")], check=True)


def test_the_summary_says_where_all_is_and_names_files_that_are_there(
    made: Production, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_PORT", "9191")
    summary = made.summary()

    assert "http://127.0.0.1:8080, user admin" in summary
    assert "http://172.30.99.1:8470 or http://172.30.99.129:8470" in summary
    assert "http://127.0.0.1:9191" in summary
    assert f"http://127.0.0.1:{_default('GRAFANA_PORT')}, user admin" in summary
    named = re.findall(r" in (/\S+)", summary)
    assert len(named) == 4
    assert all(Path(path).exists() for path in named)


def _default(variable: str) -> str:
    """Return the default of a variable of docker/compose.yaml."""
    found = re.search(rf"\$\{{{variable}:-(\d+)\}}", (FOLDER / "compose.yaml").read_text("utf-8"))
    assert found
    return found[1]
