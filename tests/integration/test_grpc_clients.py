"""Google's clients of Vertex AI over gRPC, unmodified, against the service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument, MethodNotImplemented, NotFound

from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.certificates import own_certificate
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.project_number import project_number

PROJECT, LOCATION = "demo-project", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
JOB = {
    "display_name": "of gRPC",
    "job_spec": {
        "worker_pool_specs": [
            {
                "machine_spec": {"machine_type": "n1-standard-4"},
                "replica_count": 1,
                "container_spec": {"image_uri": IMAGE},
            }
        ]
    },
}
#: What a user of the SDK writes; it uses TLS.
OF_THE_SDK = f"""
import sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform

aiplatform.init(
    project={PROJECT!r},
    location={LOCATION!r},
    api_endpoint=sys.argv[1],
    credentials=AnonymousCredentials(),
    staging_bucket="gs://staging",
)
job = aiplatform.CustomJob(**{{
    "display_name": "of the SDK", "worker_pool_specs": {JOB["job_spec"]["worker_pool_specs"]!r}
}})
job.run()
print("ended", job.state.name)
"""


@pytest.fixture
def port() -> int:
    return reserve_port()


@pytest.fixture
def service(tmp_path: Path, port: int) -> Iterator[LiveService]:
    with run_service(tmp_path, grpc_port=port) as service:
        yield service


def client_over(channel: grpc.Channel) -> Any:
    from google.cloud.aiplatform_v1 import JobServiceClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport

    return JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))


@pytest.fixture
def client(service: LiveService, port: int) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield client_over(channel)


def test_the_gapic_client_creates_lists_cancels_and_deletes(client: Any) -> None:
    from google.cloud.aiplatform_v1 import JobState

    created = client.create_custom_job(parent=PARENT, custom_job=JOB)
    name = created.name

    assert name.startswith(f"projects/{project_number(PROJECT)}/locations/{LOCATION}/customJobs/")
    assert created.state is JobState.JOB_STATE_QUEUED
    request = {"parent": PARENT, "filter": 'display_name="of gRPC"', "read_mask": {"paths": ["name"]}}
    assert [(each.name, each.display_name) for each in client.list_custom_jobs(request=request)] == [
        (name, "")
    ]
    with pytest.raises(FailedPrecondition):
        client.delete_custom_job(name=name)

    client.cancel_custom_job(name=name)
    wait_until(
        lambda: client.get_custom_job(name=name).state is JobState.JOB_STATE_CANCELLED,
        "the job is cancelled",
    )
    assert client.get_custom_job(name=name).error.code == 1
    deletion = client.delete_custom_job(name=name)
    deletion.result(timeout=scaled(30))
    assert client.get_operation({"name": deletion.operation.name}).done
    with pytest.raises(NotFound):
        client.get_custom_job(name=name)


def test_the_gapic_client_pages_and_reads_locations(client: Any) -> None:
    names = [client.create_custom_job(parent=PARENT, custom_job=JOB).name for _ in range(3)]

    assert [
        each.name for each in client.list_custom_jobs(request={"parent": PARENT, "page_size": 2})
    ] == names[::-1]
    assert client.get_location({"name": PARENT}).location_id == LOCATION


def test_the_gapic_client_is_told_which_field_breaks_which_rule(client: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        client.create_custom_job(parent=PARENT, custom_job={"display_name": "a"})
    with pytest.raises(MethodNotImplemented, match="and not"):
        client.list_nas_jobs(parent=PARENT)

    (bad,) = caught.value.details
    assert [each.field for each in bad.field_violations] == ["jobSpec"]


def test_a_job_of_the_sdk_runs_to_its_end_over_tls(tmp_path: Path, port: int) -> None:
    pem = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key")}
    for path, content in zip(pem.values(), own_certificate("127.0.0.1"), strict=True):
        path.write_bytes(content)
    files = {f"grpc_{name}": str(path) for name, path in pem.items()}
    with run_service(tmp_path, grpc_port=port, **files) as service:
        environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(pem["certificate"])}
        program = [sys.executable, "-c", OF_THE_SDK, f"127.0.0.1:{port}"]
        with subprocess.Popen(
            program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as user:
            wait_until(
                lambda: "JOB_STATE_RUNNING" in _states(service), "the job of the SDK runs", seconds=120
            )
            service.engine.advance(10**9)
            said, _ = user.communicate(timeout=scaled(120))
        trusted = grpc.ssl_channel_credentials(pem["certificate"].read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{port}", trusted) as channel:
            found = [each.display_name for each in client_over(channel).list_custom_jobs(parent=PARENT)]

    assert "ended JOB_STATE_SUCCEEDED" in said
    assert found == ["of the SDK"]


def _states(service: LiveService) -> list[str]:
    found = web.get(f"{service.endpoint}/vertex/v1/{PARENT}/customJobs").raise_for_status().json()
    return [each["state"] for each in found.get("customJobs", [])]
