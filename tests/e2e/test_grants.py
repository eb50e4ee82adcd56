"""A grant that is taken back however the run ends, under the real scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import docker
import docker.errors
import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.people.credentials import DEVELOPER, airflow_principal, developers_header, registry_login
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.support import web
from tests.support.own_images import remove_own_images
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.states import JobState

pytestmark = [
    pytest.mark.usefixtures("guarded"),
    pytest.mark.docker,
    pytest.mark.e2e,
    pytest.mark.timeout(900),
]

DAG, WAIT = "train_shared_image", "wait_until_finished"
OWNER_PROJECT = "shared-project"
RESOURCE = f"projects/{OWNER_PROJECT}/locations/local/repositories/python"
AGENT = f"serviceAccount:{ML_AGENT.email('demo-project')}"
READER = "roles/artifactregistry.reader"
SLEEPS = "python3 -c 'import time; print(\"the trainer is up\", flush=True); time.sleep(900)'"

Policy = Callable[..., list[str]]


def policy_of(stack: LocalStack, *bindings: dict[str, object]) -> dict[str, object]:
    """Return a policy by which Airflow may write the policy itself, with ``bindings``."""
    own = {"role": "roles/iam.securityAdmin", "members": [airflow_principal(stack.settings)]}
    return {"policy": {"bindings": [own, *bindings]}}


@pytest.fixture
def policy(stack: LocalStack) -> Policy:
    """Return a function that says who may pull the image; given somebody, it lets them in first."""

    def policy(*members: str) -> list[str]:
        with web.client(
            base_url=f"{stack.settings.training_url}/v1", headers=developers_header(stack.settings)
        ) as service:
            if members:
                body = policy_of(stack, {"role": READER, "members": [*members]})
                service.post(f"/{RESOURCE}:setIamPolicy", json=body).raise_for_status()
            found = service.get(f"/{RESOURCE}:getIamPolicy").raise_for_status().json()
        return [
            member
            for binding in found["bindings"]
            if binding["role"] == READER
            for member in binding["members"]
        ]

    return policy


@pytest.fixture
def image(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[str]:
    """An image of another project, which the service's account may not pull."""
    with web.client(
        base_url=f"{stack.settings.training_url}/v1", headers=developers_header(stack.settings)
    ) as service:
        owner = {"policy": {"bindings": [{"role": "roles/owner", "members": [DEVELOPER]}]}}
        service.post(f"/projects/{OWNER_PROJECT}:setIamPolicy", json=owner).raise_for_status()
        service.post(f"/{RESOURCE}:setIamPolicy", json=policy_of(stack)).raise_for_status()
    repository = f"{stack.settings.registry}/{OWNER_PROJECT}/python"
    engine_client.tag(base_image, repository, "1")
    login = registry_login(stack.settings)
    lines = list(engine_client.push(repository, "1", stream=True, decode=True, auth_config=login))
    assert not [line for line in lines if "error" in line]
    yield f"{repository}:1"
    remove_own_images(engine_client, lambda name: name.startswith((f"{repository}:", f"{repository}@")))


def start(airflow: AirflowApi, image: str, args: str) -> Run:
    return Run.start(airflow, DAG, {"image": image, "args": args})


def wait_for_running(run: Run, training: TrainingClient) -> str:
    """Return the id of the run's job once it runs and the triggerer shows the trainer's line."""
    run.wait_for_task(WAIT, "deferred")
    wait_until(lambda: "the trainer is up" in run.log(WAIT), "the trainer's line")
    job_id: str = run.xcom("submit")
    wait_until(lambda: training.get_job(job_id).state is JobState.RUNNING, f"job {job_id} runs")
    return job_id


def test_a_failed_job_leaves_no_grant_and_a_cleared_run_none_that_is_not_its_own(
    airflow: AirflowApi, image: str, policy: Policy
) -> None:
    run = start(airflow, image, "python3 -c 'raise SystemExit(3)'")
    ended = run.wait_for_end()
    states, after_the_run = run.states(), policy()

    first = {task: run.tries(task) for task in ("grant", "revoke")}
    policy(AGENT)  # the owner lets the account in for good
    path = f"/api/v2/dags/{DAG}/dagRuns/{run.run_id}/clear"
    run.api.call("POST", path, json={"dry_run": False})
    wait_until(lambda: run.tries("revoke") > first["revoke"], "the cleared run's revoke")
    run.wait_for_end()

    assert (ended, states[WAIT], states["revoke"]) == ("failed", "failed", "success")
    assert after_the_run == []
    assert policy() == [AGENT]
    assert "nothing has to be granted" in run.log("grant")


def test_a_killed_wait_leaves_no_grant(
    airflow: AirflowApi, image: str, policy: Policy, training: TrainingClient
) -> None:
    run = start(airflow, image, SLEEPS)
    job_id = wait_for_running(run, training)
    during = policy()

    run.wait_until_watched(WAIT)
    run.mark(WAIT, "failed")

    assert run.wait_for_end() == "failed"
    wait_until(lambda: training.get_job(job_id).state is JobState.CANCELLED, "the job is cancelled")
    assert (during, run.states()["revoke"], policy()) == ([AGENT], "success", [])


@pytest.mark.extended
def test_a_run_that_is_cleared_and_then_ended_by_a_person_leaves_no_grant(
    airflow: AirflowApi, image: str, policy: Policy, training: TrainingClient
) -> None:
    run = start(airflow, image, SLEEPS)
    wait_for_running(run, training)

    first = {task: run.tries(task) for task in ("grant", WAIT)}
    run.api.call("POST", f"/api/v2/dags/{DAG}/dagRuns/{run.run_id}/clear", json={"dry_run": False})
    wait_until(lambda: run.tries("grant") > first["grant"], "the second grant")
    wait_until(lambda: run.tries(WAIT) > first[WAIT], "the second wait")
    job_id = wait_for_running(run, training)
    during = policy()
    run.mark_run("failed")

    wait_until(lambda: training.get_job(job_id).state is JobState.CANCELLED, "the job is cancelled")
    wait_until(lambda: run.states()["revoke"] == "success", "the revoke")
    assert (during, policy()) == ([AGENT], [])
