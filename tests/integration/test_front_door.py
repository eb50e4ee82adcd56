"""Clients that ask for Google's names, through the CONNECT port of a live service."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import pytest
from starlette.responses import PlainTextResponse

from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from training_service.front_door.certificates import CertificateFiles, ensure_certificates
from training_service.front_door.door import front_door

HOST = "us-central1-aiplatform.googleapis.com"
JOBS = "projects/demo-project/locations/us-central1/customJobs"
GET_JOB = "/google.cloud.aiplatform.v1.JobService/GetCustomJob"


@dataclass(frozen=True)
class Door:
    """The URL of a port for CONNECT, and the files of the certificate behind it."""

    proxy: str
    files: CertificateFiles

    def environment(self, proxy: str) -> dict[str, str]:
        """Return this process's environment, with ``proxy`` as the name of the variable."""
        inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**inherited, proxy: self.proxy, "no_proxy": "127.0.0.1,localhost"}


# --- REST, with a live service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveService, Door]]:
    folder, port = tmp_path_factory.mktemp("door"), reserve_port()
    with run_service(folder, vertex_proxy_port=port) as service:
        yield service, Door(f"http://127.0.0.1:{port}", CertificateFiles(folder / "tls"))


@pytest.fixture
def client(service: tuple[LiveService, Door]) -> Iterator[httpx.Client]:
    """A client of Google's host that knows no more than a proxy and an authority."""
    _, door = service
    trust = ssl.create_default_context(cafile=door.files.authority)
    with web.client(f"https://{HOST}", proxy=door.proxy, verify=trust) as client:
        yield client


def test_a_job_is_created_by_googles_address_and_found_by_the_services_own(
    client: httpx.Client, service: tuple[LiveService, Door]
) -> None:
    created = client.post(f"/v1/{JOBS}", json=make_custom_job(make_pool(imageUri=IMAGE)))

    assert created.status_code == 200, created.text
    name = created.json()["name"]
    with web.client() as direct:
        found = direct.get(f"{service[0].endpoint}/vertex/v1/{name}")
    assert found.json()["name"] == client.get(f"/v1/{name}").json()["name"] == name


def test_only_vertex_ai_is_at_googles_address(client: httpx.Client) -> None:
    for path in ("/health", "/v1/projects/demo-project/jobs", "/ops/v1/projects/demo-project/fleet"):
        assert client.get(path).status_code in (404, 501), path
    assert client.get(f"/v1/{JOBS}", headers={"host": "evil.test"}).status_code == 400
    origin = {"origin": f"https://{HOST}"}
    assert client.post(f"/v1/{JOBS}", json={}, headers=origin).status_code == 403


def test_the_proxy_leads_nowhere_else(client: httpx.Client, service: tuple[LiveService, Door]) -> None:
    with pytest.raises(httpx.ProxyError, match="403"):
        client.get("https://storage.googleapis.com/")
    plain = web.get(f"http://{HOST}/", proxy=service[1].proxy)
    assert plain.status_code == 405
    assert "must be CONNECT, got 'GET'" in plain.text


_SDK = """
import sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform

aiplatform.init(
    project="demo-project",
    location="us-central1",
    api_transport="rest",
    credentials=AnonymousCredentials(),
    staging_bucket="gs://demo-bucket",
)
pool = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "container_spec": {"image_uri": sys.argv[1]},
}
job = aiplatform.CustomJob(display_name="of the SDK", worker_pool_specs=[pool])
job.submit()
assert job.resource_name in [each.resource_name for each in aiplatform.CustomJob.list()]
print(job.resource_name)
"""


def test_the_sdk_submits_over_rest_without_an_endpoint(service: tuple[LiveService, Door]) -> None:
    _, door = service
    done = subprocess.run(
        [sys.executable, "-c", _SDK, IMAGE],
        env={**door.environment("https_proxy"), "REQUESTS_CA_BUNDLE": str(door.files.bundle)},
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "/locations/us-central1/customJobs/" in done.stdout.splitlines()[-1]


# --- gRPC, with a server of the test


@pytest.fixture
def grpc_door(tmp_path: Path) -> Iterator[Door]:
    """A door before a server of gRPC that answers with what it was sent."""
    files = ensure_certificates(tmp_path / "tls")
    server = grpc.server(ThreadPoolExecutor(4))
    service, method = GET_JOB.removeprefix("/").split("/")
    echo = grpc.unary_unary_rpc_method_handler(lambda said, _: b"heard " + said)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: echo})])
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    bound, stop = threading.Event(), asyncio.Event()
    found: list[int] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        door = front_door(
            PlainTextResponse("rest"),
            host="127.0.0.1",
            port=0,
            certificate=files.certificate,
            key=files.key,
            grpc_port=port,
        )
        async with door as at:
            found.append(at)
            bound.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert bound.wait(scaled(60))
        yield Door(f"http://127.0.0.1:{found[0]}", files)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(scaled(60))
        loop.close()
        server.stop(None).wait()


_CALLS = """
import asyncio, json, sys
import grpc

method, *targets = sys.argv[1:]
said = {}
for target in targets:
    with grpc.secure_channel(target, grpc.ssl_channel_credentials()) as channel:
        try:
            said[target] = channel.unary_unary(method)(b"you", timeout=60).decode()
        except grpc.RpcError as error:
            said[target] = f"{error.code().name}: {error.details()}"

async def ask():
    async with grpc.aio.secure_channel(targets[0], grpc.ssl_channel_credentials()) as channel:
        return (await channel.unary_unary(method)(b"you, too", timeout=60)).decode()

said["aio"] = asyncio.run(ask())
print(json.dumps(said))
"""


def test_a_client_of_grpc_reaches_the_server_by_googles_name(grpc_door: Door) -> None:
    direct = "localhost:1"
    targets = [f"{HOST}:443", "aiplatform.googleapis.com:443", "storage.googleapis.com:443", direct]
    done = subprocess.run(
        [sys.executable, "-c", _CALLS, GET_JOB, *targets],
        env={
            **grpc_door.environment("grpc_proxy"),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(grpc_door.files.bundle),
            "no_grpc_proxy": "localhost",
        },
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said[f"{HOST}:443"] == said["aiplatform.googleapis.com:443"] == "heard you"
    assert said["aio"] == "heard you, too"
    assert "403" in said["storage.googleapis.com:443"]
    assert "refused" in said[direct]


def test_a_client_of_grpc_that_does_not_trust_the_authority_says_so(grpc_door: Door) -> None:
    environment = grpc_door.environment("grpc_proxy")
    environment.pop("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", None)
    program = _CALLS.partition("async def")[0] + "print(json.dumps(said))"
    done = subprocess.run(
        [sys.executable, "-c", program, GET_JOB, f"{HOST}:443"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert "CERTIFICATE_VERIFY_FAILED" in json.loads(done.stdout)[f"{HOST}:443"]
