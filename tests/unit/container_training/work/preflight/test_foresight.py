"""What a preflight foresees, by APIs that answer or refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.training import TrainingHook
from tests.support.fakes.described_jobs import make_job
from tests.support.fakes.google_project import AGENT, GoogleProject, limit, quota_path, serve

HERE = "europe-west4"
REPOSITORY = f"projects/other/locations/{HERE}/repositories/images"
OTHERS = f"{HERE}-docker.pkg.dev/other/images/digits:1"
OWN = f"{HERE}-docker.pkg.dev/my-project/training/digits:1"
COMPUTE = "/compute/v1/projects/my-project/aggregated"
BUCKET = "/storage/v1/b/jobs/iam/testPermissions"
Find = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def google() -> GoogleProject:
    """A project in which a job of one n1-standard-4 can run."""
    google = GoogleProject()
    google.has_policy(REPOSITORY, "roles/artifactregistry.reader")
    google.has_policy(f"projects/my-project/locations/{HERE}/repositories/training")
    google.has_policy("projects/other")
    google.has_machines("machineTypes", "n1-standard-4", f"{HERE}-a", f"{HERE}-c", "us-central1-a")
    google.has_machines("acceleratorTypes", "nvidia-tesla-t4", f"{HERE}-c")
    google.has_quota("cpus", limit(("", 42)))
    google.has_quota("nvidia_t4_gpus", limit(("", 1)))
    return google


@pytest.fixture
def find(google: GoogleProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[Find]:
    """Return a function that gives the rows by check and place."""
    with connected(google, monkeypatch) as found:
        yield found


@contextmanager
def connected(google: GoogleProject, monkeypatch: pytest.MonkeyPatch, **extra: Any) -> Iterator[Find]:
    def rows(
        image: str = OTHERS,
        options: dict[str, Any] | None = None,
        job_dir: str | None = "gs://jobs/j",
        *,
        asks_policies: bool = True,
        **training: Any,
    ) -> dict[str, tuple[str, str]]:
        config = {"imageUri": image, **training.pop("masterConfig", {})}
        job = make_job(
            scaleTier="CUSTOM",
            jobDir=job_dir,
            **{"masterType": "n1-standard-4", "masterConfig": config, **training},
        )
        with TrainingHook() as training_hook, RegistryIamHook() as policies:
            spec = training_hook.client.check_job(job, options or {})
            found = training_hook.foresee(spec, options or {}, policies.client if asks_policies else None)
        return {f"{row.check}/{row.where}": (row.result.value, row.why) for row in found}

    with serve(google) as url:
        connection = {
            "conn_type": "vertex_training",
            "host": f"{url}/vertex",
            "password": "the-services-token",
            "extra": {"project": "my-project", "regions": [HERE, "us-central1"], **extra},
        }
        anonymous = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True}}
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(anonymous))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield rows


def test_all_that_a_job_needs_is_there(find: Find) -> None:
    rows = find()

    name = OTHERS.removesuffix(":1")
    assert {place: result for place, (result, _) in rows.items()} == {
        f"image access/{name}": "ok",
        "bucket/gs://jobs": "ok",
        f"machines/{HERE}": "ok",
        f"quota/{HERE}": "ok",
    }
    assert rows[f"machines/{HERE}"][1] == (
        f"Compute Engine has n1-standard-4 in {HERE}-a, {HERE}-c; Vertex AI's table of 2026-11-21 has "
        "n1-standard-4, without regions"
    )
    assert (
        "uses 4 of aiplatform.googleapis.com/custom_model_training_cpus, of which there are 42"
        in (rows[f"quota/{HERE}"][1])
    )


def image_row(rows: dict[str, tuple[str, str]]) -> tuple[str, str]:
    (row,) = (row for place, row in rows.items() if place.startswith("image access/"))
    return row


def test_an_agent_without_a_role_fails_with_the_command_that_grants_it(
    google: GoogleProject, find: Find
) -> None:
    google.has_policy(REPOSITORY)

    result, why = image_row(find())

    assert result == "failed"
    assert f"{AGENT} may not pull: neither the policy of {REPOSITORY} nor that of its project" in why
    assert "let GrantRegistryAccessOperator run before, or run: gcloud artifacts repositories" in why


@pytest.mark.parametrize(
    ("repository", "project", "expected", "said"),
    [
        (403, {"role": "roles/viewer"}, "ok", "the policy of projects/other lets"),
        (403, {}, "not checked", f"the policy of {REPOSITORY} could not be read: refused with 403"),
        (None, 403, "not checked", "the policy of projects/other could not be read: refused with 403"),
        (None, 404, "not checked", "the policy of projects/other could not be read: refused with 404"),
        (None, {"role": "projects/other/roles/mine"}, "not checked", "a condition, a group or a custom role"),
        (404, {}, "failed", f"{REPOSITORY} does not exist"),
    ],
)
def test_the_projects_policy_counts_and_what_cannot_be_read_is_said(
    google: GoogleProject, find: Find, repository: int | None, project: Any, expected: str, said: str
) -> None:
    google.has_policy(REPOSITORY)
    if repository:
        google.answers[f"/v1/{REPOSITORY}:getIamPolicy"] = repository
    if isinstance(project, int):
        google.answers["/v1/projects/other:getIamPolicy"] = project
    else:
        google.has_policy("projects/other", **project)

    result, why = image_row(find())

    assert (result, said in why) == (expected, True), why


@pytest.mark.parametrize(
    ("policy", "expected", "said"),
    [
        ({"etag": "e"}, "ok", "nothing has to be granted"),
        (403, "ok", "exists could not be read"),
        (404, "failed", "EnsureRepositoryOperator makes a repository"),
    ],
)
def test_an_image_of_the_own_project_needs_its_repository_only(
    google: GoogleProject, find: Find, policy: Any, expected: str, said: str
) -> None:
    google.answers[f"/v1/projects/my-project/locations/{HERE}/repositories/training:getIamPolicy"] = policy

    result, why = image_row(find(OWN))

    assert (result, said in why) == (expected, True), why


def test_an_image_of_another_registry_is_not_checked(find: Find) -> None:
    result, why = image_row(find("docker.io/library/python:3"))

    assert (result, "no IAM policy decides about images of docker.io" in why) == ("not checked", True), why


def test_an_image_of_the_services_own_registry_is_checked_at_any_address(
    google: GoogleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    google.has_policy("projects/other/locations/local/repositories/images", "roles/artifactregistry.reader")

    with connected(google, monkeypatch, registry="10.0.0.5:5000") as find:
        assert image_row(find("10.0.0.5:5000/other/images/digits:1"))[0] == "ok"
        assert image_row(find("10.0.0.6:5000/other/images/digits:1"))[0] == "not checked"


def test_access_that_a_task_grants_is_not_asked_for(google: GoogleProject, find: Find) -> None:
    assert image_row(find(asks_policies=False))[0] == "not checked"
    assert not [path for path, _ in google.asked if path.endswith(":getIamPolicy")]


@pytest.mark.parametrize(
    ("answer", "expected", "said"),
    [
        (404, "failed", "it does not exist: refused with 404; run: gcloud storage buckets create gs://jobs"),
        (
            {"permissions": ["storage.objects.get"]},
            "failed",
            "lacks storage.objects.create, storage.objects.list",
        ),
        ({}, "failed", "have the bucket's owner give it roles/storage.objectUser"),
        (503, "not checked", "could not be read: refused with 503"),
    ],
)
def test_a_bucket_that_is_not_there_or_not_reached_fails(
    google: GoogleProject, find: Find, answer: Any, expected: str, said: str
) -> None:
    google.answers[BUCKET] = answer

    result, why = next(row for place, row in find().items() if place.startswith("bucket/"))

    assert (result, said in why) == (expected, True), why


def test_a_job_without_a_folder_has_no_bucket(find: Find) -> None:
    assert find(job_dir=None)["bucket/the job"] == ("not checked", "it has no job directory")


def test_a_machine_must_be_in_a_zone_with_its_accelerators(google: GoogleProject, find: Find) -> None:
    t4 = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 1}}

    here = find(masterConfig=t4)
    google.has_machines("acceleratorTypes", "nvidia-tesla-t4", "us-central1-a")
    there = find(masterConfig=t4)

    assert here[f"machines/{HERE}"][0] == "ok"
    assert f"n1-standard-4 with NVIDIA_TESLA_T4 in {HERE}-c;" in here[f"machines/{HERE}"][1]
    result, why = there[f"machines/{HERE}"]
    assert (result, "in no zone of europe-west4; choose one of us-central1 as" in why) == ("failed", True), (
        why
    )


def test_a_machine_that_is_shown_nowhere_is_not_known_to_be_missing(
    google: GoogleProject, find: Find
) -> None:
    google.has_machines("machineTypes", "n1-standard-4")

    result, why = find()[f"machines/{HERE}"]

    assert (result, "shows the project no n1-standard-4 anywhere" in why) == ("not checked", True), why


def test_a_quota_that_is_too_small_fails_with_where_to_ask_for_more(
    google: GoogleProject, find: Find
) -> None:
    google.has_quota("cpus", limit(("", 42), (HERE, 3)))

    result, why = find()[f"quota/{HERE}"]

    assert result == "failed"
    assert "the limit is 3; ask for more at https://console.cloud.google.com/iam-admin/quotas?project=" in why


def test_options_choose_the_region_and_the_quotas(google: GoogleProject, find: Find) -> None:
    google.has_quota("preemptible_cpus", limit(("", -1)))

    rows = find(options={"strategy": "SPOT", "regions": ["us-central1"]})

    assert rows["machines/us-central1"][0] == "ok"
    assert rows["quota/us-central1"] == (
        "ok",
        "aiplatform.googleapis.com/custom_model_training_preemptible_cpus has no limit",
    )


@pytest.mark.parametrize("status", [403, 404, 503])
def test_apis_that_refuse_are_notes_and_stop_nothing(google: GoogleProject, find: Find, status: int) -> None:
    google.answers[f"{COMPUTE}/machineTypes"] = google.answers[quota_path("cpus")] = status

    rows = find()

    assert (rows[f"machines/{HERE}"][0], rows[f"quota/{HERE}"][0]) == ("not checked", "not checked")
    assert "could not be read: refused with" in rows[f"quota/{HERE}"][1]
    assert rows["bucket/gs://jobs"][0] == "ok"
    assert image_row(rows)[0] == "ok"


def test_without_the_projects_number_neither_agent_nor_quota_is_known(
    google: GoogleProject, find: Find
) -> None:
    google.answers["/v1/projects/my-project"] = 403

    results = {place.partition("/")[0]: result for place, (result, _) in find().items()}

    assert results == {
        "image access": "not checked",
        "bucket": "ok",
        "machines": "ok",
        "quota": "not checked",
    }


def test_the_services_token_does_not_go_to_the_object_store(
    google: GoogleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(google, monkeypatch) as find, serve(store := GoogleProject()) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        assert find()["bucket/gs://jobs"][0] == "ok"

    assert store.tokens == {None}
    assert google.tokens == {"Bearer the-services-token"}


def test_a_service_of_ones_own_has_nothing_to_foresee(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "container_training", "host": "127.0.0.1", "extra": {"project": "my-project"}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))

    assert find() == {}
