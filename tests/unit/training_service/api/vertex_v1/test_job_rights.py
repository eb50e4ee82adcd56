"""What a caller needs for a job beside the right to make one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.fakes.custom_jobs import make_custom_job
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.errors import AccessDenied
from training_service.access.decision import Caller
from training_service.api.vertex_v1.job_rights import check_rights_of_job


class Asked:
    """An access control that notes what it is asked, and denies what it is told to."""

    def __init__(self, denied: str = "") -> None:
        self.denied = denied
        self.found: list[tuple[str, str]] = []

    def check(self, caller: Caller, permission: str, resource: str) -> None:
        del caller
        self.found.append((permission, resource))
        if permission == self.denied:
            raise AccessDenied(permission)


def test_an_account_and_a_secret_are_asked_for_and_nothing_else() -> None:
    plain = custom_job_spec("demo", "us-central1", "1", make_custom_job())
    naming = custom_job_spec("demo", "us-central1", "1", make_custom_job(labels={"secret-key": ""}))
    asked = Asked()

    check_rights_of_job(asked, Caller(), plain)  # type: ignore[arg-type]
    assert asked.found == []
    acting = replace(naming, service_account="a@demo.iam.gserviceaccount.com")
    check_rights_of_job(asked, Caller(), acting)  # type: ignore[arg-type]

    assert [permission for permission, _ in asked.found] == [
        "iam.serviceAccounts.actAs",
        "secretmanager.versions.access",
    ]
    with pytest.raises(AccessDenied):
        check_rights_of_job(Asked("iam.serviceAccounts.actAs"), Caller(), acting)  # type: ignore[arg-type]
