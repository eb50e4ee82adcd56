"""A job's right to its image, asked of a registry that ``httpx.MockTransport`` plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import httpx
import jwt
import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.dialects.registry import DIALECTS
from training_api.errors import ImageAccessDenied, ImageNotFound, RegistryUnavailable
from training_api.iam.wire import Binding, Policy
from training_api.job.image_ref import parse_image_ref
from training_api.job.job_spec import JobSpec
from training_api.job.project_number import project_number
from training_api.states import JobState
from training_service.access.control import AccessControl
from training_service.access.decision import agent_principal
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.image_access import AnyImage, CheckedImages, ImageAccess
from training_service.access.registry_tokens import RegistryTokens
from training_service.access.signing_key import SigningKey
from training_service.store.database import open_database
from training_service.store.policy_store import PolicyStore

REGISTRY = "127.0.0.1:5000"
DIGEST = "sha256:" + "a" * 64
REPOSITORY = "projects/other/locations/local/repositories/trainer"
JOB = JobSpec(project="project", job_id="job", replicas=())
OF_VERTEX = replace(JOB, dialect="vertex_v1")
OWN, FOREIGN = f"{REGISTRY}/project/trainer:1", f"{REGISTRY}/other/trainer:1"


def images(answer: Callable[[httpx.Request], httpx.Response], reader: str = "") -> ImageAccess:
    key = SigningKey.generate()
    policies = PolicyStore(open_database("sqlite://"))
    if reader:
        grant = Binding(role="roles/artifactregistry.reader", members=[reader])
        assert policies.replace(REPOSITORY, Policy(bindings=[grant]), seen_version=0)
    agents = [each.agent for each in DIALECTS.values()]
    control = AccessControl(policies, Authenticator({}, IdentityTokens(key)), agents=agents)
    return CheckedImages(REGISTRY, RegistryTokens(key, control), DIALECTS, httpx.MockTransport(answer))


def found(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})


def never(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"nobody should ask for {request.url}")


def test_the_registry_is_asked_with_a_token_for_this_repository_alone() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return found(request)

    allowed = images(answer).pullable(JOB, parse_image_ref(OWN))

    (request,) = asked
    assert (request.method, request.url.path) == ("HEAD", "/v2/project/trainer/manifests/1")
    assert request.headers["Authorization"] == f"Bearer {allowed.token}"
    claims = jwt.decode(allowed.token, options={"verify_signature": False})
    assert claims["access"] == [{"type": "repository", "name": "project/trainer", "actions": ["pull"]}]
    assert str(allowed.ref) == f"{REGISTRY}/project/trainer@{DIGEST}"
    assert allowed.token not in repr(allowed)


@pytest.mark.parametrize("host", [REGISTRY, "localhost:5000", "127.0.0.9:5000"])
def test_the_image_of_another_project_is_denied_under_every_name_of_the_registry(host: str) -> None:
    image = parse_image_ref(f"{host}/other/trainer@{DIGEST}")

    with pytest.raises(ImageNotFound, match=r"needs roles/artifactregistry\.reader on") as caught:
        images(never).pullable(JOB, image)

    assert "serviceAccount:service-" in str(caught.value)
    assert "projects/other/locations/local/repositories/trainer" in str(caught.value)
    assert (
        "gcloud artifacts repositories add-iam-policy-binding trainer --project=other --location=local"
        in str(caught.value)
    )


def test_each_dialect_pulls_as_its_own_agent() -> None:
    for granted, other in ((JOB, OF_VERTEX), (OF_VERTEX, JOB)):
        access = images(found, agent_principal(DIALECTS[granted.dialect].agent, "project"))

        assert access.pullable(granted, parse_image_ref(FOREIGN)).token
        with pytest.raises(ImageAccessDenied) as caught:
            access.pullable(other, parse_image_ref(FOREIGN))
        assert DIALECTS[other.dialect].agent.email("project") in str(caught.value)
        assert DIALECTS[granted.dialect].agent.email("project") not in str(caught.value)


def test_vertex_ai_denies_in_its_own_words_and_says_the_way_out() -> None:
    agent = f"service-{project_number('project')}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"

    with pytest.raises(ImageAccessDenied) as caught:
        images(never).pullable(OF_VERTEX, parse_image_ref(FOREIGN))

    assert str(caught.value) == (
        f"Vertex AI Service Agent {agent} does not have permission to access Artifact Registry repository "
        f"{REPOSITORY}. Grant it with gcloud artifacts repositories add-iam-policy-binding trainer "
        f"--project=other --location=local --member=serviceAccount:{agent} "
        "--role=roles/artifactregistry.reader"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_refuses_the_token_is_a_denial(status: int) -> None:
    with pytest.raises(ImageNotFound, match="permission denied"):
        images(lambda _: httpx.Response(status)).pullable(JOB, parse_image_ref(OWN))


def test_an_image_that_is_not_there_is_named() -> None:
    with pytest.raises(ImageNotFound, match=rf"has no image {OWN}: manifest unknown"):
        images(lambda _: httpx.Response(404)).pullable(JOB, parse_image_ref(OWN))


def silent(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectTimeout("timed out", request=request)


@pytest.mark.parametrize(
    "answer", [silent, lambda _: httpx.Response(503), lambda _: httpx.Response(200)], ids=str
)
def test_a_registry_in_trouble_may_answer_later(answer: Callable[[httpx.Request], httpx.Response]) -> None:
    with pytest.raises(RegistryUnavailable):
        images(answer).pullable(JOB, parse_image_ref(OWN))


@pytest.mark.parametrize("image", ["gcr.io/other/x:1", "127.0.0.1:5001/other/x:1", "10.0.0.1:5000/other/x:1"])
def test_other_registries_decide_by_themselves(image: str) -> None:
    ref = parse_image_ref(image)

    for access in (images(never), AnyImage()):
        allowed = access.pullable(JOB, ref)
        assert (allowed.ref, allowed.token) == (ref, "")


def test_a_name_without_a_repository_is_refused() -> None:
    with pytest.raises(ImageNotFound, match="names no repository"):
        images(never).pullable(JOB, parse_image_ref(f"{REGISTRY}/alone:1"))


def test_a_job_whose_image_is_denied_fails_before_anything_is_pulled() -> None:
    world = World(open_database("sqlite://"), image_access=images(never))
    world.add_image(Behaviour(), FOREIGN)
    world.submit(image=FOREIGN)

    world.settle()

    job = world.get()
    assert job.state is JobState.FAILED
    assert "permission denied: serviceAccount:service-" in (job.error_message or "")
    assert world.engine.tokens == []


def test_a_job_is_pulled_by_digest_with_its_token_and_the_token_is_in_no_log() -> None:
    world = World(open_database("sqlite://"), image_access=images(found))
    world.add_image(Behaviour(), f"{REGISTRY}/project/trainer@{DIGEST}")
    world.submit(image=OWN)

    world.settle()

    (token,) = world.engine.tokens
    assert world.state() is JobState.RUNNING
    assert token
    assert not [line for line in world.messages() if token in line]


def test_a_silent_registry_is_asked_again_until_the_limit() -> None:
    world = World(open_database("sqlite://"), image_access=images(silent), pull_retry=timedelta(seconds=60))
    world.submit(image=OWN)

    world.settle()
    assert world.state() is JobState.PREPARING
    for _ in range(4):
        world.engine.advance(20)
        world.settle()
    assert world.state() is JobState.FAILED
