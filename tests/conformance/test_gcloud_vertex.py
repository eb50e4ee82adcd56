"""``gcloud ai custom-jobs`` as installed, with the variables of ``make env``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local_stack.environment import client_environment
from local_stack.settings import StackSettings
from tests.conformance.gcloud import Result, run_gcloud
from tests.integration.live_service import IMAGE, run_service
from tests.support.ports import reserve_port

pytestmark = pytest.mark.timeout(300)

#: Runs ``gcloud ai custom-jobs ... --region us-central1 --format json``.
CustomJobs = Callable[..., Result]
POOL = f"machine-type=n1-standard-4,replica-count=1,container-image-uri={IMAGE}"


@pytest.fixture(scope="module", params=["override", "proxy"])
def custom_jobs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CustomJobs]:
    """gcloud, told the service's address, or a proxy and an authority alone."""
    folder, proxy_port = tmp_path_factory.mktemp("service"), reserve_port()
    with run_service(folder, vertex_proxy_port=proxy_port) as service:
        settings = StackSettings(state_dir=folder, training_port=urlsplit(service.endpoint).port)
        environment = {
            **client_environment(settings, base_image="none"),
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        }
        if request.param == "proxy":
            del environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"]
            environment |= {
                "CLOUDSDK_PROXY_TYPE": "http",
                "CLOUDSDK_PROXY_ADDRESS": "127.0.0.1",
                "CLOUDSDK_PROXY_PORT": str(proxy_port),
                "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(folder / "tls" / "bundle.pem"),
            }
        gcloud = partial(run_gcloud, environment=environment, config=folder / "gcloud")

        def custom_jobs(command: str, *arguments: str | Path) -> Result:
            where = ("--region", "us-central1", "--format", "json")
            return gcloud("ai", "custom-jobs", command, *arguments, *where)

        yield custom_jobs


def test_gcloud_creates_describes_lists_and_cancels_a_job(custom_jobs: CustomJobs) -> None:
    created = custom_jobs(
        "create",
        "--display-name",
        "of gcloud",
        "--worker-pool-spec",
        POOL,
        "--args=--epochs=3",
        "--labels=a=b",
    )
    assert created.returncode == 0, created.stderr
    name = json.loads(created.stdout)["name"]
    assert "/locations/us-central1/customJobs/" in name

    described = json.loads(custom_jobs("describe", name).stdout)
    assert described["displayName"] == "of gcloud"
    assert described["labels"] == {"a": "b"}
    (pool,) = described["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"] == {"imageUri": IMAGE, "args": ["--epochs=3"]}

    listed = custom_jobs("list", "--filter", "labels.a=b")
    assert [job["name"] for job in json.loads(listed.stdout)] == [name]

    cancelled = custom_jobs("cancel", name)
    assert cancelled.returncode == 0, cancelled.stderr
    assert "has been sent" in cancelled.stderr


def test_gcloud_says_what_the_service_refuses(custom_jobs: CustomJobs) -> None:
    refused = custom_jobs(
        "create", "--display-name", "x", "--worker-pool-spec", f"{POOL},accelerator-type=NVIDIA_TESLA_K80"
    )
    missing = custom_jobs("describe", "7")

    assert refused.returncode == missing.returncode == 1
    assert "INVALID_ARGUMENT" in refused.stderr
    assert "NOT_FOUND" in missing.stderr
