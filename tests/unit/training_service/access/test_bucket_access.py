"""Whose buckets the service reads for a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.dialects.registry import DIALECTS
from training_api.iam.wire import Binding, Policy
from training_api.job.job_spec import JobSpec
from training_service.access.bucket_access import BucketAccess, BucketRefused
from training_service.access.decision import Caller, may
from training_service.store.database import open_database

AGENT = f"serviceAccount:{ML_AGENT.email(PROJECT)}"
TRAINER = "trainer@p.iam.gserviceaccount.com"


@pytest.fixture
def spec() -> JobSpec:
    """A job of ``PROJECT`` without an account of its own."""
    return spec_of("job")


def spec_of(job_id: str, **changes: str) -> JobSpec:
    world = World(open_database("sqlite://"))
    world.submit(job_id, **changes)
    return world.store.get(PROJECT, job_id).spec


def access(
    listed: Mapping[str, Sequence[str]] | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
    *members: str,
) -> BucketAccess:
    """Return the access to what the store lists; ``members`` may view objects of ``theirs``."""
    policy = Policy(bindings=[Binding(role="roles/storage.objectViewer", members=list(members))])
    policies = {"buckets/theirs": policy}

    def decide(caller: Caller, permission: str, resource: str) -> bool:
        return may(caller, permission, resource, [policies.get(resource, Policy())])

    return BucketAccess(
        lambda project, bucket: bucket in (listed or {}).get(project, ()), decide, named or {}, DIALECTS
    )


def test_a_bucket_of_the_project_is_read(spec: JobSpec) -> None:
    access({PROJECT: ["ours"]}).check(spec, "ours")


@pytest.mark.parametrize("bucket", ["theirs", "ours-too", "our", "", "OURS"])
def test_no_other_bucket_is_read(spec: JobSpec, bucket: str) -> None:
    rights = access({PROJECT: ["ours"], "another": ["theirs"]}, {"another": ["theirs"]})

    with pytest.raises(
        BucketRefused, match=f"^bucket '{bucket}' is not one of project '{PROJECT}'"
    ) as caught:
        rights.check(spec, bucket)

    assert "add it to TRAINING_PROJECT_BUCKETS" in str(caught.value)
    assert f"gs://{bucket} --member={AGENT} --role=roles/storage.objectViewer" in str(caught.value)


def test_the_setting_names_more_buckets_of_a_project(spec: JobSpec) -> None:
    access(named={PROJECT: ["theirs"]}).check(spec, "theirs")


def test_the_policy_of_a_bucket_lets_an_account_name_it(spec: JobSpec) -> None:
    access({}, {}, AGENT).check(spec, "theirs")
    access({}, {}, f"serviceAccount:{TRAINER}").check(spec_of("own", service_account=TRAINER), "theirs")

    with pytest.raises(BucketRefused):
        access({}, {}, f"serviceAccount:{TRAINER}").check(spec, "theirs")
