"""What a grant does to a policy, as a pure function of both."""

from __future__ import annotations

import copy
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.errors import InvalidGrant, PolicyTooLarge
from training_api.iam.grants import Grant, policy_diff, service_account_member
from training_api.iam.registry_resources import ResourceKind

ROLE = "roles/artifactregistry.reader"
AGENT = "serviceAccount:service-1@cloud-ml.google.com.iam.gserviceaccount.com"
ANN = "user:ann@example.com"
UNTIL = {"title": "until spring", "expression": "request.time < timestamp('2027-03-01T00:00:00Z')"}


def make_grant(**changes: Any) -> Grant:
    fields = {
        "kind": ResourceKind.REPOSITORY,
        "resource": "projects/images/locations/us/repositories/digits",
        "role": ROLE,
        "member": AGENT,
    }
    return Grant(**(fields | changes))


_bindings = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from([ROLE, "roles/viewer"]),
            "members": st.lists(st.sampled_from([AGENT, ANN, "allUsers"]), min_size=1, unique=True),
        },
        optional={"condition": st.just(UNTIL), "bindingId": st.just("b1")},
    ),
    max_size=4,
)
policies = st.fixed_dictionaries(
    {"etag": st.just("e"), "version": st.just(3)},
    optional={"bindings": _bindings, "auditConfigs": st.just([{"service": "x"}]), "new": st.just(1)},
)


def held(policy: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return sorted(
        (binding["role"], member, "condition" in binding)
        for binding in policy.get("bindings", [])
        for member in binding["members"]
    )


@given(policies)
def test_a_grant_is_added_and_removed_and_nothing_else_changes(policy: dict[str, Any]) -> None:
    grant, original = make_grant(), copy.deepcopy(policy)
    if grant.is_in(policy):
        return

    added = grant.added_to(policy)
    removed = grant.removed_from(added)

    assert grant.is_in(added)
    assert not grant.is_in(removed)
    assert held(added) == sorted([*held(policy), (ROLE, AGENT, False)])
    assert held(removed) == held(policy)
    assert policy == original
    for name in set(policy) - {"bindings"}:
        assert added[name] == removed[name] == policy[name]


@given(policies)
def test_removing_takes_the_one_grant_only(policy: dict[str, Any]) -> None:
    left = make_grant().removed_from(policy)

    assert held(left) == [entry for entry in held(policy) if entry != (ROLE, AGENT, False)]


def test_a_binding_with_a_condition_is_not_the_grant_and_stays_untouched() -> None:
    conditional = {"role": ROLE, "members": [AGENT], "condition": UNTIL, "bindingId": "b1"}
    policy = {"version": 3, "etag": "e", "bindings": [conditional]}

    assert not make_grant().is_in(policy)
    assert make_grant().added_to(policy) == {
        "version": 3,
        "etag": "e",
        "bindings": [conditional, {"role": ROLE, "members": [AGENT]}],
    }


def test_a_full_policy_takes_no_further_principal() -> None:
    crowd = [f"user:user{number}@example.com" for number in range(1500)]

    with pytest.raises(PolicyTooLarge, match="may name at most 1500 principals and would name 1501"):
        make_grant().added_to({"bindings": [{"role": ROLE, "members": crowd}]})


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        (
            {},
            (
                "gcloud artifacts repositories add-iam-policy-binding digits --project=images --location=us "
                f"--member={AGENT} --role={ROLE}"
            ),
        ),
        (
            {
                "kind": ResourceKind.BUCKET,
                "resource": "buckets/eu.artifacts.images.appspot.com",
                "role": "roles/storage.objectViewer",
            },
            (
                "gcloud storage buckets add-iam-policy-binding gs://eu.artifacts.images.appspot.com "
                f"--member={AGENT} --role=roles/storage.objectViewer"
            ),
        ),
        (
            {
                "kind": ResourceKind.PROJECT,
                "resource": "projects/example.com:images",
                "role": "roles/ml.serviceAgent",
            },
            (
                f"gcloud projects add-iam-policy-binding example.com:images --member={AGENT} "
                "--role=roles/ml.serviceAgent --condition=None"
            ),
        ),
    ],
)
def test_the_command_for_a_person_does_the_same(changes: dict[str, Any], command: str) -> None:
    grant = make_grant(**changes)

    assert grant.gcloud_command() == command
    assert shlex.split(grant.gcloud_command("remove")) == [
        word.replace("add-", "remove-") if word.startswith("add-iam") else word
        for word in shlex.split(command)
    ]


def test_the_diff_shows_the_change_in_its_place() -> None:
    before = {"bindings": [{"role": "roles/viewer", "members": [ANN], "condition": UNTIL}]}
    grant = make_grant(resource="buckets/b")

    assert policy_diff("buckets/b", before, grant.added_to(before)).splitlines() == [
        "--- buckets/b now",
        "+++ buckets/b then",
        " - role: roles/viewer",
        "   condition: until spring",
        "   members:",
        f"   - {ANN}",
        f"+- role: {ROLE}",
        "+  members:",
        f"+  - {AGENT}",
    ]
    assert policy_diff("buckets/b", before, before) == ""


def test_a_grant_survives_json_among_other_facts() -> None:
    stored = {**make_grant().to_json(), "granted": True}

    assert Grant.from_json(stored) == make_grant()


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "grant",
        {},
        {**make_grant().to_json(), "role": None},
        {**make_grant().to_json(), "resource_kind": "X"},
    ],
)
def test_what_is_no_grant_is_refused(stored: object) -> None:
    with pytest.raises(InvalidGrant):
        Grant.from_json(stored)


@pytest.mark.parametrize(
    "account",
    ["Trainer@demo.IAM.gserviceaccount.com", " serviceAccount:trainer@demo.iam.gserviceaccount.com"],
)
def test_an_account_is_named_as_iam_keeps_it(account: str) -> None:
    assert service_account_member(account) == "serviceAccount:trainer@demo.iam.gserviceaccount.com"


@pytest.mark.parametrize("account", ["", "trainer", "user:ann@example.com", "a@b", "a b@example.com"])
def test_what_is_no_account_is_refused(account: str) -> None:
    with pytest.raises(InvalidGrant, match="must be NAME@DOMAIN"):
        service_account_member(account)
