"""gcloud does what ``migrate`` assumes: its flags, and the requests that it sends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from container_training.work.migration.gcloud_command import FLAGS
from container_training.work.migration.shell_text import read_shell_text
from tests.conformance.gcloud import CALL_TIMEOUT_SECONDS
from tests.support.gcloud_commands import CASES
from tests.support.speed import scaled

RUNNER = Path(__file__).with_name("many_gcloud_commands.py")


class Recorder(ThreadingHTTPServer):
    """Answers every create request with the job, and keeps the bodies."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        answer = json.dumps({**body, "state": "QUEUED"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run_all(
    commands: Sequence[Sequence[str]], folder: Path, endpoint: str = "http://127.0.0.1:9"
) -> list[tuple[int, str]]:
    """Return status and output of each command."""
    sdk = Path(shutil.which("gcloud") or "").resolve().parents[1]
    bundled = sdk / "platform" / "bundledpythonunix" / "bin" / "python3"
    done = subprocess.run(
        [bundled if bundled.exists() else sys.executable, "-S", "-c", RUNNER.read_text()],
        cwd=folder,
        env={
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(sdk / "lib"),
            "CLOUDSDK_CONFIG": str(folder / "gcloud"),
            "CLOUDSDK_CORE_PROJECT": "demo",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{endpoint}/",
        },
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=scaled(CALL_TIMEOUT_SECONDS),
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n")
    *parts, _ = re.split(r"^::(\d+)$", done.stdout, flags=re.MULTILINE)
    assert len(parts) == 2 * len(commands)
    return [(int(status), output) for output, status in zip(parts[::2], parts[1::2], strict=True)]


def test_gcloud_sends_what_the_table_says(recorder: Recorder, tmp_path: Path) -> None:
    commands = []
    for case in CASES:
        shell = read_shell_text(case.command)
        values = {
            part: case.environment.get(part.name) or [*case.params.values()][place]
            for place, part in enumerate(shell.parts)
            if case.environment or case.params
        }
        (_, *words), *_ = shell.statements
        commands.append([shell.replaced(word, values) for word in words])
        if case.config is not None:
            config = tmp_path / f"{case.name}.yaml"
            config.write_text(case.config)
            commands[-1] = [word.replace("config.yaml", config.name) for word in commands[-1]]

    results = run_all(commands, tmp_path, f"http://127.0.0.1:{recorder.server_port}")

    assert [(case.name, status) for case, (status, _) in zip(CASES, results, strict=True) if status] == []
    for case, body in zip(CASES, recorder.bodies, strict=True):
        # gcloud always says so; for the API it is the default.
        if body["trainingInput"].get("enableWebAccess") is False:
            del body["trainingInput"]["enableWebAccess"]
        labels = {"labels": case.labels} if case.labels else {}
        wanted = {"jobId": case.job, "trainingInput": case.training, **labels}
        assert body == wanted, case.name


def test_the_flags_are_those_of_gcloud(tmp_path: Path) -> None:
    command = ["ai-platform", "jobs", "submit", "training", "--help"]

    pages = [output for _, output in run_all([command, ["beta", *command]], tmp_path)]

    found = set()
    for page in pages:
        plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", page)
        (synopsis,) = re.findall(r"^SYNOPSIS$(.*?)^DESCRIPTION$", plain, re.DOTALL | re.MULTILINE)
        (wide,) = re.findall(r"^GCLOUD WIDE FLAGS$(.*?)^NOTES$", plain, re.DOTALL | re.MULTILINE)
        found |= set(re.findall(r"--([a-z][a-z-]*[a-z])", synopsis + wide))
    assert set(FLAGS) == found
