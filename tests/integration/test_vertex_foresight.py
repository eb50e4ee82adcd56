"""What a preflight foresees at this project's own service and object store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.training import TrainingHook
from container_training.work.preflight.report import PreflightRow
from tests.integration.live_service import LiveService
from tests.integration.registry_policies import LOCAL, LOCAL_RESOURCE, READER, add
from tests.support import web
from tests.support.bed.store_thread import store_in_thread
from tests.support.fakes.described_jobs import make_job
from training_api.clients.iam import IamPoliciesClient
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind


@pytest.fixture
def store(service: LiveService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with store_in_thread(tmp_path / "store", service.endpoint) as url:
        google = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True}}
        training = {
            "conn_type": "vertex_training",
            "host": f"{service.endpoint}/vertex",
            "extra": {"project": "demo-project"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(training))
        monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(google))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        web.post(f"{url}/storage/v1/b", params={"project": "demo-project"}, json={"name": "present"})
        yield url


def look_ahead(bucket: str) -> tuple[dict[str, PreflightRow], str]:
    """Return the rows by check, and the address of the service agent."""
    job = make_job(
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        jobDir=f"gs://{bucket}/j",
        masterConfig={"imageUri": LOCAL},
    )
    with TrainingHook() as training, RegistryIamHook() as policies:
        spec = training.client.check_job(job)
        rows = training.foresee(spec, {}, policies.client)
        return {row.check.value: row for row in rows}, training.client.service_agent()


@pytest.mark.usefixtures("store")
def test_a_grant_turns_a_refused_image_into_one_that_may_be_pulled(iam: IamPoliciesClient) -> None:
    before, agent = look_ahead("present")
    grant = Grant(
        kind=ResourceKind.REPOSITORY,
        resource=LOCAL_RESOURCE,
        role=READER,
        member=f"serviceAccount:{agent}",
    )
    assert agent.endswith("@gcp-sa-aiplatform-cc.iam.gserviceaccount.com")
    assert (before["image access"].result, grant.gcloud_command() in before["image access"].why) == (
        "failed",
        True,
    )

    assert add(iam, grant)
    after, _ = look_ahead("present")

    assert (after["image access"].result, LOCAL_RESOURCE in after["image access"].why) == ("ok", True)


@pytest.mark.usefixtures("store")
def test_the_object_store_says_which_bucket_is_there_and_the_service_has_no_quotas() -> None:
    present, _ = look_ahead("present")
    absent, _ = look_ahead("absent")

    assert present["bucket"].result == "ok"
    assert (absent["bucket"].result, "it does not exist" in absent["bucket"].why) == ("failed", True)
    assert (present["machines"].result, present["quota"].result) == ("not checked", "not checked")
