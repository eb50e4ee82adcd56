"""Grants and revokes at the same time: fifty at once, conflicts, lost answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.live_service import LiveService
from tests.integration.registry_policies import LOCAL_RESOURCE, add, bindings, client_of, make_grant, remove
from tests.support.speed import scaled
from training_api.clients.iam import IamPoliciesClient
from training_api.errors import EditConflict
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind


def test_of_fifty_grants_at_once_by_different_principals_none_is_lost(
    service: LiveService, iam: IamPoliciesClient
) -> None:
    grants = [make_grant(number) for number in range(50)]

    def run(given: Grant) -> bool:
        with client_of(service.endpoint, patience_seconds=scaled(120)) as own:
            return add(own, given)

    with ThreadPoolExecutor(len(grants)) as pool:
        written = list(pool.map(run, grants))

    assert all(written)
    (binding,) = bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE)
    assert sorted(binding["members"]) == sorted(given.member for given in grants)


def test_of_grants_and_revokes_at_once_none_is_lost(service: LiveService, iam: IamPoliciesClient) -> None:
    there = [make_grant(number) for number in range(25)]
    coming = [make_grant(number) for number in range(100, 125)]
    for given in there:
        add(iam, given)
    steps: list[Callable[[IamPoliciesClient], bool]] = [
        *(lambda client, given=given: remove(client, given) for given in there),
        *(lambda client, given=given: add(client, given) for given in coming),
    ]
    random.Random(3).shuffle(steps)

    def run(step: Callable[[IamPoliciesClient], bool]) -> bool:
        with client_of(service.endpoint, patience_seconds=scaled(120)) as own:
            return step(own)

    with ThreadPoolExecutor(len(steps)) as pool:
        assert all(pool.map(run, steps))

    (binding,) = bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE)
    assert sorted(binding["members"]) == sorted(given.member for given in coming)


def test_a_conflict_that_does_not_end_is_left_to_airflows_retries(service: LiveService) -> None:
    with (
        client_of(service.endpoint, patience_seconds=0.2) as slow,
        client_of(service.endpoint, patience_seconds=scaled(120)) as fast,
    ):
        number = iter(range(10**6))
        given = make_grant(-1)

        def overtaken(policy: Mapping[str, Any]) -> dict[str, Any]:
            add(fast, make_grant(next(number)))
            return given.added_to(policy)

        with pytest.raises(EditConflict, match="has changed since etag"):
            slow.edit_policy(given.kind, given.resource, overtaken)

        assert not given.is_in(fast.get_policy(given.kind, given.resource))


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_grant_whose_answer_was_lost_is_known_to_be_ones_own(
    service: LiveService, is_applied: bool
) -> None:
    real = httpx.HTTPTransport()
    faults = [1]

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(":setIamPolicy") and faults:
            faults.pop()
            if is_applied:
                real.handle_request(request).read()
            raise httpx.ReadError("connection reset")
        return real.handle_request(request)

    with client_of(service.endpoint, transport=httpx.MockTransport(handle)) as client:
        assert add(client, make_grant(1))
        assert make_grant(1).is_in(client.get_policy(ResourceKind.REPOSITORY, LOCAL_RESOURCE))
    real.close()
