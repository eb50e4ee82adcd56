"""
gcloud with a token, against a service that wants one: three kinds of callers.

Allowed, refused and unknown ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.gcloud import Result, run_gcloud
from tests.integration.live_service import IMAGE, LiveService, run_service
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

OWNER, NOBODY = "owner-token-of-some-length", "nobody-token-of-some-length"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("service")
    tokens = folder / "tokens.json"
    principals = [
        {"principal": "user:owner@example.com", "token": OWNER, "owns": ["demo-project"]},
        {"principal": "user:nobody@example.com", "token": NOBODY},
    ]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    with run_service(folder, require_auth=True, tokens_file=tokens) as service:
        headers = {"Authorization": f"Bearer {OWNER}"}
        with TrainingClient(service.endpoint, "demo-project", headers=headers) as client:
            config = ReplicaConfig(image_uri=IMAGE)
            client.create_job(
                Job(job_id="a_job", training_input=TrainingInput(region="us-central1", master_config=config))
            )
        yield service


def describe(service: LiveService, folder: Path, token: str) -> Result:
    """``gcloud ai-platform jobs describe a_job`` with the token in a file, as gcloud reads it."""
    file = folder / "token"
    file.write_text(token)
    environment = {
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(file),
        "CLOUDSDK_CORE_PROJECT": "demo-project",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{service.endpoint}/",
    }
    return run_gcloud("ai-platform", "jobs", "describe", "a_job", environment=environment, config=folder)


def test_gcloud_with_a_token_is_let_in(service: LiveService, tmp_path: Path) -> None:
    done = describe(service, tmp_path, OWNER)

    assert done.returncode == 0, done.stderr
    assert "jobId: a_job" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("token", "said"),
    [(NOBODY, "Permission 'ml.jobs.get' denied on resource"), ("wrong-token", "UNAUTHENTICATED")],
)
def test_gcloud_says_why_it_is_not_let_in(
    service: LiveService, tmp_path: Path, token: str, said: str
) -> None:
    done = describe(service, tmp_path, token)

    assert done.returncode == 1
    assert said in done.stderr
    assert token not in done.stderr
