"""``gcloud ai`` as installed, with the variables of ``make env``."""

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

#: Runs ``gcloud ai ... --region us-central1 --format json``.
GcloudAi = Callable[..., Result]
SEARCH = f"""
studySpec:
  metrics:
  - metricId: accuracy
    goal: MAXIMIZE
  parameters:
  - parameterId: rate
    doubleValueSpec: {{minValue: 0.001, maxValue: 0.1}}
    scaleType: UNIT_LOG_SCALE
trialJobSpec:
  workerPoolSpecs:
  - machineSpec: {{machineType: n1-standard-4}}
    replicaCount: 1
    containerSpec: {{imageUri: {IMAGE}}}
"""
ENDING = ("JOB_STATE_CANCELLING", "JOB_STATE_CANCELLED")
POOL = f"machine-type=n1-standard-4,replica-count=1,container-image-uri={IMAGE}"


@pytest.fixture(scope="module", params=["override", "proxy"])
def gcloud_ai(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcloudAi]:
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

        def gcloud_ai(*arguments: str | Path) -> Result:
            return gcloud("ai", *arguments, "--region", "us-central1", "--format", "json")

        yield gcloud_ai


@pytest.fixture
def custom_jobs(gcloud_ai: GcloudAi) -> GcloudAi:
    return partial(gcloud_ai, "custom-jobs")


def test_gcloud_creates_describes_lists_and_cancels_a_job(custom_jobs: GcloudAi) -> None:
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


def test_gcloud_says_what_the_service_refuses(custom_jobs: GcloudAi) -> None:
    refused = custom_jobs(
        "create", "--display-name", "x", "--worker-pool-spec", f"{POOL},accelerator-type=NVIDIA_TESLA_K80"
    )
    missing = custom_jobs("describe", "7")

    assert refused.returncode == missing.returncode == 1
    assert "INVALID_ARGUMENT" in refused.stderr
    assert "NOT_FOUND" in missing.stderr


def test_gcloud_creates_describes_lists_and_cancels_a_tuning_job(gcloud_ai: GcloudAi, tmp_path: Path) -> None:
    config = tmp_path / "search.yaml"
    config.write_text(SEARCH)
    tuning_jobs = partial(gcloud_ai, "hp-tuning-jobs")

    counts = ("--max-trial-count=4", "--parallel-trial-count=2", "--algorithm=random-search")
    created = tuning_jobs("create", "--display-name", "a search", "--config", config, *counts)
    assert created.returncode == 0, created.stderr
    name = json.loads(created.stdout)["name"]
    assert "/locations/us-central1/hyperparameterTuningJobs/" in name

    described = json.loads(tuning_jobs("describe", name).stdout)
    assert (described["displayName"], described["maxTrialCount"], described["parallelTrialCount"]) == (
        "a search",
        4,
        2,
    )
    assert described["studySpec"]["algorithm"] == "RANDOM_SEARCH"
    (parameter,) = described["studySpec"]["parameters"]
    assert (parameter["scaleType"], parameter["doubleValueSpec"]["maxValue"]) == ("UNIT_LOG_SCALE", 0.1)

    assert [job["name"] for job in json.loads(tuning_jobs("list").stdout)] == [name]

    cancelled = tuning_jobs("cancel", name)
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(tuning_jobs("describe", name).stdout)["state"] in ENDING
