"""
A trainer's identity in real containers of jobs.

``google.auth.default()`` and google-cloud-storage work without a key and without a change.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import docker
import pytest

from local_stack.parts.gateway import find_gateway
from local_stack.people.credentials import registry_login
from local_stack.settings import CONTAINER_HOST_NAME
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.job_watch import until_end
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.project_number import project_number
from training_api.states import JobState
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.signing_key import SigningKey

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PROJECT = "demo-project"
ACCOUNT = "trainer@demo-project.iam.gserviceaccount.com"
#: boto.cfg as in the guide, for gsutil.
DOCKERFILE = """
FROM {base}
RUN pip install --no-cache-dir google-auth requests google-cloud-storage
RUN echo '[GoogleCompute]\\nservice_account = default' > /etc/boto.cfg
"""
WHO = """
import json, google.auth, google.auth.transport.requests as transport
from google.cloud import storage
credentials, project = google.auth.default()
credentials.refresh(transport.Request())
bucket = storage.Client().bucket("{bucket}")
bucket.blob("{folder}/from-a-job.txt").upload_from_string("by " + credentials.service_account_email)
found = {{"project": project, "email": credentials.service_account_email, "token": credentials.token}}
print("WHO", json.dumps(found))
"""


@pytest.fixture(scope="module")
def image(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[str]:
    """An image with Google's libraries, in the registry."""
    repository = f"{stack.settings.image_prefix}/google"
    dockerfile = io.BytesIO(DOCKERFILE.format(base=base_image).encode())
    lines = b"".join(
        engine_client.build(fileobj=dockerfile, tag=f"{repository}:1", rm=True, network_mode="host")
    )
    assert b"Successfully tagged" in lines, lines[-3000:]
    login = registry_login(stack.settings)
    pushed = list(engine_client.push(repository, "1", stream=True, decode=True, auth_config=login))
    assert not [line for line in pushed if "error" in line]
    yield f"{repository}:1"
    engine_client.remove_image(f"{repository}:1", force=True)


@pytest.fixture
def run(training: TrainingClient, image: str) -> Callable[..., list[str]]:
    """Run a program as a job to its good end; returns what it printed."""

    def run(program: str, **training_input: Any) -> list[str]:
        job_id = f"job_{uuid.uuid4().hex[:12]}"
        config = ReplicaConfig(image_uri=image, container_command=["python3", "-u", "-c", program])
        training.create_job(
            Job(
                job_id=job_id,
                training_input=TrainingInput(region="us-central1", master_config=config, **training_input),
            )
        )
        job = until_end(training, job_id)
        page = training.list_log_entries(job_log_filter(job_id, task_name="master-replica-0"))
        lines = [entry.message for entry in page.entries or []]
        assert job.state is JobState.SUCCEEDED, (job.error_message, lines)
        return lines

    return run


@pytest.mark.parametrize("account", [None, ACCOUNT])
@pytest.mark.proves("metadata endpoint", on="one machine")
def test_a_trainer_is_its_jobs_account_and_reaches_the_object_store(
    run: Callable[..., list[str]], stack: LocalStack, account: str | None
) -> None:
    bucket, folder = stack.settings.bucket, f"jobs/{uuid.uuid4().hex}"
    lines = run(
        WHO.format(bucket=bucket, folder=folder), service_account=account, job_dir=f"gs://{bucket}/{folder}"
    )

    (line,) = [line for line in lines if line.startswith("WHO ")]
    found = json.loads(line.removeprefix("WHO "))
    email = account or ML_AGENT.email(PROJECT)
    assert (found["project"], found["email"]) == (PROJECT, email)
    tokens = IdentityTokens(SigningKey.load_or_make(stack.settings.key_dir))
    assert Authenticator({}, tokens).caller_of(found["token"]).principal == f"serviceAccount:{email}"
    name = quote(f"{folder}/from-a-job.txt", safe="")
    url = f"{stack.settings.object_store_url}/storage/v1/b/{bucket}/o/{name}?alt=media"
    assert web.get(url).text == f"by {email}"


def test_the_metadata_say_which_project_also_without_the_variable(run: Callable[..., list[str]]) -> None:
    lines = run(
        "import os; del os.environ['GOOGLE_CLOUD_PROJECT']\n"
        "import google.auth\nprint('IS', google.auth.default()[1])\n"
        "import urllib.request as u\n"
        "url = 'http://' + os.environ['GCE_METADATA_HOST'] + '/computeMetadata/v1/project/numeric-project-id'\n"
        "print('IS', u.urlopen(u.Request(url, headers={'Metadata-Flavor': 'Google'})).read().decode())\n"
    )

    assert [line for line in lines if line.startswith("IS")] == [
        f"IS {PROJECT}",
        f"IS {project_number(PROJECT)}",
    ]


def test_who_is_no_job_is_refused(stack: LocalStack, base_image: str) -> None:
    gateway = find_gateway(stack.settings.engine_url)
    path = "computeMetadata/v1/instance/service-accounts/default/token"
    header = {"Metadata-Flavor": "Google"}
    url = f"http://{gateway}:{stack.settings.metadata_port}/{path}"

    assert web.get(url, headers=header).status_code == 403
    client = docker.DockerClient(base_url=stack.settings.engine_url)
    program = (
        "import urllib.request as u, urllib.error\n"
        f"url = 'http://{CONTAINER_HOST_NAME}:{stack.settings.metadata_port}/{path}'\n"
        f"try: u.urlopen(u.Request(url, headers={header!r})); print('let in')\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    try:
        printed = client.containers.run(
            base_image,
            ["python3", "-c", program],
            extra_hosts={CONTAINER_HOST_NAME: "host-gateway"},
            remove=True,
        )
    finally:
        client.close()
    assert printed.decode().strip() == "403"
