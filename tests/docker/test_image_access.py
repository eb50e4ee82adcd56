"""
Who may pull and push, on a real registry and engine.

The policies decide, whatever the engine has already.
"""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import docker
import httpx
import jwt
import pytest

from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from container_training.work.images.registry import manifest_digest
from local_stack.people.credentials import DEVELOPER, developer_token, developers_header, registry_login
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.job_watch import until_end
from tests.support.bed.vertex import make_real_pool, run_custom_job
from tests.support.fakes.task_state import TaskState
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.errors import PushFailed
from training_api.iam.registry_wire import manifest_url
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.states import JobState
from training_service.access.registry_tokens import ISSUER, SERVICE
from training_service.access.signing_key import SigningKey

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.docker

OTHER = "other-project"
AGENT = f"serviceAccount:{ML_AGENT.email('demo-project')}"
VERTEX_AGENT = VERTEX_V1.agent.email("demo-project")


def set_policy(stack: LocalStack, resource: str, role: str = "", member: str = "") -> None:
    """Make one binding the whole policy of ``resource``; without one, empty it."""
    bindings = [{"role": role, "members": [member]}] if role else []
    web.post(
        f"{stack.settings.training_url}/v1/{resource}:setIamPolicy",
        json={"policy": {"bindings": bindings}},
        headers=developers_header(stack.settings),
    ).raise_for_status()


def push(stack: LocalStack, api: docker.APIClient, repository: str, **arguments: Any) -> list[dict[str, Any]]:
    login = arguments.pop("login", None) or registry_login(stack.settings)
    return list(api.push(repository, "1", stream=True, decode=True, auth_config=login))


def build(api: docker.APIClient, base_image: str, repository: str) -> None:
    """Build an image of which nobody has the last layer."""
    dockerfile = f'FROM {base_image}\nLABEL once={uuid.uuid4().hex}\nCMD ["python3", "-c", "print(42)"]\n'
    lines = list(api.build(fileobj=io.BytesIO(dockerfile.encode()), tag=f"{repository}:1", rm=True))
    assert b"Successfully tagged" in b"".join(lines)


def forget(api: docker.APIClient, ref: ImageRef) -> None:
    """Remove the image from the engine, with every name that it has."""
    for image_id in {image["Id"] for image in api.images(ref.name)}:
        api.remove_image(image_id, force=True)


