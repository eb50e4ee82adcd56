"""CustomJobs of Vertex AI in real containers, by Google's clients as they are published."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from local_stack.stack import LocalStack
from tests.support.bed.vertex import make_real_pool, run_custom_job
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.vertex_v1.dialect import AGENT
from training_api.job.image_ref import ImageRef

pytestmark = pytest.mark.docker

#: The worker finds the chief by CLUSTER_SPEC and says a word to it; the chief shows what it knows.
MEETING = """
import json, os, socket, sys, time

spec = json.loads(os.environ["CLUSTER_SPEC"])
host, port = spec["cluster"]["workerpool0"][0].rsplit(":", 1)
if spec["task"]["type"] == "workerpool0":
    with socket.create_server(("", int(port))) as server:
        peer, _ = server.accept()
        word = peer.recv(100).decode()
    tf = json.loads(os.environ["TF_CONFIG"])
    names = ("AIP_MODEL_DIR", "CLOUD_ML_JOB_ID", "CLOUD_ML_REGION")
    known = {name: os.environ[name] for name in names}
    print("told", json.dumps({"word": word, "task": tf["task"], "args": sys.argv[1:], **known}), flush=True)
else:
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as chief:
                chief.sendall(os.environ["WORD"].encode())
            break
        except OSError:
            time.sleep(0.1)
"""


#: It asks the metadata endpoint whose rights it has.
WHO = """
import os
from urllib.request import Request, urlopen

url = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/instance/service-accounts/default/email"
print("I am", urlopen(Request(url, headers={"Metadata-Flavor": "Google"})).read().decode())
"""


@pytest.fixture
def jobs(locations: Any) -> Any:
    """``customJobs`` of google-api-python-client."""
    return locations.customJobs()


def messages_of(training: TrainingClient, job: dict[str, Any]) -> list[str]:
    """Return what the job wrote; both dialects' logs are read by the same API."""
    job_id = job["name"].rpartition("/")[2]
    return [entry.message or "" for entry in training.list_log_entries(job_log_filter(job_id)).entries or []]


def replicas_of(training: TrainingClient, job: dict[str, Any]) -> set[str]:
    """Return who wrote into the job's log."""
    job_id = job["name"].rpartition("/")[2]
    return {entry.task_name for entry in training.list_log_entries(job_log_filter(job_id)).entries or []}


def test_pools_meet_and_know_what_vertex_ai_tells_them(
    jobs: Any, stack: LocalStack, training: TrainingClient, pushed_image: ImageRef
) -> None:
    base = f"{stack.settings.job_bucket}/vertex"
    pools = [
        make_real_pool(pushed_image, MEETING, "--who=$(WHO)", "$$(WHO)", WHO="chief"),
        make_real_pool(pushed_image, MEETING, FIRST="from the", WORD="$(FIRST) worker"),
    ]

    job = run_custom_job(jobs, stack.settings.project, pools, baseOutputDirectory={"outputUriPrefix": base})

    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert replicas_of(training, job) == {"service", "workerpool0-0"}  # the worker says nothing
    lines = messages_of(training, job)
    assert any(line.startswith("Image of workerpool0-0 and 1 more is ") for line in lines)
    assert not [line for line in lines if "-replica-" in line]
    (told,) = [text for text in lines if text.startswith("told ")]
    assert json.loads(told.removeprefix("told ")) == {
        "word": "from the worker",
        "task": {"type": "chief", "index": 0},
        "args": ["--who=chief", "$(WHO)"],
        "AIP_MODEL_DIR": f"{base}/model/",
        "CLOUD_ML_JOB_ID": job["name"].rpartition("/")[2],
        "CLOUD_ML_REGION": "us-central1",
    }


def test_a_trainer_is_the_custom_code_service_agent_or_the_account_of_its_job(
    jobs: Any, stack: LocalStack, training: TrainingClient, pushed_image: ImageRef
) -> None:
    account = "trainer@demo-project.iam.gserviceaccount.com"
    pools = [make_real_pool(pushed_image, WHO)]

    by_default = run_custom_job(jobs, stack.settings.project, pools)
    named = run_custom_job(jobs, stack.settings.project, pools, serviceAccount=account)

    assert f"I am {AGENT.email(stack.settings.project)}" in messages_of(training, by_default)
    assert f"I am {account}" in messages_of(training, named)


def test_an_error_of_the_trainer_has_the_words_of_vertex_ai(
    jobs: Any, stack: LocalStack, pushed_image: ImageRef
) -> None:
    program = "import sys; print('no data', file=sys.stderr); raise SystemExit(3)"

    job = run_custom_job(jobs, stack.settings.project, [make_real_pool(pushed_image, program)])

    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_FAILED", 3)
    assert job["error"]["message"].startswith(
        "The replica workerpool0-0 exited with a non-zero status of 3. Termination reason: Error. \nno data\n\n"
    )


def test_a_job_over_grpc_runs_and_is_the_same_over_rest(
    jobs: Any, stack: LocalStack, training: TrainingClient, pushed_image: ImageRef
) -> None:
    from google.cloud.aiplatform_v1 import CustomJob, JobServiceClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport

    sent = {
        "displayName": "gRPC",
        "jobSpec": {"workerPoolSpecs": [make_real_pool(pushed_image, "print('it runs')")]},
    }
    parent = f"projects/{stack.settings.project}/locations/us-central1"
    trusted = (stack.settings.certificates_dir / "authority.pem").read_bytes()
    address = f"127.0.0.1:{stack.settings.grpc_port}"
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(trusted)) as channel:
        client = JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
        name = client.create_custom_job(parent=parent, custom_job=CustomJob.from_json(json.dumps(sent))).name
        wait_until(lambda: client.get_custom_job(name=name).end_time, f"{name} has ended", seconds=120)
        ended = MessageToDict(client.get_custom_job(name=name)._pb)

    assert ended["state"] == "JOB_STATE_SUCCEEDED", ended
    assert ended == jobs.get(name=name).execute()
    assert "it runs" in messages_of(training, ended)
