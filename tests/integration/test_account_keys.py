"""Google's libraries with the key file of an account; the service wants tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials

from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.certificates import own_certificate
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from training_service.cli.parser import main

ACCOUNT = "airflow@demo-project.iam.gserviceaccount.com"
PARENT = "projects/demo-project/locations/us-central1"
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
#: What a user of the SDK writes, by either transport; it creates a job, and finds it.
OF_THE_SDK = """
import sys
from google.cloud import aiplatform
from google.oauth2.service_account import Credentials

transport, endpoint, key_file, image = sys.argv[1:]
aiplatform.init(
    project="demo-project",
    location="us-central1",
    api_endpoint=endpoint,
    api_transport=transport,
    credentials=Credentials.from_service_account_file(key_file, scopes=[
        "https://www.googleapis.com/auth/cloud-platform"
    ]),
    staging_bucket="gs://staging",
)
pool = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "container_spec": {"image_uri": image},
}
aiplatform.CustomJob(display_name=f"over {transport}", worker_pool_specs=[pool]).submit()
print("listed", [job.display_name for job in aiplatform.CustomJob.list()])
"""


@pytest.fixture
def ports() -> tuple[int, int]:
    return reserve_port(), reserve_port()


@pytest.fixture
def key_file(tmp_path: Path, ports: tuple[int, int]) -> Path:
    """Where the service's own command makes a key file."""
    return tmp_path / "key.json"


@pytest.fixture
def service(
    tmp_path: Path, ports: tuple[int, int], key_file: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[LiveService]:
    port, grpc_port = ports
    uri = f"http://127.0.0.1:{port}/token"
    for _ in range(2):  # the second call finds the file
        assert main(["account-key", ACCOUNT, "--token-uri", uri, "--output", str(key_file)]) == 0
    first, second = capsys.readouterr().out.split("-----END PUBLIC KEY-----\n")[:2]
    assert first == second
    entry = {
        "principal": f"serviceAccount:{ACCOUNT}",
        "public_key": f"{first}-----END PUBLIC KEY-----\n",
        "roles": {"demo-project": ["roles/aiplatform.user"]},
    }
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"principals": [entry]}), "utf-8")
    tokens.chmod(0o600)
    pem = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key")}
    for path, content in zip(pem.values(), own_certificate("127.0.0.1"), strict=True):
        path.write_bytes(content)
    files = {f"grpc_{name}": str(path) for name, path in pem.items()}
    with run_service(
        tmp_path, port=port, require_auth=True, tokens_file=tokens, grpc_port=grpc_port, **files
    ) as service:
        yield service


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_the_sdk_signs_its_own_tokens(
    service: LiveService, ports: tuple[int, int], tmp_path: Path, key_file: Path, transport: str
) -> None:
    endpoint = f"127.0.0.1:{ports[1]}" if transport == "grpc" else f"{service.endpoint}/vertex"
    # Nobody asks the token endpoint: the file names one that does not exist.
    without = tmp_path / "without.json"
    without.write_text(json.dumps(json.loads(key_file.read_text()) | {"token_uri": "http://127.0.0.1:9/no"}))
    environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "certificate.pem")}

    done = subprocess.run(
        [sys.executable, "-c", OF_THE_SDK, transport, endpoint, str(without), IMAGE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert f"listed ['over {transport}']" in done.stdout, done.stderr


def test_libraries_that_want_a_token_are_given_one(service: LiveService, key_file: Path) -> None:
    credentials = Credentials.from_service_account_file(str(key_file), scopes=SCOPES)
    with AuthorizedSession(credentials) as session:
        answer = session.get(f"{service.endpoint}/vertex/v1/{PARENT}/customJobs")
        foreign = session.get(f"{service.endpoint}/vertex/v1/projects/other/locations/us-central1/customJobs")

    assert answer.status_code == 200
    assert foreign.status_code == 403
    assert key_file.stat().st_mode & 0o777 == 0o600


def test_another_key_of_that_name_opens_nothing(service: LiveService, key_file: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged.json"
    uri = json.loads(key_file.read_text())["token_uri"]
    assert main(["account-key", ACCOUNT, "--token-uri", uri, "--output", str(forged)]) == 0
    credentials = Credentials.from_service_account_file(str(forged), scopes=SCOPES)

    with AuthorizedSession(credentials) as session, pytest.raises(RefreshError, match="invalid_grant"):
        session.get(f"{service.endpoint}/vertex/v1/{PARENT}/customJobs")