@pytest.fixture
def foreign(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[ImageRef]:
    """An image of another project, by tag and digest; the engine has it, too."""
    set_policy(stack, f"projects/{OTHER}", "roles/owner", DEVELOPER)
    repository = f"{stack.settings.registry}/{OTHER}/tiny-{uuid.uuid4().hex[:6]}"
    build(engine_client, base_image, repository)
    lines = push(stack, engine_client, repository)
    (digest,) = [line["aux"]["Digest"] for line in lines if "aux" in line]
    yield parse_image_ref(f"{repository}:1@{digest}")
    set_policy(stack, f"projects/{OTHER}")
    forget(engine_client, parse_image_ref(f"{repository}:1"))


def policy_resource(image: ImageRef) -> str:
    return f"projects/{OTHER}/locations/local/repositories/{image.repository.partition('/')[2]}"


@pytest.fixture
def run(training: TrainingClient) -> Callable[[str], Job]:
    """Run an image as a job of the demo project and return the job as it ended."""

    def run(image: str) -> Job:
        job_id = f"job_{uuid.uuid4().hex[:12]}"
        config = ReplicaConfig(image_uri=image)
        training.create_job(
            Job(job_id=job_id, training_input=TrainingInput(region="us-central1", master_config=config))
        )
        return until_end(training, job_id)

    return run


def test_an_image_of_another_project_is_denied_also_where_the_engine_has_it(
    run: Callable[[str], Job], foreign: ImageRef
) -> None:
    aliased = foreign.name.replace("127.0.0.1", "localhost")

    for image in (f"{foreign.name}:1", f"{foreign.name}@{foreign.digest}", f"{aliased}@{foreign.digest}"):
        job = run(image)
        message = job.error_message or ""
        assert job.state is JobState.FAILED
        assert f"{AGENT} needs roles/artifactregistry.reader on {policy_resource(foreign)}" in message
        assert "add-iam-policy-binding" in message


@pytest.mark.parametrize(
    ("on_project", "role"), [(False, "roles/artifactregistry.reader"), (True, "roles/ml.serviceAgent")]
)
@pytest.mark.proves("images that need a token", on="one machine")
def test_a_grant_lets_the_engine_pull_and_its_end_stops_that(
    stack: LocalStack,
    run: Callable[[str], Job],
    foreign: ImageRef,
    engine_client: docker.APIClient,
    on_project: bool,
    role: str,
) -> None:
    resource = f"projects/{OTHER}" if on_project else policy_resource(foreign)
    forget(engine_client, foreign)
    set_policy(stack, resource, role, AGENT)

    granted = run(f"{foreign.name}:1")
    set_policy(stack, resource)
    revoked = run(f"{foreign.name}@{foreign.digest}")

    assert granted.state is JobState.SUCCEEDED, granted.error_message
    assert engine_client.images(foreign.name)
    assert revoked.state is JobState.FAILED
    assert "permission denied" in (revoked.error_message or "")


@pytest.fixture
def run_of_vertex(stack: LocalStack, locations: Any) -> Callable[[str], dict[str, Any]]:
    """Run an image as a CustomJob of the demo project and return the job as it ended."""
    jobs = locations.customJobs()
    return lambda image: run_custom_job(jobs, stack.settings.project, [make_real_pool(image)])


def test_a_grant_to_the_agent_of_one_api_is_none_to_the_other(
    stack: LocalStack,
    run: Callable[[str], Job],
    run_of_vertex: Callable[[str], dict[str, Any]],
    foreign: ImageRef,
    engine_client: docker.APIClient,
) -> None:
    resource, image, reader = policy_resource(foreign), f"{foreign.name}:1", "roles/artifactregistry.reader"
    forget(engine_client, foreign)

    set_policy(stack, resource, reader, AGENT)
    denied, pulled = run_of_vertex(image), run(image)
    set_policy(stack, resource, reader, f"serviceAccount:{VERTEX_AGENT}")
    pulled_by_vertex, denied_by_ml = run_of_vertex(image), run(image)

    assert (denied["state"], denied["error"]["code"]) == ("JOB_STATE_FAILED", 9)
    assert (
        f"Vertex AI Service Agent {VERTEX_AGENT} does not have permission to access Artifact Registry "
        f"repository {resource}."
    ) in denied["error"]["message"]
    assert pulled.state is JobState.SUCCEEDED, pulled.error_message
    assert pulled_by_vertex["state"] == "JOB_STATE_SUCCEEDED", pulled_by_vertex
    assert denied_by_ml.state is JobState.FAILED
    assert f"{AGENT} needs {reader} on {resource}" in (denied_by_ml.error_message or "")


def test_the_operators_let_the_agent_of_vertex_ai_in_and_out(
    stack: LocalStack,
    run_of_vertex: Callable[[str], dict[str, Any]],
    foreign: ImageRef,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = {"project": stack.settings.project}
    connection = {
        "conn_type": "container_training",
        "host": stack.settings.training_url,
        "password": developer_token(stack.settings),
        "extra": extra,
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    image, context = f"{foreign.name}:1", cast("Context", {"task_state_store": TaskState()})

    grant = GrantRegistryAccessOperator(task_id="grant", image=image, agent="vertex_v1").execute(context)
    granted = run_of_vertex(image)
    RevokeRegistryAccessOperator(task_id="revoke", grant=grant).execute(context)
    revoked = run_of_vertex(image)

    assert (grant["member"], grant["resource"]) == (
        f"serviceAccount:{VERTEX_AGENT}",
        policy_resource(foreign),
    )
    assert granted["state"] == "JOB_STATE_SUCCEEDED", granted
    assert (revoked["state"], revoked["error"]["code"]) == ("JOB_STATE_FAILED", 9)


def test_a_missing_image_of_the_own_project_is_said_to_be_missing(
    run: Callable[[str], Job], stack: LocalStack
) -> None:
    job = run(f"{stack.settings.image_prefix}/never-pushed:1")

    assert job.state is JobState.FAILED
    assert "manifest unknown" in (job.error_message or "")


def test_a_tag_that_moved_runs_what_the_registry_has_and_not_what_the_engine_has(
    run: Callable[[str], Job],
    training: TrainingClient,
    stack: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
) -> None:
    repository = f"{stack.settings.image_prefix}/moving"
    build(engine_client, base_image, repository)
    (first,) = [line["aux"]["Digest"] for line in push(stack, engine_client, repository) if "aux" in line]
    build(engine_client, base_image, repository)  # the engine's tag is ahead, the registry's is not

    job = run(f"{repository}:1")

    notes = training.list_log_entries(f'resource.labels.job_id="{job.job_id}"').entries or []
    assert job.state is JobState.SUCCEEDED
    assert f"{repository}@{first}" in "\n".join(entry.message for entry in notes)
    forget(engine_client, parse_image_ref(f"{repository}:1"))


def test_a_push_needs_a_right_to_write(
    stack: LocalStack, engine_client: docker.APIClient, pushed_image: ImageRef
) -> None:
    repository = f"{stack.settings.registry}/nobodys-project/x"
    engine_client.tag(str(pushed_image), repository, "1")
    wrong = {"username": "oauth2accesstoken", "password": "not-the-developers-token"}
    try:
        denied = push(stack, engine_client, repository)
        unknown = push(stack, engine_client, repository, login=wrong)
    finally:
        engine_client.remove_image(f"{repository}:1")

    assert "denied: requested access to the resource is denied" in denied[-1]["error"]
    assert "unauthorized: invalid username or password" in unknown[-1]["error"]


def test_the_projects_own_clients_answer_the_registrys_challenge(
    stack: LocalStack, pushed_image: ImageRef
) -> None:
    assert manifest_digest(pushed_image, login=registry_login(stack.settings)) == pushed_image.digest
    with pytest.raises(PushFailed, match="check the registry login"):
        manifest_digest(pushed_image, login={})


def registry_token(key: SigningKey, repository: str, **changes: Any) -> str:
    now = datetime.now(UTC)
    access = [{"type": "repository", "name": repository, "actions": ["pull"]}]
    claims = {
        "iss": ISSUER,
        "sub": AGENT,
        "aud": SERVICE,
        "iat": now,
        "nbf": now,
        "exp": now + timedelta(minutes=5),
        "access": access,
    }
    return jwt.encode(claims | changes, key.private, "ES256", headers={"kid": key.id})


def test_the_registry_takes_only_good_tokens_of_its_own_service(
    stack: LocalStack, pushed_image: ImageRef
) -> None:
    key = SigningKey.load_or_make(stack.settings.key_dir)
    past = datetime.now(UTC) - timedelta(hours=1)
    name = pushed_image.repository

    def status(token: str) -> int:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.docker.distribution.manifest.v2+json",
        }
        return httpx.head(manifest_url(pushed_image), headers=headers, trust_env=False).status_code

    assert status(registry_token(key, name)) == 200
    bad = {
        "another repository": registry_token(key, "demo-project/another"),
        "no access": registry_token(key, name, access=[]),
        "push only": registry_token(
            key, name, access=[{"type": "repository", "name": name, "actions": ["push"]}]
        ),
        "expired": registry_token(key, name, iat=past, nbf=past, exp=past + timedelta(minutes=5)),
        "another audience": registry_token(key, name, aud="another-registry"),
        "another issuer": registry_token(key, name, iss="somebody"),
        "another service's key": registry_token(SigningKey.generate(), name),
        "the developer's own token": developer_token(stack.settings),
        "nonsense": "nonsense",
    }
    assert {what: status(token) for what, token in bad.items()} == dict.fromkeys(bad, 401)


def test_no_token_is_in_any_log_of_the_stack(
    stack: LocalStack, run: Callable[[str], Job], pushed_image: ImageRef
) -> None:
    assert manifest_digest(pushed_image, login=registry_login(stack.settings))
    run(str(pushed_image))

    logs = {path.name: path.read_text(errors="replace") for path in stack.settings.log_dir.iterdir()}
    assert "token for the registry" in logs["training.log"]
    for text in logs.values():
        assert developer_token(stack.settings) not in text
        assert not re.search(r"eyJ[\w-]{10,}\.[\w-]{10,}\.", text)
