"""What the metadata endpoint shows a job, and the forms in which it does."""

from __future__ import annotations

import json

import pytest

from training_service.metadata.tree import LIVE, JobIdentity, as_json, as_text, find, metadata_tree

EMAIL = "trainer@demo.iam.gserviceaccount.com"
JOB = JobIdentity(project="demo", number=12, email=EMAIL, job_id="a_job", job_uid="0a", region="europe-west4")


def test_no_aggregate_has_a_token_in_it() -> None:
    assert "token" not in as_json(metadata_tree(JOB))


def test_a_job_is_its_account_in_policies() -> None:
    assert JOB.principal == f"serviceAccount:{EMAIL}"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("project/project-id", "demo"),
        ("instance/id", 10),
        (f"instance/service-accounts/{EMAIL}/aliases", ("default",)),
        ("instance/attributes", {}),
        ("project/absent", None),
        ("project/project-id/deeper", None),
        ("project//project-id", None),
    ],
)
def test_a_path_leads_to_a_value_a_folder_or_nothing(path: str, found: object) -> None:
    assert find(metadata_tree(JOB), path) == found


def test_the_empty_path_is_everything() -> None:
    assert find(metadata_tree(JOB), "") == metadata_tree(JOB)


def test_the_account_is_the_same_under_both_of_its_names() -> None:
    accounts = find(metadata_tree(JOB), "instance/service-accounts")

    assert isinstance(accounts, dict)
    assert accounts["default"] == accounts[EMAIL]


def test_a_folder_is_listed_in_order_and_an_account_has_its_tokens() -> None:
    account = {"scopes": ("a",), "email": EMAIL, "more": {}}

    assert as_text(account) == "email\nmore/\nscopes\n"
    assert as_text(account, is_account=True).split() == sorted(["email", "more/", "scopes", *LIVE])
    assert as_text({}) == ""


def test_several_values_are_a_line_each_and_one_is_itself() -> None:
    assert (as_text(("a", "b")), as_text(12), as_text("demo")) == ("a\nb\n", "12", "demo")


def test_keys_are_in_camel_case_but_for_addresses() -> None:
    shown = json.loads(as_json(metadata_tree(JOB)))

    assert set(shown["project"]) == {"attributes", "numericProjectId", "projectId"}
    assert set(shown["instance"]["serviceAccounts"]) == {"default", EMAIL}
