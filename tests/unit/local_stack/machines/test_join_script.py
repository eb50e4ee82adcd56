"""What another machine runs: checks first, and nothing that is fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from local_stack.machines.join_script import JoinCommand

PEM = "-----BEGIN CERTIFICATE-----\nMIIB+/=\n-----END CERTIFICATE-----\n"


def make_command(**changes: object) -> JoinCommand:
    told = {
        "address": "127.0.0.1",
        "gate_url": "https://127.0.0.1:1",
        "registry": "127.0.0.1:1",
        "ports": (1,),
        "authority": PEM,
        "token": "a-token",
        "agent_folder": "/var/lib/agents of mine",
    }
    return JoinCommand(**(told | changes))  # type: ignore[arg-type]


def run(script: str, folder: Path, **environment: str) -> tuple[int, str]:
    told = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), **environment}
    done = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True, env=told)
    return done.returncode, done.stderr


def test_the_script_is_one_that_a_shell_reads() -> None:
    script = make_command().script()

    done = subprocess.run(["sh", "-n"], input=script, text=True, check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert script.startswith("sh <<'JOIN'\n")
    assert script.endswith("\nJOIN")
    assert PEM.strip() in script
    assert "ports='1 2377 7946'" in script
    assert "metrics='/var/lib/agents of mine'" in script


def test_what_is_no_certificate_cannot_become_a_command() -> None:
    with pytest.raises(ValueError, match="must be PEM"):
        make_command(authority="'; rm -rf /; '").script()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the script asks for it")
def test_without_an_engine_nothing_is_changed(tmp_path: Path) -> None:
    certificates = tmp_path / "certs.d"
    script = make_command(certificates=str(certificates)).script()

    status, said = run(script, tmp_path, DOCKER_HOST=f"unix://{tmp_path}/absent.sock")

    assert status == 1
    assert f"no Docker Engine answers at {tmp_path}/absent.sock" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the script asks for it")
@pytest.mark.parametrize(
    ("api", "says"), [("1.40", "must be 20.10 or newer"), ("2.0", "API must be 1.41"), ("", "got ''")]
)
def test_an_engine_that_is_too_old_is_refused(tmp_path: Path, api: str, says: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "curl"
    fake.write_text(f"""#!/bin/sh\necho '{{"Version":"19","ApiVersion":"{api}"}}'\n""")
    fake.chmod(0o755)
    path = f"{programs}:{Path(shutil.which('sh') or '/bin/sh').parent}:{os.environ['PATH']}"

    status, said = run(make_command().script(), tmp_path, PATH=path)

    assert status == 1
    assert says in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the script asks for it")
def test_an_engine_on_another_machine_is_refused(tmp_path: Path) -> None:
    status, said = run(make_command().script(), tmp_path, DOCKER_HOST="tcp://10.0.0.9:2375")

    assert status == 1
    assert "must be at a unix socket of this machine, got DOCKER_HOST=tcp://10.0.0.9:2375" in said
